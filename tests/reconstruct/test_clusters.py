"""Bags: a partition into about equal parts, the same for a seed; by METIS unless the graph is too large for it."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import veilgraph.reconstruct.clusters as clusters_module
from veilgraph.datasets import csbm
from veilgraph.errors import ReconstructionError
from veilgraph.reconstruct import cluster
from veilgraph.reconstruct.streaming import stream_partition

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
