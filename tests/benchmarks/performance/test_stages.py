"""Every stage is compared with the loops and the lower bound; no test depends on a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks.performance.hot_path import measure_hot_path
from benchmarks.performance.stages import measure_stages
from benchmarks.performance.timing import seconds
from benchmarks.performance.workload import Workload

from benchmarks.performance import stages, workload
from tests.benchmarks.performance.test_machine import MACHINE
from veilgraph.datasets import csbm
from veilgraph.errors import RunError

CPU = torch.device("cpu")
SMALL = Workload.of(csbm(120, num_features=12, num_classes=3, seed=0))


@pytest.fixture
def _once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time everything once: the tests check that it runs, not how fast."""
    monkeypatch.setattr(stages, "seconds", lambda work, device: seconds(work, device=device, at_least=0.0))


@pytest.mark.usefixtures("_once")
def test_every_stage_has_a_time_a_ratio_and_its_distance_to_the_floor() -> None:
    told: list[tuple[str, int, int]] = []
    rows = measure_stages(SMALL, MACHINE, CPU, epochs=2, progress=lambda *news: told.append(news))
    names = [row["stage"] for row in rows]
    assert len(names) == len(set(names)) == 13
    assert [done for _, done, _ in told] == list(range(14))
    assert {total for *_, total in told} == {13}
    for row in rows:
        assert row["veilgraph_s"] > 0
        assert set(row["floors_s"]) == set(row["distance"]) == {"memory", "cache", "peak"}
        if row["stage"] == "clusters" or row["stage"].startswith("Veil"):
            assert row["literal_s"] is row["ratio"] is None
        else:
            assert row["ratio"] == row["literal_s"] / row["veilgraph_s"]
        for ceiling, floor in row["floors_s"].items():
            assert row["distance"][ceiling] == (row["veilgraph_s"] / floor if floor else None)


def test_the_hot_path_is_shares_of_one_whole() -> None:
    found = measure_hot_path(SMALL, CPU, seeds=1, epochs=2)
    rows: list[dict[str, Any]] = found["rows"]
    assert found["replicas"] == 4
    assert sum(row["share"] for row in rows) == pytest.approx(1.0)
    assert rows[-1]["operation"] == "all others"
    assert [row["share"] for row in rows[:-1]] == sorted((row["share"] for row in rows[:-1]), reverse=True)


def test_without_the_data_folder_a_block_model_of_the_same_size_stands_in(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def nothing(*arguments: object) -> None:
        raise RunError("facebook.npz is not there")

    monkeypatch.setattr(workload, "load", nothing)
    found = workload.largest(tmp_path)
    assert (found.graph.num_nodes, found.graph.num_edges) == (22_470, 170_823)
    assert found.in_words().startswith("a block model of the size of Facebook: 22,470 nodes, 170,823 edges")


def test_unseen_data_is_the_same_data() -> None:
    unseen = SMALL.unseen()
    assert unseen is not SMALL.private
    assert unseen.graph is not SMALL.graph
    assert unseen.fingerprint == SMALL.private.fingerprint
