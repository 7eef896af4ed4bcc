"""METIS gives the same parts whoever computes them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from veilgraph import metis
from veilgraph.datasets import csbm
from veilgraph.metis import Cut, cut

GRAPH = csbm(300, seed=0).graph
STARTS, NEIGHBOURS = (each.astype(np.int32) for each in GRAPH.adjacency)
CUTS = [Cut(parts, recursive=recursive, seed=seed) for parts, recursive in ((4, True), (9, False)) for seed in (0, 1)]


@pytest.mark.parametrize("workers", [2, 3, 10])
def test_several_processes_give_the_parts_of_one_in_the_same_order(
    workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = cut(STARTS, NEIGHBOURS, CUTS)
    monkeypatch.setattr(metis, "_WORTH_A_PROCESS", 0)
    together = cut(STARTS, NEIGHBOURS, CUTS, workers=workers)
    assert len(together) == len(CUTS)
    for one, other, each in zip(alone, together, CUTS, strict=True):
        assert (one == other).all()
        assert len(set(one.tolist())) == each.parts


@pytest.mark.parametrize("exists", [True, False])
def test_a_process_that_cannot_work_is_replaced_by_this_one(
    exists: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    alone = cut(STARTS, NEIGHBOURS, CUTS)
    monkeypatch.setattr(metis, "_WORTH_A_PROCESS", 0)
    broken = tmp_path / "python"
    if exists:
        broken.write_text("#!/bin/sh\nexit 1\n")
        broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    for one, other in zip(alone, cut(STARTS, NEIGHBOURS, CUTS, workers=2), strict=True):
        assert (one == other).all()


def test_small_graphs_start_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metis, "cut_aside", lambda *arguments: pytest.fail("started a process"))
    assert len(cut(STARTS, NEIGHBOURS, CUTS, workers=4)) == len(CUTS)
