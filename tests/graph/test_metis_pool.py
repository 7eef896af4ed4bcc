"""METIS gives the same parts whoever computes them, and processes that cannot are done without."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from veilgraph.datasets import csbm
from veilgraph.graph import metis_pool as metis_workers
from veilgraph.graph.metis import Cut, cut
from veilgraph.graph.metis_pool import cut_aside, cut_together, start_workers

GRAPH = csbm(300, seed=0).graph
STARTS, NEIGHBOURS = (each.astype(np.int32) for each in GRAPH.adjacency)
CUTS = [Cut(parts, recursive=recursive, seed=seed) for parts, recursive in ((4, True), (9, False)) for seed in (0, 1)]
ALONE = cut(STARTS, NEIGHBOURS, CUTS)


@pytest.fixture(autouse=True)
def no_workers() -> Iterator[None]:
    metis_workers._end_all()
    yield
    metis_workers._end_all()


def same(found: list[np.ndarray]) -> bool:
    return len(found) == len(CUTS) and all((one == other).all() for one, other in zip(ALONE, found, strict=True))


@pytest.mark.parametrize("workers", [2, 3, 10])
def test_several_processes_give_the_parts_of_one_in_the_same_order(
    workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metis_workers, "_WORTH_A_PROCESS", 0)
    assert same(cut_together(STARTS, NEIGHBOURS, CUTS, workers=workers))
    assert [len(set(found.tolist())) for found in ALONE] == [each.parts for each in CUTS]


def test_a_process_stays_for_the_next_graph_and_one_that_has_ended_is_replaced() -> None:
    start_workers(1)
    (worker,) = metis_workers._idle
    for _ in range(2):
        [found] = cut_aside(lambda: (STARTS, NEIGHBOURS), CUTS[:1])()
        assert (found == ALONE[0]).all()
        assert list(metis_workers._idle) == [worker]
    os.kill(worker._process.pid, signal.SIGKILL)
    worker._process.wait()
    assert same(cut_aside(lambda: (STARTS, NEIGHBOURS), CUTS)())
    assert worker not in metis_workers._idle


def test_a_process_that_ends_at_its_work_is_replaced_by_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    start_workers(1)
    (worker,) = metis_workers._idle
    os.kill(worker._process.pid, signal.SIGKILL)
    monkeypatch.setattr(metis_workers._Worker, "lives", True)
    [found] = cut_aside(lambda: (STARTS, NEIGHBOURS), CUTS[:1])()
    assert (found == ALONE[0]).all()
    assert not metis_workers._idle


@pytest.mark.parametrize("exists", [True, False])
def test_where_no_process_can_be_had_this_one_does_the_work(
    exists: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "python"
    if exists:
        broken.write_text("#!/bin/sh\nexit 1\n")
        broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    start_workers(1)
    assert same(cut_aside(lambda: (STARTS, NEIGHBOURS), CUTS)())


def test_small_graphs_start_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metis_workers, "_Worker", lambda: pytest.fail("started a process"))
    assert same(cut_together(STARTS, NEIGHBOURS, CUTS, workers=4))


def test_a_process_ends_when_nothing_more_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    start_workers(1)
    process = metis_workers._idle.pop()._process
    process.communicate(timeout=30)  # closes its input
    assert process.returncode == 0
