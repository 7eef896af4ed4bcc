"""Streamed bags: equal parts, local ones, in one way for a seed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from veilgraph.datasets import csbm, load
from veilgraph.graph import Graph
from veilgraph.graph.clustering import stream_partition
from veilgraph.reconstruct import cluster

GRAPHS = {"patients": load("patients").graph, "csbm": csbm(2000, mean_degree=20, seed=0).graph}


def cut(graph: Graph, parts: NDArray[np.int64]) -> float:
    """The share of edges between parts."""
    return float((parts[graph.edges[0]] != parts[graph.edges[1]]).mean())


@settings(deadline=None, max_examples=50)
@given(st.integers(2, 60), st.integers(1, 200), st.integers(0, 10_000), st.data())
def test_no_part_exceeds_its_share_by_more_than_3_percent(
    nodes: int, edges: int, seed: int, data: st.DataObject
) -> None:
    ends = np.random.default_rng(seed).integers(0, nodes, (2, edges))
    graph = Graph.from_edges(np.concatenate([ends, [[0], [1]]], axis=1), nodes)
    count = data.draw(st.integers(1, nodes))
    parts = stream_partition(graph.adjacency, count, seed=seed)
    assert parts.shape == (nodes,)
    assert parts.min() >= 0
    assert np.bincount(parts, minlength=count).shape == (count,)
    assert np.bincount(parts).max() <= math.ceil(1.03 * nodes / count)


@pytest.mark.parametrize("name", sorted(GRAPHS))
@pytest.mark.parametrize("count", [2, 16, 64])
def test_parts_are_nearer_to_those_of_metis_than_to_random_ones(name: str, count: int) -> None:
    graph = GRAPHS[name]
    best = cluster(graph, count)
    at_random = np.random.default_rng(0).permutation(best)
    assert cut(graph, stream_partition(graph.adjacency, count)) < (cut(graph, best) + cut(graph, at_random)) / 2


def test_a_seed_gives_the_same_parts_again() -> None:
    adjacency = GRAPHS["patients"].adjacency
    assert (stream_partition(adjacency, 16, seed=3) == stream_partition(adjacency, 16, seed=3)).all()
    assert (stream_partition(adjacency, 16, seed=3) != stream_partition(adjacency, 16, seed=4)).any()


def test_more_parts_than_a_byte_can_count() -> None:
    assert len(np.unique(stream_partition(GRAPHS["csbm"].adjacency, 400))) > 256


def test_two_cliques_come_apart() -> None:
    # The only bridge is the best cut, and every node but its two ends has all neighbours on one side.
    ends = [(u, v) for side in (range(20), range(20, 40)) for u in side for v in side if u < v]
    graph = Graph.from_edges(np.array([*ends, (19, 20)]).T, 40)
    assert cut(graph, stream_partition(graph.adjacency, 2)) == pytest.approx(1 / graph.num_edges)
