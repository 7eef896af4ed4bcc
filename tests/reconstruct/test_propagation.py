"""K-hop means: one sparse product equals the paper's loops; effective sample sizes of the means."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.reference import literal
from veilgraph.datasets import csbm
from veilgraph.errors import ReconstructionError
from veilgraph.graph import Graph
from veilgraph.reconstruct import NeighbourhoodMean
from veilgraph.reconstruct.propagation import default_hops

EPSILON = torch.finfo(torch.float32).eps
STAR = Graph.from_edges([[0, 0, 0], [1, 2, 3]], num_nodes=5)  # node 4 is isolated


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.integers(0, 5))
def test_propagation_equals_the_literal_loop(seed: int, hops: int) -> None:
    rng = np.random.default_rng(seed)
    edges = np.concatenate([rng.integers(0, 12, (2, 20)), [[0], [1]]], axis=1)
    graph = Graph.from_edges(edges, num_nodes=12)
    columns = torch.from_numpy(rng.random((12, 3)))
    expected = literal.propagate(columns, literal.node_hop(graph), hops)
    found = NeighbourhoodMean.of(graph).propagate(columns.float(), hops)
    assert np.allclose(found, expected, atol=1e-6)


def test_blocks_of_columns_change_nothing() -> None:
    mean = NeighbourhoodMean.of(csbm(200, seed=1).graph)
    columns = torch.rand(200, 7, generator=torch.Generator().manual_seed(0))
    whole = mean.propagate(columns, 3)
    for width in (1, 2, 6, 7, 100):
        blocks = mean.propagate(columns, 3, max_columns=width)
        # Shares up to 1 after three roundings.
        assert torch.allclose(blocks, whole, rtol=0, atol=4 * EPSILON)


def test_isolated_nodes_keep_their_own_row() -> None:
    columns = torch.arange(5.0).unsqueeze(1)
    assert NeighbourhoodMean.of(STAR).propagate(columns, 9)[4] == 4.0


def test_one_hop_is_worth_the_closed_neighbourhood() -> None:
    sizes = NeighbourhoodMean.of(STAR).effective_sample_size(torch.ones(5, dtype=torch.bool), 1)
    assert torch.allclose(sizes, torch.tensor([4.0, 2, 2, 2, 1]))


def test_overlapping_hops_are_worth_one_over_the_sum_of_squared_weights() -> None:
    graph = csbm(60, mean_degree=3, seed=2).graph
    mean = NeighbourhoodMean.of(graph)
    power = torch.linalg.matrix_power(mean.matrix.to_dense(), 5)
    expected = 1 / power.square().sum(1)
    assert torch.allclose(mean.effective_sample_size(torch.ones(60, dtype=torch.bool), 5), expected, rtol=1e-4)


def test_only_reporting_nodes_count() -> None:
    reporting = torch.tensor([False, True, True, False, False])
    sizes = NeighbourhoodMean.of(STAR).effective_sample_size(reporting, 1)
    assert sizes.tolist() == [2, 1, 1, 0, 0]  # two leaves report to the hub; nodes 3 and 4 have no report within a hop


def test_random_signs_estimate_the_sample_size_on_large_graphs() -> None:
    graph = csbm(1000, mean_degree=6, seed=3).graph
    mean = NeighbourhoodMean.of(graph)
    reporting = torch.ones(1000, dtype=torch.bool)
    exact = mean.effective_sample_size(reporting, 4)
    ratio = mean.effective_sample_size(reporting, 4, max_exact_nodes=0) / exact
    # The mean of 64 squared sums has relative variance at most 2/64, its inverse the same to first order; over 1000
    # nodes, not all independent, the mean is within a tenth of 1 + 2/64 and hardly any node is off by 5 deviations.
    assert abs(float(ratio.mean()) - 1) < 0.1
    assert float((ratio.log().abs() > 5 * math.sqrt(2 / 64)).float().mean()) < 0.01


def test_negative_hops_are_refused() -> None:
    with pytest.raises(ReconstructionError, match="hops is -1"):
        NeighbourhoodMean.of(STAR).propagate(torch.ones(5, 1), -1)


def test_a_dense_graph_needs_fewer_hops() -> None:
    sparse, dense = (default_hops(csbm(500, mean_degree=degree, seed=0).graph) for degree in (3, 30))
    assert dense < sparse
