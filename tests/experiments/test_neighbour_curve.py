"""A curve of private neighbours: resumed where it was stopped, with all answers between floor and ceiling."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from veilgraph.datasets import csbm
from veilgraph.errors import BudgetError, RunError
from veilgraph.experiments.neighbour_curve import NeighbourConfiguration, run_neighbour_curve

PRIVATE = csbm(300, num_classes=3, mean_degree=10.0, homophily=0.9, num_features=0, seed=0)
CONFIGURATION = NeighbourConfiguration(epsilon_y=3.0, edge_epsilons=(8.0,), seeds=2, first_seed=5)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    folder = tmp_path_factory.mktemp("curve") / "run"
    return run_neighbour_curve(PRIVATE, CONFIGURATION, folder), folder


def test_a_run_that_was_stopped_continues_and_gives_the_same(
    finished: tuple[dict[str, Any], Path], tmp_path: Path
) -> None:
    done: list[int] = []

    def stop(what: str, known: int, total: int) -> None:
        done.append(known)
        if known == total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_neighbour_curve(PRIVATE, CONFIGURATION, tmp_path / "stopped", progress=stop)
    kept = done[-1]
    done.clear()
    again = run_neighbour_curve(
        PRIVATE, CONFIGURATION, tmp_path / "stopped", progress=lambda what, known, total: done.append(known)
    )
    assert kept > 0
    assert done[0] >= kept  # what was finished is not run again
    assert without_times(again) == without_times(finished[0])


def without_times(found: Any) -> Any:
    if isinstance(found, dict):
        return {key: without_times(value) for key, value in found.items() if key != "seconds_mean"}
    return [without_times(each) for each in found] if isinstance(found, list) else found


def test_neighbours_are_worth_more_than_the_label_alone_and_a_public_graph_more_than_these(
    finished: tuple[dict[str, Any], Path],
) -> None:
    found, _ = finished
    floor, ceiling = (found["levels"][level]["accuracy_mean"] for level in ("label_alone", "public_graph"))
    histogram = found["answers"]["histogram"][0]["accuracy_mean"]
    # 150 silent people in two draws: standard errors of at most 4.1 points each, and the steps are some 30 points.
    assert floor + 0.15 < histogram
    assert histogram < ceiling + 0.1
    assert found["seeds"] == [5, 6]


def test_a_list_protects_one_entry_and_is_as_good_as_a_public_graph_where_nobody_is_named_by_chance(
    tmp_path: Path,
) -> None:
    configuration = replace(CONFIGURATION, edge_epsilons=(20.0,), seeds=1)
    found = run_neighbour_curve(PRIVATE, configuration, tmp_path / "run")
    (point,) = found["answers"]["list"]
    assert point["accuracies"] == found["levels"]["public_graph"]["accuracies"]
    lists = point["guarantee"]["neighbours"]["lists"]
    assert (lists["any_lists"], point["design"]) == ("not private", "randomized list: 20")
    assert lists["one_entry"] == pytest.approx(20, abs=1e-6)
    assert point["names"] == pytest.approx(10, abs=0.5)  # the true ones alone


def test_the_user_level_is_any_two_lists_also_where_older_fits_of_lists_counted_the_label_alone(
    finished: tuple[dict[str, Any], Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(finished[1], tmp_path / "run"))
    for path in (folder / "cells").rglob("*.json"):
        stored = json.loads(path.read_text(encoding="utf-8"))
        if stored["cell"]["neighbours"] == "list":
            assert stored["epsilon_user_level"] == "not private"
            path.write_text(json.dumps(stored | {"epsilon_user_level": 3.0}), encoding="utf-8")
    found = run_neighbour_curve(PRIVATE, CONFIGURATION, folder)
    spent = {answer: points[0]["epsilon_user_level"] for answer, points in found["answers"].items()}
    assert spent == {"histogram": "not private", "class": pytest.approx(11, abs=1e-6), "list": "not private"}


@pytest.mark.parametrize("limit", ["MAX_MUTUAL_PAIRS", "MOST_PEOPLE"])
def test_a_list_is_left_out_where_there_are_too_many_people_or_pairs(
    finished: tuple[dict[str, Any], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    folder = Path(shutil.copytree(finished[1], tmp_path / "run"))
    for path in (folder / "cells").rglob("*.json"):
        if json.loads(path.read_text(encoding="utf-8"))["cell"]["neighbours"] == "list":
            path.unlink()  # so that a list that is not left out would be fitted
    monkeypatch.setattr(f"veilgraph.experiments.neighbour_curve.{limit}", 100)
    found = run_neighbour_curve(PRIVATE, CONFIGURATION, folder)
    (point,) = found["answers"]["list"]
    assert point["accuracy_mean"] is None
    # What cannot be collected at all has no guarantee; what was not run has one.
    assert (point["guarantee"] is None) == (limit == "MOST_PEOPLE")
    assert ("Not collected: there are 300 people" in point["guarantee_in_words"][0]) == (limit == "MOST_PEOPLE")


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"seeds": 0}, RunError, "run at least 1"),
        ({"edge_epsilons": (0.0,)}, BudgetError, "edge_epsilon"),
        ({"epsilon_x": 1.0}, BudgetError, "belong together"),
        ({"epsilon_x": 1.0, "sampled": 2}, RunError, "has no features"),
    ],
)
def test_impossible_settings_are_refused(
    settings: dict[str, Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        run_neighbour_curve(PRIVATE, replace(CONFIGURATION, **settings), tmp_path / "run")
    assert not (tmp_path / "run").exists()
