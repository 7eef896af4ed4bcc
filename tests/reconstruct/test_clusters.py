"""METIS bags: a partition into about equal parts, the same for a seed."""

from __future__ import annotations

import numpy as np
import pytest

from veilgraph.datasets import csbm
from veilgraph.errors import ReconstructionError
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
