"""Bags: a partition into about equal parts, the same for a seed; by METIS unless the graph is too large for it."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import veilgraph.graph.clustering as clusters_module
from veilgraph.datasets import csbm
from veilgraph.errors import ReconstructionError
from veilgraph.graph import Graph
from veilgraph.graph.clustering import bisections, clusterings, stream_partition
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


def test_a_graph_too_large_for_metis_is_streamed_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="veilgraph")
    by_metis = cluster(GRAPH, 16)
    assert caplog.messages == []
    monkeypatch.setattr(clusters_module, "MOST_METIS_EDGES", GRAPH.num_edges - 1)
    streamed = cluster(GRAPH, 16, seed=5)
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
    codes = bisections(graph, 2, seed + 1)[seed][order]
    assert [len(set(codes[16 * i : 16 * i + 16])) for i in range(4)] == [1] * 4
    assert len(set(codes)) == 4
    assert (codes[:32] >> 1 == codes[0] >> 1).all()
    assert (codes[32:] >> 1 != codes[0] >> 1).all()


@pytest.mark.parametrize("depth", [0, 1, 3, 5])
def test_every_level_of_bisection_has_parts_of_about_equal_size(depth: int) -> None:
    [codes] = bisections(GRAPH, depth, 1)
    for level in range(depth + 1):
        sizes = np.bincount(codes >> (depth - level), minlength=2**level)
        assert len(sizes) == 2**level
        # Each cut may be off by a node or two, and their halves inherit it.
        assert abs(sizes - 400 / 2**level).max() <= 2 + 400 / 2**level * 0.1


def test_seeds_of_bisection_give_different_trees_and_each_the_same_again() -> None:
    first, second = bisections(GRAPH, 4, 2)
    assert (first == bisections(GRAPH, 4, 1)[0]).all()
    assert (first != second).any()


@pytest.mark.parametrize("depth", [-1, 9])
def test_impossible_depths_are_refused(depth: int) -> None:
    with pytest.raises(ReconstructionError, match=f"depth is {depth} but 400 nodes cannot be halved so often"):
        bisections(GRAPH, depth, 1)


def test_several_numbers_of_clusters_at_once_are_each_one_alone() -> None:
    counts = [16, 1, 4]
    for count, together in zip(counts, clusterings(GRAPH, counts), strict=True):
        assert (together == cluster(GRAPH, count)).all()
    assert clusterings(GRAPH, []) == []
