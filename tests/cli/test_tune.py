"""`veilgraph tune` from end to end, on the embedded block model."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from veilgraph.cli import main
from veilgraph.experiments.tune import SEARCH_SPACE

Capture = pytest.CaptureFixture[str]
QUICK = ["--set=trials=2", "--set=seeds=2", "--set=epochs=2", "--sampled=5", "--device=cpu"]


def test_what_was_found_is_printed_and_kept(tmp_path: Path, capsys: Capture) -> None:
    arguments = ["tune", "csbm", "--epsilon-y=2", "--epsilon-y=0.5", *QUICK, f"--out={tmp_path}"]
    assert main([*arguments, "--json"]) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert set(found) == {"csbm"}
    assert set(found["csbm"]) == {"2", "0.5"}
    for search in found["csbm"].values():
        assert set(search) == {"parameters", "best", "advantage", "standard_error", "needed"}
        assert set(search["parameters"]) == set(search["best"]) == set(SEARCH_SPACE)
    parameters = {"csbm": {budget: search["parameters"] for budget, search in found["csbm"].items()}}
    assert "tune csbm, epsilon_y 0.5" in captured.err
    # The file has the form of the hyper-parameters that experiments read.
    assert tomllib.loads((tmp_path / "csbm.toml").read_text(encoding="utf-8")) == parameters
    assert (tmp_path / "csbm.journal").stat().st_size > 0
    # The same command has nothing left to search, and prints TOML to a person.
    assert main(arguments) == 0
    assert tomllib.loads(capsys.readouterr().out) == parameters


MISTAKES = {
    "data set": (["atlantis"], "no data set 'atlantis'"),
    "trials": (["csbm", "--set", "trials=0"], "trials is 0"),
    "seeds": (["csbm", "--set", "seeds=0"], "seeds is 0"),
    "epochs": (["csbm", "--set", "epochs=0"], "epochs is 0"),
    "label budget": (["csbm", "--epsilon-y", "0"], "epsilon_y is 0.0"),
    "feature budget": (["csbm", "--epsilon-x=-1"], "epsilon_x is -1.0"),
    "device": (["csbm", "--device", "tpu"], "device is 'tpu'"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_with_the_remedy_and_exit_code_2(
    mistake: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, expected = MISTAKES[mistake]
    assert main(["tune", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    line = captured.err.splitlines()[-1]
    assert line.startswith("error: ")
    assert expected in line
    assert not list(tmp_path.rglob("*.toml"))
