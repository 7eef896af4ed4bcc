"""The model folder: whole or refused, and nothing else is overwritten."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.collected import Collected
from veilgraph.deploy import Model
from veilgraph.deploy.fit_collected import fit_reports, method_for_graph
from veilgraph.errors import RunError


def test_a_folder_with_other_files_is_not_written_to_and_an_older_model_is(
    collected: Collected, tmp_path: Path
) -> None:
    graph = collected.perturbed.graph
    method = method_for_graph("plain", graph, epochs=1, device="cpu")
    model = fit_reports(collected.campaign, collected.perturbed, method)
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").touch()
    with pytest.raises(RunError, match=r"'thesis\.tex'"):
        model.save(other)
    for _ in range(2):
        model.save(tmp_path / "model")
    np.testing.assert_array_equal(
        Model.load(tmp_path / "model", device="cpu").method.predict_proba(), model.method.predict_proba()
    )


def test_what_a_killed_process_left_behind_is_no_stranger(collected: Collected, tmp_path: Path) -> None:
    (tmp_path / ".checkpoint.npz.17.part").touch()
    method = method_for_graph("plain", collected.perturbed.graph, epochs=1)
    fit_reports(collected.campaign, collected.perturbed, method, folder=tmp_path).save(tmp_path)
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".jsonl", ".npz"}


@pytest.mark.parametrize("missing", ["training.json", "campaign.json", "reports.jsonl"])
def test_an_unfinished_model_is_refused(trained: Path, tmp_path: Path, missing: str) -> None:
    for path in trained.iterdir():
        if path.name != missing:
            (tmp_path / path.name).write_bytes(path.read_bytes())
    with pytest.raises(RunError, match="no model"):
        Model.load(tmp_path)
