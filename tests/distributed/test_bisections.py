"""Trees of regions: nested parts of about equal size that hold communities together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.distributed.test_label_propagation import halo_of
from veilgraph.datasets import csbm
from veilgraph.distributed.bisections import bisect_rows, row_bisection_plan
from veilgraph.distributed.graph_rows import whole_rows
from veilgraph.distributed.label_propagation import grow_regions
from veilgraph.graph import Graph
from veilgraph.graph.clustering import bisections


def inside(graph: Graph, codes: NDArray[np.integer[Any]]) -> float:
    """Return the share of edges within the smallest parts."""
    return float((codes[graph.edges[0]] == codes[graph.edges[1]]).mean())


@pytest.mark.parametrize("nodes", [1000, 6000])  # every node is a region, or regions have three
def test_trees_hold_about_as_many_edges_as_those_of_metis(nodes: int) -> None:
    cliques = np.arange(nodes) // 20
    pairs = np.random.default_rng(0).integers(20, size=(2, 8 * nodes)) + 20 * np.repeat(cliques, 8)
    graph = Graph.from_edges(pairs, num_nodes=nodes)
    depth, trees = row_bisection_plan(graph)
    found = bisect_rows(whole_rows(graph), halo_of(graph), depth, trees)
    (metis,) = bisections(graph, 1).trees
    assert len(found) == trees
    assert all(codes.max() < 2**depth for codes in found)
    assert np.mean([inside(graph, codes) for codes in found]) > 0.75 * inside(graph, metis)
    halves = np.array([np.bincount(codes >> (depth - 1), minlength=2) for codes in found])
    assert (np.abs(halves - nodes / 2) < 0.1 * nodes).all()


def test_a_graph_too_small_to_be_bisected_is_one_part() -> None:
    graph = Graph.from_edges([[0], [1]], num_nodes=2)
    assert [codes.tolist() for codes in bisect_rows(whole_rows(graph), halo_of(graph), 0, 1)] == [[0, 0]]


def test_thousands_of_regions_have_few_nodes_each() -> None:
    graph = csbm(3000, mean_degree=6, seed=0).graph
    regions = grow_regions(whole_rows(graph), halo_of(graph), 600, seed=0)
    sizes = np.bincount(regions, minlength=600)
    assert sizes.max() <= 16
    shuffled = np.random.default_rng(0).permutation(regions)
    assert inside(graph, regions) > 10 * inside(graph, shuffled)
