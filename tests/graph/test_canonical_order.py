"""Canonical order: the same for the same graph in another order, and for copies of a component."""

from __future__ import annotations

import numpy as np
import pytest

from veilgraph.datasets import csbm
from veilgraph.graph import Graph
from veilgraph.graph.canonical_order import canonical_order

GRAPH = csbm(300, mean_degree=4, num_features=1, seed=0).graph


def renamed(graph: Graph, seed: int, *, ids: bool) -> tuple[Graph, np.ndarray]:
    """Return the graph with its nodes in another order, and the new number of each node."""
    number_of = np.random.default_rng(seed).permutation(graph.num_nodes)
    names = [f"person {node}" for node in np.argsort(number_of)] if ids else None
    return Graph.from_edges(number_of[graph.edges], graph.num_nodes, node_ids=names), number_of


def test_the_rows_of_a_table_of_ids_do_not_matter() -> None:
    (first, one), (second, other) = (renamed(GRAPH, seed, ids=True) for seed in (0, 1))
    found, again = canonical_order(first), canonical_order(second)
    assert (np.argsort(one)[found.nodes] == np.argsort(other)[again.nodes]).all()
    assert (found.adjacency.starts == again.adjacency.starts).all()
    assert (found.adjacency.neighbours == again.adjacency.neighbours).all()


def test_without_ids_the_structure_alone_orders_a_tree() -> None:
    """A tree has many automorphisms: whichever of two equal branches comes first, the rows are the same."""
    tree = Graph.from_edges([np.arange(1, 200) // 2, np.arange(1, 200)], num_nodes=200)
    found, again = (canonical_order(graph) for graph in (tree, renamed(tree, 3, ids=False)[0]))
    assert (found.adjacency.neighbours == again.adjacency.neighbours).all()


@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_same_graph_in_another_order(seed: int) -> None:
    graph, _ = renamed(GRAPH, seed, ids=False)
    order = canonical_order(graph)
    assert sorted(order.nodes.tolist()) == np.flatnonzero(graph.degrees).tolist()
    rows = np.repeat(order.nodes, np.diff(order.adjacency.starts))
    pairs = set(zip(rows.tolist(), order.nodes[order.adjacency.neighbours].tolist(), strict=True))
    assert pairs == set(zip(*graph.edge_index.tolist(), strict=True))


def test_copies_of_a_component_and_nodes_beside_it_have_equal_rows() -> None:
    edges = GRAPH.edges
    more = Graph.from_edges(np.concatenate([edges + 7, edges + 300 + 7], axis=1), num_nodes=620)
    alone, beside = canonical_order(GRAPH), canonical_order(more)
    giant = alone.component(0)
    for number in (0, 1):
        assert (beside.component(number).starts == giant.starts).all()
        assert (beside.component(number).neighbours == giant.neighbours).all()
    assert beside.sizes.tolist() == np.repeat(alone.sizes, 2).tolist()
    assert (beside.places[: alone.sizes[0]] == np.arange(alone.sizes[0])).all()
