"""Experiments run to the same end, however often they are stopped and by however many processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import veilgraph.experiments.runner as runner
from veilgraph.datasets import PrivateGraph, csbm
from veilgraph.errors import BudgetError, FitError, RunError
from veilgraph.experiments.cells import Fit, draw_reports, method_of, start_cells
from veilgraph.experiments.grid import Cell, Experiment, experiment_names, load_experiment, parse_experiment
from veilgraph.experiments.result_store import CellStore
from veilgraph.experiments.results import collect
from veilgraph.experiments.runner import describe, key_of, load_data, run_cell, run_experiment
from veilgraph.experiments.simulation import feature_rng, label_rng
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.models.base import FitTask, Method
from veilgraph.models.registry import METHODS

CELL = Cell(dataset="cora", method="rgnn", epsilon_x=1.0, epsilon_y=2.0, sampled=10, seed=0)

# Data that needs no file, so that processes of their own can load it.
BY_HAND = """
sampled = 5
epochs = 2
[[grid]]
datasets = ["csbm"]
methods = ["rgnn", "lpgnn", "structure_only"]
epsilon_y = [2, 1]
"""


def miniature(name: str, data_dir: Path | None = None, *, merge_columns: bool = True) -> PrivateGraph:
    """A block model in place of a public graph, another one for each name; large enough for 256 bags."""
    return csbm(260, num_classes=3, num_features=12 if merge_columns else 24, seed=zlib.crc32(name.encode()))


@pytest.fixture
def _small_data(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(runner, "load", miniature)
    runner.load_data.cache_clear()
    yield
    runner.load_data.cache_clear()


small_data = pytest.mark.usefixtures("_small_data")


def shortened(name: str, *, seeds: int = 1) -> Experiment:
    """A shipped experiment, with two epochs for each fit; Veil, which has none to save, on one data set."""
    experiment = load_experiment(name, seeds=seeds)
    cells = (
        replace(cell, parameters={key: 2 if key == "epochs" else value for key, value in cell.parameters.items()})
        for cell in experiment.cells
        if not cell.method.startswith("veil") or cell.dataset == "student"
    )
    return replace(experiment, cells=tuple(cells))


def results_of(experiment: Experiment, store: CellStore) -> dict[str, dict[str, Any]]:
    """Everything that is stored of an experiment, except how long it took."""
    found = {key_of(cell, None): store.get(key_of(cell, None)) for cell in experiment.cells}
    return {
        key: {name: value for name, value in result.items() if name != "seconds"}
        for key, result in found.items()
        if result is not None
    }


def draw(cell: Cell) -> tuple[PerturbedGraph, Split]:
    return draw_reports(cell, load_data(cell.dataset, None))


@small_data
@pytest.mark.parametrize("name", experiment_names())
def test_every_shipped_experiment_runs_end_to_end_in_miniature(name: str, tmp_path: Path) -> None:
    experiment, store = shortened(name), CellStore(tmp_path)
    run_experiment(experiment, store)
    results = results_of(experiment, store)
    assert len(results) == len(experiment.cells)
    assert all(0 <= result["accuracy"] <= 1 for result in results.values())
    rows = collect(experiment, store)
    assert len(rows) == len(experiment.cells)  # one seed, so each cell is a setting of its own
    assert sum(row.published_mean is not None for row in rows) == len(experiment.published)


@small_data
def test_two_runs_with_the_same_seed_give_the_same_numbers(tmp_path: Path) -> None:
    experiment = shortened("ablation").only(datasets=["citeseer"])
    stores = [CellStore(tmp_path / name) for name in ("a", "b")]
    for store in stores:
        run_experiment(experiment, store)
    assert results_of(experiment, stores[0]) == results_of(experiment, stores[1])


@small_data
def test_fits_that_are_got_ready_ahead_give_the_same_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = shortened("table2", seeds=2).only(datasets=["citeseer", "student"])
    alone, ahead = CellStore(tmp_path / "alone"), CellStore(tmp_path / "ahead")
    run_experiment(experiment, alone, device="cpu")
    # Fits are on the processor, and the order of everything is that of a GPU.
    monkeypatch.setattr(runner, "resolve_device", lambda device: torch.device("cuda"))
    run_experiment(experiment, ahead, device="cpu")
    assert results_of(experiment, alone) == results_of(experiment, ahead)


@small_data
def test_a_mistake_in_later_fits_does_not_cost_those_that_are_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = shortened("table2").only(datasets=["citeseer"], methods=["rgnn", "graphsage"])
    started: list[int] = []

    def start_one(
        runs: Mapping[FitTask[Method], Cell], *arguments: Any, **options: Any
    ) -> Iterator[Callable[[], list[Fit]]]:
        if started:
            raise FitError("the second")
        started.append(len(runs))
        return start_cells(runs, *arguments, **options)

    monkeypatch.setattr(runner, "resolve_device", lambda device: torch.device("cuda"))
    monkeypatch.setattr(runner, "start_cells", start_one)
    with pytest.raises(FitError, match="the second"):
        run_experiment(experiment, CellStore(tmp_path), device="cpu")
    assert len(results_of(experiment, CellStore(tmp_path))) == started[0] > 0


def test_what_is_made_ahead_comes_in_order_and_a_mistake_where_it_is_made() -> None:
    made = runner._made_ahead(lambda item: 1 // item, [1, 2, 3, 4, 5, 6, 0, 7])
    assert [next(made) for _ in range(6)] == [1, 0, 0, 0, 0, 0]
    with pytest.raises(ZeroDivisionError):
        next(made)


@small_data
@pytest.mark.parametrize("room", [0, 3])
def test_a_full_disk_ends_the_run_and_what_was_kept_before_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    experiment = shortened("ablation", seeds=2).only(datasets=["citeseer"])
    store, put = CellStore(tmp_path), CellStore.put

    def fill(self: CellStore, key: str, result: dict[str, Any]) -> None:
        if len(list(tmp_path.rglob("*.json"))) == room:
            raise RunError("no space left")
        put(self, key, result)

    monkeypatch.setattr(CellStore, "put", fill)
    with pytest.raises(RunError, match="no space left"):
        run_experiment(experiment, store, device="cpu")
    assert len(results_of(experiment, store)) == room


@small_data
@pytest.mark.parametrize("finished", [0, 1, 7])
def test_a_stopped_experiment_goes_on_to_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finished: int
) -> None:
    experiment = shortened("ablation", seeds=2).only(datasets=["citeseer"])
    whole, stopped = CellStore(tmp_path / "whole"), CellStore(tmp_path / "stopped")
    run_experiment(experiment, whole)
    computed: list[Cell] = []
    allowed = finished

    def counted(fit: Fit, device: str) -> dict[str, Any]:
        if len(computed) == allowed:
            raise KeyboardInterrupt
        computed.append(fit.cell)
        return summary(fit, device)

    summary = runner._summary
    monkeypatch.setattr(runner, "_summary", counted)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment, stopped)
    assert len(results_of(experiment, stopped)) == finished
    allowed = len(experiment.cells)
    run_experiment(experiment, stopped)
    assert results_of(experiment, stopped) == results_of(experiment, whole)
    assert len(computed) == len(experiment.cells)  # nothing was computed twice


@small_data
def test_what_is_finished_is_not_computed_again_by_any_experiment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = CellStore(tmp_path)
    figure = shortened("fig_alpha_clusters")
    run_experiment(figure.only(methods=["structure_only"]), store)
    monkeypatch.setattr(runner, "start_cells", lambda *arguments, **options: pytest.fail("computed again"))
    # The ablation has the same control on the same data.
    ablation = shortened("ablation").only(datasets=["dblp"], methods=["structure_only"])
    run_experiment(ablation, store)
    assert all(store.has(key_of(cell, None)) for cell in ablation.cells)


@small_data
@pytest.mark.parametrize("on_gpu", [False, True])
@pytest.mark.parametrize("nodes_in_flight", [1, 260 * 5, 10**9])
def test_chunks_are_of_one_kind_and_hold_every_cell_once(
    monkeypatch: pytest.MonkeyPatch, on_gpu: bool, nodes_in_flight: int
) -> None:
    def kind(cell: Cell) -> tuple[object, ...]:
        return cell.dataset, cell.original_columns, type(method_of(cell)) if on_gpu else cell.method

    monkeypatch.setattr(runner, "_CHUNK_NODES", nodes_in_flight)
    cells = [*shortened("table2", seeds=2).cells, *shortened("table1").cells]
    chunks = runner._chunks(cells, None, on_gpu=on_gpu)
    assert Counter(id(cell) for chunk in chunks for cell in chunk) == Counter(map(id, cells))
    for chunk in chunks:
        assert len({kind(cell) for cell in chunk}) == 1
        if not on_gpu:  # at least eight, else as many as there is work for
            assert len(chunk) <= max(8, nodes_in_flight // 260)
    if on_gpu:  # a GPU gets all that it can share
        assert len(chunks) == len({kind(cell) for cell in cells})
    assert runner._chunks([], None, on_gpu=on_gpu) == []


def test_a_draw_of_features_is_taken_apart_only_if_it_is_too_large_for_a_chunk() -> None:
    cells = list(shortened("table2", seeds=2).only(datasets=["cora"], methods=["rgnn"]).cells)
    draws = [cells[start:stop] for start, stop in ((0, 3), (3, 5), (5, 6), (6, 11))]
    assert list(runner._packed(draws, 4)) == [cells[:3], cells[3:6], cells[6:10], cells[10:11]]
    assert list(runner._packed([], 4)) == []


@small_data
def test_the_memory_that_is_allowed_reaches_the_fits(tmp_path: Path) -> None:
    experiment = shortened("ablation").only(datasets=["dblp"], methods=["rgnn"])
    with pytest.raises(FitError, match="allow more memory"):
        run_experiment(experiment, CellStore(tmp_path), device="cpu", memory=1000)
    assert results_of(experiment, CellStore(tmp_path)) == {}


@small_data
def test_progress_counts_what_was_there_and_what_is_new(tmp_path: Path) -> None:
    experiment, store = shortened("ablation").only(datasets=["dblp"]), CellStore(tmp_path)
    run_experiment(replace(experiment, cells=experiment.cells[:2]), store)
    seen: list[tuple[str, int, int]] = []
    run_experiment(experiment, store, progress=lambda *facts: seen.append(facts))
    assert seen[0] == ("already finished", 2, 6)
    assert [(done, total) for _, done, total in seen] == [(done, 6) for done in range(2, 7)]
    assert seen[1][0] == describe(experiment.cells[2])


def test_a_cell_is_described_by_what_sets_it_apart() -> None:
    assert describe(CELL) == "cora, rgnn, epsilon_x 1, epsilon_y 2, seed 0"
    ceiling = Cell(dataset="cora", method="non_private", epsilon_x=None, epsilon_y=None, sampled=10, seed=3)
    assert describe(ceiling) == "cora, non_private, not private, seed 3"


@small_data
def test_other_data_under_the_same_name_is_computed_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = key_of(CELL, None)
    monkeypatch.setattr(runner, "load", lambda name, **options: miniature(f"another {name}"))
    runner.load_data.cache_clear()
    assert key_of(CELL, None) != before


@small_data
def test_a_damaged_cell_is_named_when_results_are_collected(tmp_path: Path) -> None:
    experiment, store = shortened("ablation").only(datasets=["dblp"], methods=["structure_only"]), CellStore(tmp_path)
    run_experiment(experiment, store)
    [path] = tmp_path.rglob("*.json")
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(RunError, match=path.name):
        collect(experiment, store)


@small_data
def test_the_same_labels_are_drawn_for_all_methods_at_one_seed_and_label_budget() -> None:
    expected, split = draw(CELL)
    assert expected.has_label.any()
    for name in (name for name, entry in METHODS.items() if entry.private):
        epsilon_x = 0.1 if METHODS[name].uses_features else None
        perturbed, own_split = draw(replace(CELL, method=name, epsilon_x=epsilon_x))
        assert (perturbed.labels == expected.labels).all()
        assert (perturbed.has_label == expected.has_label).all()
        assert (own_split.train == split.train).all()
        assert (own_split.test == split.test).all()


@small_data
@pytest.mark.parametrize("change", [{"seed": 1}, {"epsilon_y": 0.5}, {"dataset": "german"}])
def test_another_seed_or_label_budget_draws_other_labels(change: dict[str, Any]) -> None:
    labels, others = (draw(cell)[0].labels for cell in (CELL, replace(CELL, **change)))
    assert (labels != others).any()


@small_data
def test_reports_do_not_follow_from_the_split_of_the_same_seed() -> None:
    # Were both drawn from one stream, who is in which part would say something about the noise of the reports.
    # Nor may the noise of labels say something about that of features.
    streams = (np.random.default_rng(CELL.seed), label_rng(CELL.seed), feature_rng(CELL.seed))
    words = [stream.integers(0, 2**62, size=8) for stream in streams]
    assert len(set(np.concatenate(words).tolist())) == 3 * 8


SPENT: dict[str, tuple[float | None, float | None, float | str]] = {
    "rgnn": (0.5, 2.0, 10 * 0.5 + 2.0),
    "graphsage": (0.5, 2.0, 10 * 0.5 + 2.0),
    "lpgnn": (0.5, 2.0, 10 * 0.5 + 2.0),
    "lpgnn_equal": (0.5, 2.0, 10 * 0.5 + 2.0),
    "structure_only": (None, 2.0, 2.0),
    "majority": (None, 2.0, 2.0),
    "non_private": (None, None, "not private"),
}


@small_data
@pytest.mark.parametrize("method", SPENT)
def test_a_cell_says_what_a_person_spends_on_it(method: str) -> None:
    epsilon_x, epsilon_y, total = SPENT[method]
    cell = replace(CELL, method=method, epsilon_x=epsilon_x, epsilon_y=epsilon_y, parameters={"epochs": 1})
    result = run_cell(cell, None, "cpu")
    expected = total if isinstance(total, str) else pytest.approx(total, abs=1e-6)
    assert result["epsilon_user_level"] == expected
    assert result["guarantee"]["user_level"]["total"] == expected
    if epsilon_x is None and epsilon_y is not None:
        assert result["guarantee"]["user_level"]["features"] == 0
    assert result["cell"] == asdict(cell)
    assert result["device"] == "cpu"
    assert json.loads(json.dumps(result)) == result


@small_data
def test_a_budget_of_zero_is_refused_and_not_replaced() -> None:
    with pytest.raises(BudgetError, match="epsilon_y is 0"):
        run_cell(replace(CELL, epsilon_y=0.0), None, "cpu")
    with pytest.raises(BudgetError, match="epsilon_x is 0"):
        run_cell(replace(CELL, epsilon_x=0.0), None, "cpu")


@small_data
def test_columns_as_they_came_are_loaded_where_an_experiment_asks_for_them() -> None:
    merged, original = (load_data(CELL.dataset, None, original) for original in (False, True))
    assert (merged.schema.num_features, original.schema.num_features) == (12, 24)
    assert {cell.original_columns for cell in load_experiment("table1").cells} == {True}


@pytest.fixture
def _one_thread() -> Iterator[None]:
    """As many threads as each of several processes has, so that sums have the same order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("_one_thread")
def test_two_processes_give_the_same_results_as_one(tmp_path: Path) -> None:
    experiment = parse_experiment("by hand", BY_HAND, {}, seeds=1)
    one, two = CellStore(tmp_path / "one"), CellStore(tmp_path / "two")
    run_experiment(experiment, one, device="cpu")
    seen: list[int] = []
    run_experiment(experiment, two, device="cpu", jobs=2, progress=lambda what, done, total: seen.append(done))
    assert results_of(experiment, two) == results_of(experiment, one)
    assert len(results_of(experiment, two)) == len(experiment.cells)
    assert seen == list(range(len(experiment.cells) + 1))


ENDLESS = """
import sys
from pathlib import Path
import torch
from veilgraph.experiments.grid import parse_experiment
from veilgraph.experiments.runner import run_experiment
from veilgraph.experiments.result_store import CellStore

torch.set_num_threads(1)
experiment = parse_experiment("by hand", sys.argv[1], {}, seeds=500)
run_experiment(experiment, CellStore(Path(sys.argv[2])), device="cpu",
               progress=lambda what, done, total: print(done, flush=True))
"""


@pytest.mark.skipif(os.name != "posix", reason="sends a POSIX signal")
@pytest.mark.usefixtures("_one_thread")
def test_kill_9_loses_at_most_the_fits_in_flight(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS, BY_HAND, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        deadline = time.monotonic() + 60
        while len(list(tmp_path.rglob("*.json"))) < 4 and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        announced, _ = process.communicate(timeout=60)
    files = list(tmp_path.rglob("*.json"))
    # What was announced is there, and what is there is whole.
    assert max(map(int, announced.split())) <= len(files) <= max(map(int, announced.split())) + 1
    for path in files:
        json.loads(path.read_text(encoding="utf-8"))
    # And it is what a run that nobody killed computes, whatever it trains together with what.
    endless = parse_experiment("by hand", BY_HAND, {}, seeds=500)
    finished = [cell for cell in endless.cells if CellStore(tmp_path).has(key_of(cell, None))]
    assert len(finished) == len(files) >= 4
    missing = [cell for cell in endless.cells if cell not in finished]
    experiment = replace(endless, cells=(*finished[:4], *missing[:4]))
    survived = results_of(experiment, CellStore(tmp_path))
    assert len(survived) == 4
    run_experiment(experiment, CellStore(tmp_path / "whole"), device="cpu")
    whole = results_of(experiment, CellStore(tmp_path / "whole"))
    assert {key: whole[key] for key in survived} == survived
    run_experiment(experiment, CellStore(tmp_path), device="cpu")
    assert results_of(experiment, CellStore(tmp_path)) == whole
