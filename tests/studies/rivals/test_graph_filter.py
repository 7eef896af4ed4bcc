"""Filters of a graph against powers of its dense matrix."""

from __future__ import annotations

import pytest
import torch
from studies.rivals.graph_filter import graph_filter, last_power, mean_of_powers, truncated_pagerank

from veilgraph.errors import FitError
from veilgraph.graph import Graph
from veilgraph.reconstruct.operators import GraphOperators

GRAPH = Graph.from_edges([[0, 1, 2, 0, 3], [1, 2, 3, 3, 4]], num_nodes=6)  # node 5 is isolated
VALUES = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))


def dense() -> torch.Tensor:
    """Return D^-1/2 A D^-1/2."""
    adjacency = torch.zeros(6, 6)
    adjacency[tuple(torch.from_numpy(GRAPH.edge_index))] = 1
    scale = adjacency.sum(1).clamp(min=1).rsqrt()
    return scale[:, None] * adjacency * scale


def filtered(weights: list[float]) -> torch.Tensor:
    return graph_filter(GraphOperators(GRAPH).symmetric, VALUES, weights)


def test_filters_are_the_powers_that_they_are_named_after() -> None:
    powers = [torch.linalg.matrix_power(dense(), power) @ VALUES for power in range(4)]
    assert torch.allclose(filtered(mean_of_powers(3)), torch.stack(powers[1:]).mean(0), atol=1e-6)
    assert torch.allclose(filtered(last_power(3)), powers[3], atol=1e-6)
    for none in (last_power(0), mean_of_powers(0), truncated_pagerank(0, 0.3)):
        assert torch.equal(filtered(none), VALUES)
    assert truncated_pagerank(3, 0.0) == last_power(3)
    assert [sum(truncated_pagerank(5, restart)) for restart in (0.0, 0.2, 1.0)] == pytest.approx([1, 1, 1])


def test_many_steps_of_pagerank_reach_its_closed_form() -> None:
    # The error after K steps is at most (1 - a)^K, times the norm of the values: 0.7^60 < 1e-9.
    closed = 0.3 * torch.linalg.solve(torch.eye(6) - 0.7 * dense(), VALUES)
    assert torch.allclose(filtered(truncated_pagerank(60, 0.3)), closed, atol=1e-6)


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(FitError, match="feature_hops is -1"):
        mean_of_powers(-1)
    with pytest.raises(FitError, match=r"restart is 1\.5"):
        truncated_pagerank(2, 1.5)
