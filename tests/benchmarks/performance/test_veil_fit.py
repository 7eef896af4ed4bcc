"""The time of a fit of Veil, of graphs by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.performance.veil_fit import collect, fit_times, read_graph

from veilgraph.datasets import csbm


def test_both_fits_take_time() -> None:
    times = fit_times(*collect(csbm(60, num_classes=2, num_features=0, seed=0), 0), 1)
    assert list(times) == ["first", "next"]
    assert all(seconds > 0 for seconds in times.values())


@pytest.mark.parametrize("classes", [2, 5])
def test_a_block_model_is_named_by_classes_and_homophily(classes: int) -> None:
    private = read_graph(f"csbm:{classes}:0.6", Path())
    assert (private.graph.num_nodes, private.schema.num_classes) == (3000, classes)
    # The share of 15,000 edges has a standard error of 0.004.
    assert private.homophily == pytest.approx(0.6, abs=0.016)
