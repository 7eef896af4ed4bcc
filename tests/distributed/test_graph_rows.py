"""Rows and halo of one process are the whole graph; a part of it has the operators of the graph."""

from __future__ import annotations

import numpy as np

from veilgraph.datasets import csbm
from veilgraph.distributed.exchange import Exchange
from veilgraph.distributed.graph_rows import GraphRows, Halo, graph_part, neighbours_elsewhere, rows_of_part, whole_rows

NOBODY = np.empty(0, dtype=np.int64)
ALONE = Exchange(rank=0, world_size=1)


def test_rows_are_the_adjacency_and_pairs_are_their_inverse() -> None:
    graph = csbm(200, mean_degree=4, seed=1).graph
    rows = whole_rows(graph)
    shuffled = np.random.default_rng(0).permutation(np.repeat(rows.pairs(), 2))
    again = GraphRows.from_pairs(shuffled, rows.numbers, graph.num_nodes)
    np.testing.assert_array_equal(again.starts, graph.adjacency.starts)
    np.testing.assert_array_equal(again.neighbours, graph.adjacency.neighbours)
    np.testing.assert_array_equal(again.degrees, graph.degrees)


def test_a_part_of_all_nodes_has_their_edges_and_no_halo() -> None:
    graph = csbm(100, mean_degree=4, seed=2).graph
    rows = whole_rows(graph)
    assert len(neighbours_elsewhere(rows)) == 0
    part = graph_part(rows, Halo.of(ALONE, rows.numbers, NOBODY, NOBODY))
    np.testing.assert_array_equal(part.edges, graph.edges)
    np.testing.assert_array_equal(part.extended.degrees, graph.degrees)
    assert part.halo_size == 0
    assert part.max_extended_nodes == 100


def test_rows_of_a_part_are_those_that_it_was_made_from() -> None:
    graph = csbm(100, mean_degree=4, seed=2).graph
    rows = whole_rows(graph)
    part = graph_part(rows, Halo.of(ALONE, rows.numbers, NOBODY, NOBODY))
    again, halo = rows_of_part(part, ALONE)
    np.testing.assert_array_equal(again.pairs(), rows.pairs())
    np.testing.assert_array_equal(halo.extended, rows.numbers)
    assert part.num_global_edges == graph.num_edges
