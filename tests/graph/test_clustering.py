"""Clusterings: about equal parts, reproducible by seed; by METIS, or by streaming for large graphs."""

from __future__ import annotations

import logging
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from veilgraph.datasets import csbm, load
from veilgraph.errors import ReconstructionError
from veilgraph.graph import Graph
from veilgraph.graph.clustering import (
    bisection_plan,
    bisections,
    clusterings,
    prefetch_bisections,
    start_bisections,
    stream_partition,
)
from veilgraph.reconstruct import cluster

GRAPH = csbm(400, seed=0).graph


@pytest.mark.parametrize("count", [1, 2, 16, 64])
def test_every_node_is_in_exactly_one_of_about_equal_parts(count: int) -> None:
    clusters = cluster(GRAPH, count)
    sizes = np.bincount(clusters, minlength=count)
    assert clusters.shape == (400,)
    assert len(sizes) == count
    # METIS lets a part exceed its share by 3%; parts of few nodes are off by whole nodes.
    assert sizes.max() <= np.ceil(400 / count * 1.03) + 2


def test_a_seed_gives_the_same_parts_again() -> None:
    assert (cluster(GRAPH, 16, seed=3) == cluster(GRAPH, 16, seed=3)).all()


def test_parts_cut_fewer_edges_than_random_ones() -> None:
    clusters = cluster(GRAPH, 4)
    shuffled = np.random.default_rng(0).permutation(clusters)
    cut, cut_at_random = (int((parts[GRAPH.edges[0]] != parts[GRAPH.edges[1]]).sum()) for parts in (clusters, shuffled))
    assert cut < cut_at_random


@pytest.mark.parametrize("count", [0, 401])
def test_impossible_numbers_of_clusters_are_refused(count: int) -> None:
    with pytest.raises(ReconstructionError, match=f"num_clusters is {count} but there are 400 nodes"):
        cluster(GRAPH, count)


def test_a_graph_too_large_for_metis_is_streamed_and_that_is_said(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="veilgraph")
    by_metis = cluster(GRAPH, 16)
    assert caplog.messages == []
    [streamed] = clusterings(GRAPH, [16], seed=5, max_metis_edges=GRAPH.num_edges - 1)
    assert (streamed == stream_partition(GRAPH.adjacency, 16, seed=5)).all()
    assert (streamed != by_metis).any()
    assert caplog.messages == ["bags: 2,000 edges are too many for METIS, nodes are streamed into 16 bags"]


def clique(first: int, size: int) -> list[tuple[int, int]]:
    return [(first + a, first + b) for a in range(size) for b in range(a)]


@pytest.mark.parametrize("seed", range(5))
def test_halves_of_halves_are_nested_where_the_graph_is(seed: int) -> None:
    # Four cliques in a random order of nodes; the first two and the last two have ten links, the pairs one.
    cliques = [pair for first in (0, 16, 32, 48) for pair in clique(first, 16)]
    links = [(i, 16 + i) for i in range(10)] + [(32 + i, 48 + i) for i in range(10)] + [(15, 47)]
    order = np.random.default_rng(seed).permutation(64)
    graph = Graph.from_edges(order[np.array(cliques + links).T], num_nodes=64)
    codes = bisections(graph, seed + 1).trees[seed][order]
    assert [len(set(codes[16 * i : 16 * i + 16])) for i in range(4)] == [1] * 4
    assert len(set(codes)) == 4
    assert (codes[:32] >> 1 == codes[0] >> 1).all()
    assert (codes[32:] >> 1 != codes[0] >> 1).all()


def test_every_level_of_bisection_has_parts_of_about_equal_size() -> None:
    found = bisections(GRAPH, 1)
    ([codes], [depth]) = found.trees, found.depths.tolist()
    assert depth == 4  # 400 nodes: parts of 25
    for level in range(depth + 1):
        sizes = np.bincount(codes >> (depth - level), minlength=2**level)
        assert len(sizes) == 2**level
        # Each cut may be off by a node or two, and their halves inherit it.
        assert abs(sizes - 400 / 2**level).max() <= 2 + 400 / 2**level * 0.1


def test_seeds_of_bisection_give_different_trees_and_each_the_same_again() -> None:
    first, second = bisections(GRAPH, 2).trees
    assert (first == bisections(GRAPH, 1).trees[0]).all()
    assert (first != second).any()


def test_every_component_is_bisected_by_itself() -> None:
    """A ring of 70 nodes, one of 40, a triangle and an isolated node, in a random order."""
    order = np.random.default_rng(0).permutation(114)
    rings = [(first + i, first + (i + 1) % size) for first, size in ((0, 70), (70, 40), (110, 3)) for i in range(size)]
    found = bisections(Graph.from_edges(order[np.array(rings).T], num_nodes=114), 3)
    assert found.depths.tolist() == [2, 1, 0]
    for codes in found.trees:
        large, small, triangle = (codes[order[part]] for part in (slice(70), slice(70, 110), slice(110, 113)))
        assert [set(large.tolist()), set(small.tolist()), set(triangle.tolist())] == [{0, 1, 2, 3}, {4, 5}, {6}]


def test_several_numbers_of_clusters_at_once_are_each_one_alone() -> None:
    counts = [16, 1, 4]
    for count, together in zip(counts, clusterings(GRAPH, counts), strict=True):
        assert (together == cluster(GRAPH, count)).all()
    assert clusterings(GRAPH, []) == []


STREAMED = {"patients": load("patients").graph, "csbm": csbm(2000, mean_degree=20, seed=0).graph}


def cut_share(graph: Graph, parts: NDArray[np.int64]) -> float:
    """Return the share of edges between parts."""
    return float((parts[graph.edges[0]] != parts[graph.edges[1]]).mean())


@settings(deadline=None, max_examples=50)
@given(st.integers(2, 60), st.integers(1, 200), st.integers(0, 10_000), st.data())
def test_no_streamed_part_exceeds_its_share_by_more_than_3_percent(
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


@pytest.mark.parametrize("name", sorted(STREAMED))
@pytest.mark.parametrize("count", [2, 16, 64])
def test_streamed_parts_are_nearer_to_those_of_metis_than_to_random_ones(name: str, count: int) -> None:
    graph = STREAMED[name]
    best = cluster(graph, count)
    at_random = np.random.default_rng(0).permutation(best)
    assert (
        cut_share(graph, stream_partition(graph.adjacency, count))
        < (cut_share(graph, best) + cut_share(graph, at_random)) / 2
    )


def test_a_seed_gives_the_same_stream_again() -> None:
    adjacency = STREAMED["patients"].adjacency
    assert (stream_partition(adjacency, 16, seed=3) == stream_partition(adjacency, 16, seed=3)).all()
    assert (stream_partition(adjacency, 16, seed=3) != stream_partition(adjacency, 16, seed=4)).any()


def test_a_stream_into_more_parts_than_a_byte_can_count() -> None:
    assert len(np.unique(stream_partition(STREAMED["csbm"].adjacency, 400))) > 256


def test_two_cliques_come_apart() -> None:
    # The only bridge is the best cut, and every node but its two ends has all neighbours on one side.
    ends = [(u, v) for side in (range(20), range(20, 40)) for u in side for v in side if u < v]
    graph = Graph.from_edges(np.array([*ends, (19, 20)]).T, 40)
    assert cut_share(graph, stream_partition(graph.adjacency, 2)) == pytest.approx(1 / graph.num_edges)


def test_prefetched_bisections_are_those_of_a_later_call_and_others_are_computed() -> None:
    graph = csbm(3000, mean_degree=20, seed=0).graph
    _, trees = bisection_plan(graph)
    prefetch_bisections(graph)
    first, again = start_bisections(graph, trees)(), bisections(graph, trees)
    assert len(first.trees) == len(again.trees) == trees
    assert all((one == other).all() for one, other in zip(first.trees, again.trees, strict=True))
    prefetch_bisections(graph)
    assert len(bisections(graph, 1).trees) == 1
