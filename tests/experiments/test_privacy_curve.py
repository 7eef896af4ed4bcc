"""The privacy curve: the same total for every method, complete, resumable, and honest about what is left out."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from veilgraph.datasets import csbm
from veilgraph.errors import BudgetError, FitError, RunError
from veilgraph.experiments.cells import draw_reports
from veilgraph.experiments.grid import BEST_LABELS, GRR_LABELS, make_cell
from veilgraph.experiments.privacy_curve import CurveConfiguration, run_curve
from veilgraph.experiments.single_run import RunConfiguration, run_comparison
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms.registry import best_label_mechanism

PRIVATE = csbm(150, num_classes=6, num_features=4, seed=0)
SMALL = CurveConfiguration(totals=(0.5, 4.0), seeds=2, num_clusters=4, epochs=3)
CELLS = 2 * (2 * 2 + 3 * 2 + 2)
"""Two seeds: two methods of the label alone at two totals, RGNN at three divisions of each, two without privacy."""


def without_seconds(result: dict[str, Any]) -> dict[str, Any]:
    def strip(summary: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in summary.items() if key != "seconds_mean"}

    return result | {
        "methods": {name: [strip(point) for point in points] for name, points in result["methods"].items()},
        "not_private": {name: strip(level) for name, level in result["not_private"].items()},
    }


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    folder = tmp_path_factory.mktemp("curve") / "run"
    return run_curve(PRIVATE, SMALL, folder), folder


def test_every_method_spends_the_same_total(finished: tuple[dict[str, Any], Path]) -> None:
    result, folder = finished
    assert json.loads((folder / "result.json").read_text()) == result
    assert list(result["methods"]) == ["veil_labels", "structure_only", "rgnn", "rgnn_best"]
    for points in result["methods"].values():
        assert [point["epsilon_user_level"] for point in points] == pytest.approx([0.5, 4.0], abs=1e-6)
        assert all(len(point["accuracies"]) == 2 for point in points)
    assert {level["epsilon_user_level"] for level in result["not_private"].values()} == {"not private"}


def test_accuracies_belong_to_their_total_and_seed(finished: tuple[dict[str, Any], Path]) -> None:
    result, folder = finished
    for path in (folder / "cells").rglob("*.json"):
        stored = json.loads(path.read_text())
        cell, total = stored["cell"], stored["epsilon_user_level"]
        if total == "not private":
            summary = result["not_private"][cell["method"]]
        else:
            place = result["totals"].index(round(total, 6))
            if cell["method"] == "rgnn" and cell["epsilon_x"] != cell["epsilon_y"]:
                continue
            summary = result["methods"][cell["method"]][place]
        assert summary["accuracies"][cell["seed"]] == stored["accuracy"]


def test_designs_say_what_a_label_report_names(finished: tuple[dict[str, Any], Path]) -> None:
    for design in finished[0]["designs"]:
        label = best_label_mechanism(6, design["epsilon"])
        assert (design["classes"], design["set_size"]) == (6, label.set_size)
        assert design["names_true_class"] == pytest.approx(float(label.channel.keep))
        assert design["guarantee"]["user_level"]["total"] == pytest.approx(design["epsilon"], abs=1e-6)
        split = design["rgnn"]
        assert split["sampled"] == 4  # all of them, where 10 are wanted
        assert split["sampled"] * split["epsilon_x"] + split["epsilon_y"] == pytest.approx(design["epsilon"])
        assert split["epsilon_x"] == split["epsilon_y"]
        best = design["rgnn_best"]
        assert 4 * best["epsilon_x"] + best["epsilon_y"] == pytest.approx(design["epsilon"])


def test_the_best_split_is_the_one_with_the_greatest_mean_over_seeds(finished: tuple[dict[str, Any], Path]) -> None:
    result, folder = finished
    by_split: dict[float, list[float]] = {}
    for path in (folder / "cells").rglob("*.json"):
        stored = json.loads(path.read_text())
        if stored["cell"]["method"] == "rgnn":
            by_split.setdefault(stored["cell"]["epsilon_y"], []).append(stored["accuracy"])
    for total, design, best in zip(result["totals"], result["designs"], result["methods"]["rgnn_best"], strict=True):
        means = [sum(by_split[share * total]) / 2 for share in (1 / 5, 0.5, 0.9)]
        assert best["accuracy_mean"] == pytest.approx(max(means))
        assert sum(by_split[design["rgnn_best"]["epsilon_y"]]) / 2 == pytest.approx(max(means))


def test_veil_and_the_control_share_reports_and_the_paper_keeps_grr() -> None:
    def reports(method: str, mechanism: str) -> Any:
        cell = make_cell(
            dataset="csbm",
            method=method,
            epsilon_x=0.5,
            epsilon_y=0.5,
            sampled=1,
            seed=0,
            label_mechanism=mechanism,
            parameters={},
        )
        return draw_reports(cell, PRIVATE)[0]

    veil, control, paper = (
        reports("veil_labels", BEST_LABELS),
        reports("structure_only", BEST_LABELS),
        reports("rgnn", GRR_LABELS),
    )
    assert veil.labels is control.labels
    assert veil.label_mechanism.set_size > 1
    assert paper.label_mechanism.set_size == 1


@pytest.mark.parametrize("allowed", [0, 21])
def test_a_stopped_curve_goes_on_to_the_same_result(
    tmp_path: Path, finished: tuple[dict[str, Any], Path], allowed: int
) -> None:
    def stop(what: str, done: int, total: int) -> None:
        if done == allowed:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_curve(PRIVATE, SMALL, tmp_path / "stopped", progress=stop)
    seen: list[tuple[int, int]] = []
    resumed = run_curve(
        PRIVATE, SMALL, tmp_path / "stopped", progress=lambda what, done, total: seen.append((done, total))
    )
    assert without_seconds(resumed) == without_seconds(finished[0])
    assert seen == [(done, CELLS) for done in range(allowed, CELLS + 1)]


def test_data_without_features_leave_rgnn_out(tmp_path: Path) -> None:
    labels = csbm(150, num_classes=6, num_features=0, seed=0)
    result = run_curve(labels, SMALL, tmp_path / "run")
    assert list(result["methods"]) == ["veil_labels", "structure_only"]
    assert list(result["not_private"]) == ["veil_non_private"]
    assert all(design["rgnn"] is None for design in result["designs"])


def test_a_mistake_leaves_no_file_behind(tmp_path: Path) -> None:
    with pytest.raises(FitError, match="epochs is 0"):
        run_curve(PRIVATE, replace(SMALL, epochs=0), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_folder_of_a_single_run_is_refused_and_the_other_way_round(
    tmp_path: Path, finished: tuple[dict[str, Any], Path]
) -> None:
    single = RunConfiguration(budget=PrivacyBudget(epsilon_y=1.0), seeds=1)
    with pytest.raises(RunError, match="holds another run's result"):
        run_comparison(PRIVATE, single, finished[1])
    run_comparison(PRIVATE, single, tmp_path / "single")
    with pytest.raises(RunError, match="holds another run's result"):
        run_curve(PRIVATE, SMALL, tmp_path / "single")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"totals": ()}, "there is no total epsilon"),
        ({"totals": (0.0,)}, "epsilon is 0.0"),
        ({"totals": (math.inf,)}, "epsilon is infinite"),
        ({"sampled": 0}, "sampled is 0"),
        ({"seeds": 0}, "seeds is 0"),
    ],
)
def test_totals_are_sorted_and_counted_once_and_wrong_settings_are_refused(wrong: dict[str, Any], message: str) -> None:
    assert CurveConfiguration(totals=(2, 0.5, 2.0)).totals == (0.5, 2.0)
    with pytest.raises((RunError, BudgetError), match=message):
        CurveConfiguration(**wrong)
