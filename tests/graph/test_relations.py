"""Relations: weights, directions and kinds as graphs of their own."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilgraph.graph import Graph
from veilgraph.graph.relations import WeightedGraph, relations


def _dense(graph: Graph) -> np.ndarray:
    matrix = np.zeros((graph.num_nodes, graph.num_nodes))
    matrix[tuple(graph.edges)] = 1.0 if graph.edge_weights is None else graph.edge_weights
    return matrix + matrix.T


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, np.ndarray]:
    nodes = draw(st.integers(4, 12))
    pairs = st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1))
    chosen = draw(st.lists(pairs.filter(lambda pair: pair[0] != pair[1]), min_size=3, max_size=40, unique=True))
    return nodes, np.array(chosen).T


@settings(max_examples=30, deadline=None)
@given(graphs())
def test_coupling_is_the_product_of_the_adjacency_with_its_transpose(drawn: tuple[int, np.ndarray]) -> None:
    nodes, arcs = drawn
    found = relations(Graph.from_edges(arcs, nodes, directed=True))
    adjacency = np.zeros((nodes, nodes))
    adjacency[tuple(arcs)] = 1
    for name, matrix in (("same targets", adjacency), ("same sources", adjacency.T)):
        shares = matrix / np.maximum(matrix.sum(axis=0), 1)
        expected = shares @ matrix.T
        np.fill_diagonal(expected, 0)
        if name in found:
            coupled = _dense(found[name])
            np.testing.assert_allclose(coupled / coupled.sum(), expected / expected.sum(), atol=1e-12)
        elif (adjacency != adjacency.T).any():
            assert not expected.any()


@settings(max_examples=30, deadline=None)
@given(graphs())
def test_reversing_every_link_swaps_the_two_sides(drawn: tuple[int, np.ndarray]) -> None:
    nodes, arcs = drawn
    forth, back = (relations(Graph.from_edges(pairs, nodes, directed=True)) for pairs in (arcs, arcs[::-1]))
    other = {"same targets": "same sources", "same sources": "same targets"}
    assert {name: _dense(graph).tolist() for name, graph in forth.items()} == {
        other[name]: _dense(graph).tolist() for name, graph in back.items()
    }


@pytest.mark.parametrize("scale", [0.25, 8.0])
def test_the_unit_of_weights_changes_nothing(scale: float) -> None:
    edges, weights = [[0, 1, 2, 0], [1, 2, 3, 3]], np.array([1.0, 2.0, 5.0, 0.1])
    one, other = (relations(Graph.from_edges(edges, 4, weights=each))["weights"] for each in (weights, scale * weights))
    assert np.array_equal(_dense(one), _dense(other))
    assert _dense(one).sum() == pytest.approx(2 * one.num_edges)  # a mean of 1


def test_a_kind_has_its_own_links_and_no_others() -> None:
    graph = Graph.from_edges([[0, 1, 0], [1, 2, 2]], 3, kinds=["call", "call", "visit"])
    assert {name: each.edges.T.tolist() for name, each in relations(graph).items()} == {
        "kind call": [[0, 1], [1, 2]],
        "kind visit": [[0, 2]],
    }


def test_links_of_several_kinds_between_two_people_add_up() -> None:
    graph = Graph.from_edges([[0, 0, 1], [1, 1, 2]], 3, kinds=["call", "visit", "call"], weights=[1.0, 2.0, 1.0])
    weighted = relations(graph)["weights"]
    assert isinstance(weighted, WeightedGraph)
    assert weighted.edge_weights.tolist() == [1.5, 0.5]
    assert weighted.strengths.tolist() == [1.5, 2.0, 0.5]


def test_pairs_of_hubs_are_left_out_beyond_a_limit() -> None:
    people = np.arange(5000)
    hub = np.stack([people, np.full(5000, 5001)])  # 5,000 people link to one: 25 million pairs
    few = np.array([[0, 1], [5002, 5002]])
    found = relations(Graph.from_edges(np.concatenate([hub, few], axis=1), 5003, directed=True))
    assert found["same targets"].edges.tolist() == [[0], [1]]


def test_people_of_a_large_graph_keep_their_strongest_partners() -> None:
    """Sixty people link to the same sixty, and each to one more, together with one of the others."""
    people = np.arange(60)
    ends = np.stack([np.repeat(people, 60), np.tile(people + 60, 60)])
    own = np.stack([people, 120 + people // 2])
    graph = Graph.from_edges(np.concatenate([ends, own], axis=1), 2**17, directed=True)
    found = relations(graph)["same targets"]
    assert 60 * 8 / 2 <= found.num_edges <= 60 * 8
    assert {(2 * pair, 2 * pair + 1) for pair in range(30)} <= set(zip(*found.edges.tolist(), strict=True))
