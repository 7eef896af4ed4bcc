"""The search of hyper-parameters from end to end, on the embedded block model."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from veilgraph.errors import VeilgraphError
from veilgraph.experiments.tune import SEARCH_SPACE
from veilgraph.experiments.tune_datasets import main

Capture = pytest.CaptureFixture[str]
QUICK = ["--trials=2", "--seeds=2", "--epochs=2", "--sampled=5", "--device=cpu"]


def test_what_was_found_is_printed_and_kept(tmp_path: Path, capsys: Capture) -> None:
    arguments = ["csbm", "--epsilon-y=2", "--epsilon-y=0.5", *QUICK, f"--out={tmp_path}"]
    main(arguments)
    parameters = tomllib.loads(capsys.readouterr().out)
    assert set(parameters) == {"csbm"}
    assert set(parameters["csbm"]) == {"2", "0.5"}
    assert all(set(found) == set(SEARCH_SPACE) for found in parameters["csbm"].values())
    # The file has the form of the hyper-parameters that experiments read.
    assert tomllib.loads((tmp_path / "csbm.toml").read_text(encoding="utf-8")) == parameters
    assert (tmp_path / "csbm.journal").stat().st_size > 0
    # The same command has nothing left to search.
    main(arguments)
    assert tomllib.loads(capsys.readouterr().out) == parameters


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["atlantis"], "no data set 'atlantis'"),
        (["csbm", "--trials=0"], "trials is 0"),
        (["csbm", "--epsilon-y=0"], "epsilon_y is 0.0"),
        (["csbm", "--device=tpu"], "device is 'tpu'"),
    ],
)
def test_a_mistake_writes_nothing(arguments: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(VeilgraphError, match=message):
        main([*arguments, f"--out={tmp_path}"])
    assert not list(tmp_path.rglob("*.toml"))
