"""`veilgraph run`: complete, resumable, reproducible."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from veilgraph.datasets import csbm
from veilgraph.errors import FitError, RunError
from veilgraph.experiments.single_run import RunConfiguration, compared_methods
from veilgraph.experiments.single_run import run_comparison as run
from veilgraph.models import Veil
from veilgraph.privacy.budget import PrivacyBudget

PRIVATE = csbm(120, num_classes=3, num_features=6, seed=0)
COMPARED = ("veil", "rgnn", "plain", "structure_only", "veil_non_private", "non_private")
SMALL = RunConfiguration(budget=PrivacyBudget(1.0, 1.0, 3), seeds=2, num_clusters=4, epochs=3)


def without_seconds(result: dict[str, Any]) -> dict[str, Any]:
    return {
        **result,
        "methods": {
            name: {key: value for key, value in row.items() if key != "seconds_mean"}
            for name, row in result["methods"].items()
        },
    }


def curves(result: dict[str, Any]) -> Iterator[list[float]]:
    """All losses and scores of a run, epoch by epoch."""
    for fits in result["learning_curves"].values():
        for curve in fits:
            yield curve["train_loss"]
            yield curve["validation_score"]


def test_everything_is_written(tmp_path: Path) -> None:
    result = run(PRIVATE, SMALL, tmp_path / "run")
    folder = tmp_path / "run"
    assert json.loads((folder / "result.json").read_text()) == result
    assert tuple(result["methods"]) == compared_methods(PRIVATE, SMALL.budget) == COMPARED
    for method in ("veil", "rgnn", "plain"):
        assert result["methods"][method]["epsilon_user_level"] == pytest.approx(4.0)
    assert result["methods"]["structure_only"]["epsilon_user_level"] == pytest.approx(1.0)
    assert result["methods"]["non_private"]["epsilon_user_level"] == "not private"
    with (folder / "predictions.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 120
    assert {row["class"] for row in rows} <= set(PRIVATE.schema.classes)
    assert len(Veil.load(folder / "model").predict()) == 120


def test_a_budget_for_the_label_alone_compares_what_needs_no_features(tmp_path: Path) -> None:
    result = run(PRIVATE, replace(SMALL, budget=PrivacyBudget(epsilon_y=1.0)), tmp_path / "run")
    assert tuple(result["methods"]) == ("veil_labels", "structure_only", "veil_non_private", "non_private")
    assert result["guarantee"]["user_level"] == pytest.approx({"features": 0, "label": 1.0, "total": 1.0})
    assert result["frequencies"] == []


def test_data_without_features_are_compared_by_their_labels_alone(tmp_path: Path) -> None:
    labels = csbm(120, num_classes=3, num_features=0, seed=0)
    result = run(labels, replace(SMALL, budget=PrivacyBudget(epsilon_y=1.0)), tmp_path / "run")
    assert tuple(result["methods"]) == ("veil_labels", "structure_only", "veil_non_private")
    with pytest.raises(RunError, match="csbm has no features to collect"):
        run(labels, SMALL, tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("allowed", [0, 3])
def test_a_stopped_run_goes_on_to_the_same_result_and_a_finished_one_is_not_computed_again(
    tmp_path: Path, allowed: int
) -> None:
    whole = run(PRIVATE, SMALL, tmp_path / "whole")

    def stop(what: str, done: int, total: int) -> None:
        if done == allowed:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(PRIVATE, SMALL, tmp_path / "stopped", progress=stop)
    seen: list[tuple[int, int]] = []
    resumed = run(PRIVATE, SMALL, tmp_path / "stopped", progress=lambda what, done, total: seen.append((done, total)))
    files = [path for path in (tmp_path / "stopped").rglob("*") if path.is_file() and path.name != "result.json"]
    written = {path: path.stat().st_mtime_ns for path in files}
    assert run(PRIVATE, SMALL, tmp_path / "stopped") == resumed
    assert {path: path.stat().st_mtime_ns for path in files} == written
    resumed, whole = without_seconds(resumed), without_seconds(whole)
    # Fits that are trained together with others may round sums differently, in the last bits of a loss.
    for ours, theirs in zip(curves(resumed), curves(whole), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-5)
    assert resumed | {"learning_curves": None} == whole | {"learning_curves": None}
    # Nothing is fitted twice.
    assert seen == [(done, 2 * len(COMPARED)) for done in range(allowed, 2 * len(COMPARED) + 1)]
    assert len(Veil.load(tmp_path / "stopped" / "model").predict()) == 120


def test_a_mistake_leaves_no_file_behind(tmp_path: Path) -> None:
    with pytest.raises(FitError, match="epochs is 0"):
        run(PRIVATE, replace(SMALL, epochs=0), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_folder_of_another_run_or_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    run(PRIVATE, SMALL, tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    other = RunConfiguration(budget=PrivacyBudget(2.0, 1.0, 3), seeds=2, num_clusters=4, epochs=3)
    with pytest.raises(RunError, match="holds another run's result"):
        run(PRIVATE, other, tmp_path)
    with pytest.raises(RunError, match="data_sha256"):
        run(csbm(120, num_classes=3, num_features=6, seed=1), SMALL, tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_folder_that_is_not_a_runs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(RunError, match="is not a run's folder"):
        run(PRIVATE, SMALL, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
