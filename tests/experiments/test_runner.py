"""Experiments have the same results, however often they are stopped and in however many processes they run."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.miniatures import SMALL, miniature, shortened
from veilgraph.errors import BudgetError, FitError, RunError
from veilgraph.experiments.cells import DatasetLoader, DataSource, Fit, key_of, method_of
from veilgraph.experiments.grid import Cell, Experiment, experiment_names, parse_experiment
from veilgraph.experiments.results import ResultStore, read_rows
from veilgraph.experiments.runner import (
    Resources,
    describe,
    pack_draws,
    plan_chunks,
    prefetched,
    run_cell,
    run_experiment,
)

CELL = Cell(dataset="cora", method="rgnn", epsilon_x=1.0, epsilon_y=2.0, sampled=10, seed=0)

# Data that needs no file, so that worker processes can load it.
BY_HAND = """
sampled = 5
epochs = 2
[[grid]]
datasets = ["csbm"]
methods = ["rgnn", "lpgnn", "structure_only"]
epsilon_x = [1]
epsilon_y = [2, 1]
"""


EMBEDDED = DatasetLoader()


def results_of(experiment: Experiment, store: ResultStore, data: DataSource = SMALL) -> dict[str, dict[str, Any]]:
    """Everything that is stored of an experiment, except how long it took and beside which fits."""
    found = {key_of(cell, data): store.get(key_of(cell, data)) for cell in experiment.cells}
    return {
        key: {name: value for name, value in result.items() if name not in ("seconds", "trained_together")}
        for key, result in found.items()
        if result is not None
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", experiment_names())
def test_every_shipped_experiment_runs_end_to_end_in_miniature(name: str, tmp_path: Path) -> None:
    experiment, store = shortened(name), ResultStore(tmp_path)
    run_experiment(experiment, store, data=SMALL)
    results = results_of(experiment, store)
    assert len(results) == len(experiment.cells)
    assert all(0 <= result["accuracy"] <= 1 for result in results.values())
    rows = read_rows(experiment, store, data=SMALL)
    assert len(rows) == len(experiment.cells)  # one seed, so each cell is a setting of its own
    assert sum(row.published_mean is not None for row in rows) == len(experiment.published)


def test_two_runs_with_the_same_seed_give_the_same_numbers(tmp_path: Path) -> None:
    experiment = shortened("ablation").only(datasets=["citeseer"])
    stores = [ResultStore(tmp_path / name) for name in ("a", "b")]
    for store in stores:
        run_experiment(experiment, store, data=SMALL)
    assert results_of(experiment, stores[0]) == results_of(experiment, stores[1])


def test_fits_that_are_prepared_ahead_give_the_same_numbers(tmp_path: Path) -> None:
    experiment = shortened("table2", seeds=2).only(datasets=["citeseer"])
    alone, ahead = ResultStore(tmp_path / "alone"), ResultStore(tmp_path / "ahead")
    run_experiment(experiment, alone, resources=Resources(device="cpu"), data=SMALL)
    run_experiment(experiment, ahead, resources=Resources(device="cpu", pipelined=True), data=SMALL)
    assert results_of(experiment, alone) == results_of(experiment, ahead)


def test_a_mistake_in_later_fits_does_not_cost_those_that_are_under_way(tmp_path: Path) -> None:
    experiment = shortened("table2").only(datasets=["citeseer"], methods=["rgnn", "structure_only"])
    wrong = replace(CELL, dataset="citeseer", method="structure_only", epsilon_x=None, epsilon_y=0.0)
    broken = replace(experiment, cells=(*experiment.only(methods=["rgnn"]).cells, wrong))
    with pytest.raises(BudgetError, match="epsilon_y is 0"):
        run_experiment(broken, ResultStore(tmp_path), resources=Resources(device="cpu", pipelined=True), data=SMALL)
    assert len(results_of(broken, ResultStore(tmp_path))) == len(broken.cells) - 1


def test_what_is_made_ahead_comes_in_order_and_a_mistake_where_it_is_made() -> None:
    made = prefetched(lambda item: 1 // item, [1, 2, 3, 4, 5, 6, 0, 7])
    assert [next(made) for _ in range(6)] == [1, 0, 0, 0, 0, 0]
    with pytest.raises(ZeroDivisionError):
        next(made)


class FullDisk(ResultStore):
    """A store with room for some results."""

    def __init__(self, folder: Path, room: int) -> None:
        super().__init__(folder)
        self.room = room

    def put(self, key: str, result: dict[str, Any]) -> None:
        if not self.room:
            raise RunError("no space left")
        self.room -= 1
        super().put(key, result)


def test_a_full_disk_ends_the_run_and_what_was_kept_before_counts(tmp_path: Path) -> None:
    experiment = shortened("ablation", seeds=2).only(datasets=["citeseer"])
    with pytest.raises(RunError, match="no space left"):
        run_experiment(experiment, FullDisk(tmp_path, 3), resources=Resources(device="cpu"), data=SMALL)
    assert len(results_of(experiment, ResultStore(tmp_path))) == 3


@pytest.mark.parametrize("finished", [0, 7])
def test_a_stopped_experiment_goes_on_to_the_same_result(tmp_path: Path, finished: int) -> None:
    experiment = shortened("ablation", seeds=2).only(datasets=["citeseer"])
    whole, stopped = ResultStore(tmp_path / "whole"), ResultStore(tmp_path / "stopped")
    run_experiment(experiment, whole, data=SMALL)
    computed: list[Cell] = []
    allowed = finished

    def counted(fit: Fit) -> Mapping[str, Any]:
        if len(computed) == allowed:
            raise KeyboardInterrupt
        computed.append(fit.cell)
        return {}

    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment, stopped, on_fit=counted, data=SMALL)
    assert len(results_of(experiment, stopped)) == finished
    allowed = len(experiment.cells)
    run_experiment(experiment, stopped, on_fit=counted, data=SMALL)
    assert results_of(experiment, stopped) == results_of(experiment, whole)
    assert len(computed) == len(experiment.cells)  # nothing was computed twice


def test_what_a_hook_returns_is_stored_with_the_result_and_replaces_nothing(tmp_path: Path) -> None:
    experiment, store = shortened("ablation").only(datasets=["dblp"], methods=["structure_only"]), ResultStore(tmp_path)
    run_experiment(experiment, store, on_fit=lambda fit: {"fitted": fit.method.name, "accuracy": -1.0}, data=SMALL)
    [result] = results_of(experiment, store).values()
    assert result["fitted"] == "structure_only"
    assert 0 <= result["accuracy"] <= 1


def test_what_is_finished_is_not_computed_again_by_any_experiment(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    figure = shortened("fig_alpha_clusters")
    run_experiment(figure.only(methods=["structure_only"]), store, data=SMALL)
    # The ablation has the same control on the same data.
    ablation = shortened("ablation").only(datasets=["dblp"], methods=["structure_only"])
    run_experiment(ablation, store, on_fit=lambda fit: pytest.fail("computed again"), data=SMALL)
    assert all(store.has(key_of(cell, SMALL)) for cell in ablation.cells)


def test_data_that_are_in_no_catalogue_can_be_run(tmp_path: Path) -> None:
    private = replace(miniature("own"), name="own")
    cell = replace(CELL, dataset="own", method="structure_only", epsilon_x=None)
    experiment = Experiment(name="own", title="Own", cells=(cell,), published=())
    run_experiment(experiment, ResultStore(tmp_path), data=lambda cell: private)
    assert ResultStore(tmp_path).has(cell.key(private.fingerprint))


def test_the_memory_that_is_allowed_reaches_the_fits(tmp_path: Path) -> None:
    experiment = shortened("ablation").only(datasets=["dblp"], methods=["rgnn"])
    with pytest.raises(FitError, match="allow more memory"):
        run_experiment(experiment, ResultStore(tmp_path), resources=Resources(device="cpu", memory=1000), data=SMALL)
    assert results_of(experiment, ResultStore(tmp_path)) == {}


def test_progress_counts_what_was_there_and_what_is_new(tmp_path: Path) -> None:
    experiment, store = shortened("ablation").only(datasets=["dblp"]), ResultStore(tmp_path)
    run_experiment(replace(experiment, cells=experiment.cells[:2]), store, data=SMALL)
    seen: list[tuple[str, int, int]] = []
    run_experiment(experiment, store, progress=lambda *facts: seen.append(facts), data=SMALL)
    assert seen[0] == ("already finished", 2, 6)
    assert [(done, total) for _, done, total in seen] == [(done, 6) for done in range(2, 7)]
    assert seen[1][0] == describe(experiment.cells[2])


def test_a_cell_is_described_by_what_sets_it_apart() -> None:
    assert describe(CELL) == "cora, rgnn, epsilon_x 1, epsilon_y 2, seed 0"
    ceiling = Cell(dataset="cora", method="non_private", epsilon_x=None, epsilon_y=None, sampled=10, seed=3)
    assert describe(ceiling) == "cora, non_private, not private, seed 3"
    asked = replace(CELL, method="neighbour_waves", epsilon_x=None, neighbours="class", edge_epsilon=4.0)
    assert describe(asked) == "cora, neighbour_waves, neighbours class, epsilon_y 2, edge epsilon 4, seed 0"


def test_a_cell_with_waves_is_a_chunk_of_its_own_and_the_others_are_not() -> None:
    cell = replace(CELL, method="neighbour_waves", epsilon_x=None)
    asked = [replace(cell, neighbours="class", edge_epsilon=4.0, seed=seed) for seed in range(3)]
    alone = [replace(cell, neighbours="alone", seed=seed) for seed in range(3)]
    for on_gpu in (False, True):
        chunks = plan_chunks([*asked, *alone], SMALL, on_gpu=on_gpu)
        assert sorted(map(len, chunks)) == [1, 1, 1, 3]


def test_an_infinite_label_budget_is_stored_as_text_that_every_reader_of_json_knows(tmp_path: Path) -> None:
    cell = replace(CELL, method="structure_only", epsilon_x=None, epsilon_y=math.inf, reporters=0.5)
    run_experiment(
        experiment := Experiment(name="clean", title="", cells=(cell,), published=()), ResultStore(tmp_path), data=SMALL
    )
    (row,) = read_rows(experiment, ResultStore(tmp_path), data=SMALL)
    json.dumps([row.as_dict(), ResultStore(tmp_path).get(key_of(cell, SMALL))], allow_nan=False)
    assert row.as_dict()["epsilon_y"] == row.epsilon_user_level == "not private"
    assert row.as_dict()["reporters"] == 0.5


SPENT: dict[str, tuple[float | None, float | None, float | str]] = {
    "rgnn": (0.5, 2.0, 10 * 0.5 + 2.0),
    "graphsage": (0.5, 2.0, 10 * 0.5 + 2.0),
    "lpgnn": (0.5, 2.0, 10 * 0.5 + 2.0),
    "lpgnn_equal": (0.5, 2.0, 10 * 0.5 + 2.0),
    "structure_only": (None, 2.0, 2.0),
    "majority": (None, 2.0, 2.0),
    "non_private": (None, None, "not private"),
}


@pytest.mark.parametrize("method", SPENT)
def test_a_cell_says_what_a_person_spends_on_it(method: str) -> None:
    epsilon_x, epsilon_y, total = SPENT[method]
    cell = replace(CELL, method=method, epsilon_x=epsilon_x, epsilon_y=epsilon_y, parameters={"epochs": 1})
    result = run_cell(cell, data=SMALL, device="cpu")
    expected = total if isinstance(total, str) else pytest.approx(total, abs=1e-6)
    assert result["epsilon_user_level"] == expected
    assert result["guarantee"]["user_level"]["total"] == expected
    if epsilon_x is None and epsilon_y is not None:
        assert result["guarantee"]["user_level"]["features"] == 0
    assert result["cell"] == asdict(cell)
    assert result["device"] == "cpu"
    assert json.loads(json.dumps(result)) == result


@pytest.mark.parametrize(("method", "epsilon_x", "features"), [("veil_labels", None, 0), ("veil_equal", 0.5, 5)])
def test_a_randomized_list_protects_one_entry_and_not_whole_lists(
    method: str, epsilon_x: float | None, features: float
) -> None:
    cell = replace(CELL, method=method, epsilon_x=epsilon_x, neighbours="list", edge_epsilon=4.0)
    result = run_cell(cell, data=SMALL, device="cpu")
    assert result["epsilon_user_level"] == result["guarantee"]["user_level"]["total"] == "not private"
    assert result["guarantee"]["user_level"]["features"] == pytest.approx(features, abs=1e-6)
    assert result["guarantee"]["neighbours"]["lists"]["one_entry"] == pytest.approx(4, abs=1e-6)


def test_a_budget_of_zero_is_refused_and_not_replaced() -> None:
    with pytest.raises(BudgetError, match="epsilon_y is 0"):
        run_cell(replace(CELL, epsilon_y=0.0), data=SMALL, device="cpu")
    with pytest.raises(BudgetError, match="epsilon_x is 0"):
        run_cell(replace(CELL, epsilon_x=0.0), data=SMALL, device="cpu")


@pytest.fixture
def _one_thread() -> Iterator[None]:
    """Use one thread, as each of several processes does, so that sums have the same order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("_one_thread")
def test_two_processes_give_the_same_results_as_one(tmp_path: Path) -> None:
    experiment = parse_experiment("by hand", BY_HAND, {}, seeds=1)
    one, two = ResultStore(tmp_path / "one"), ResultStore(tmp_path / "two")
    run_experiment(experiment, one, resources=Resources(device="cpu"))
    seen: list[int] = []
    run_experiment(
        experiment, two, resources=Resources(device="cpu", jobs=2), progress=lambda what, done, total: seen.append(done)
    )
    assert results_of(experiment, two, EMBEDDED) == results_of(experiment, one, EMBEDDED)
    assert len(results_of(experiment, two, EMBEDDED)) == len(experiment.cells)
    assert seen == list(range(len(experiment.cells) + 1))


ENDLESS = """
import sys
from pathlib import Path
import torch
from veilgraph.experiments.grid import parse_experiment
from veilgraph.experiments.runner import Resources, run_experiment
from veilgraph.experiments.results import ResultStore

torch.set_num_threads(1)
experiment = parse_experiment("by hand", sys.argv[1], {}, seeds=500)
run_experiment(experiment, ResultStore(Path(sys.argv[2])), resources=Resources(device="cpu"),
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
    # Every announced result is stored, and every stored result is whole.
    assert max(map(int, announced.split())) <= len(files) <= max(map(int, announced.split())) + 1
    for path in files:
        json.loads(path.read_text(encoding="utf-8"))
    # The results equal those of a run that was not killed, whichever cells are trained together.
    endless = parse_experiment("by hand", BY_HAND, {}, seeds=500)
    finished = [cell for cell in endless.cells if ResultStore(tmp_path).has(key_of(cell, EMBEDDED))]
    assert len(finished) == len(files) >= 4
    missing = [cell for cell in endless.cells if cell not in finished]
    experiment = replace(endless, cells=(*finished[:4], *missing[:4]))
    survived = results_of(experiment, ResultStore(tmp_path), EMBEDDED)
    assert len(survived) == 4
    run_experiment(experiment, ResultStore(tmp_path / "whole"), resources=Resources(device="cpu"))
    whole = results_of(experiment, ResultStore(tmp_path / "whole"), EMBEDDED)
    assert {key: whole[key] for key in survived} == survived
    run_experiment(experiment, ResultStore(tmp_path), resources=Resources(device="cpu"))
    assert results_of(experiment, ResultStore(tmp_path), EMBEDDED) == whole


@pytest.mark.parametrize("on_gpu", [False, True])
@pytest.mark.parametrize("nodes_in_flight", [1, 260 * 5, 10**9])
def test_chunks_are_of_one_kind_and_hold_every_cell_once(on_gpu: bool, nodes_in_flight: int) -> None:
    def kind(cell: Cell) -> tuple[object, ...]:
        return cell.dataset, cell.original_columns, type(method_of(cell)) if on_gpu else cell.method

    cells = [*shortened("table2", seeds=2).cells, *shortened("table1").cells]
    chunks = plan_chunks(cells, SMALL, on_gpu=on_gpu, chunk_nodes=nodes_in_flight)
    assert Counter(id(cell) for chunk in chunks for cell in chunk) == Counter(map(id, cells))
    for chunk in chunks:
        assert len({kind(cell) for cell in chunk}) == 1
        if not on_gpu:  # the limit, but at least eight cells
            assert len(chunk) <= max(8, nodes_in_flight // 260)
    if on_gpu:  # a GPU gets all cells of one kind in one chunk
        assert len(chunks) == len({kind(cell) for cell in cells})
    assert plan_chunks([], SMALL, on_gpu=on_gpu) == []


def test_a_draw_of_features_is_divided_only_if_it_is_too_large_for_a_chunk() -> None:
    cells = list(shortened("table2", seeds=2).only(datasets=["cora"], methods=["rgnn"]).cells)
    draws = [cells[start:stop] for start, stop in ((0, 3), (3, 5), (5, 6), (6, 11))]
    assert list(pack_draws(draws, 4)) == [cells[:3], cells[3:6], cells[6:10], cells[10:11]]
    assert list(pack_draws([], 4)) == []
