"""Leading eigenvectors: the space of the dense solution, from both ends of the spectrum."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from veilgraph.datasets import csbm
from veilgraph.graph import Graph
from veilgraph.graph.spectrum import leading_eigenvectors


def dense(graph: Graph) -> NDArray[np.float64]:
    """Return the regularised adjacency as a dense matrix."""
    matrix = np.zeros((graph.num_nodes, graph.num_nodes))
    matrix[tuple(graph.edge_index)] = 1
    scale = 1 / np.sqrt(graph.degrees + graph.degrees.mean())
    return np.asarray(matrix * scale[:, None] * scale)


@pytest.mark.parametrize("homophily", [0.05, 0.8])
def test_the_vectors_attain_the_largest_magnitudes_of_the_spectrum(homophily: float) -> None:
    graph = csbm(400, num_classes=3, homophily=homophily, num_features=1, seed=0).graph
    vectors, matrix = leading_eigenvectors(graph, 8).astype(np.float64), dense(graph)
    expected = np.sort(np.abs(np.linalg.eigvalsh(matrix)))[::-1][:8]
    assert np.abs(vectors.T @ vectors - np.eye(8)).max() < 1e-4
    # A Ritz value is within 1 % of an eigenvalue, the tolerance of the solver.
    assert np.abs(np.diag(vectors.T @ matrix @ vectors)) == pytest.approx(expected, rel=0.02)


def test_classes_that_avoid_each_other_are_found_at_the_negative_end() -> None:
    private = csbm(600, num_classes=2, homophily=0.05, num_features=1, seed=0)
    second = leading_eigenvectors(private.graph, 2)[:, 1].astype(np.float64)
    assert second @ dense(private.graph) @ second < 0
    found = second > 0
    agreeing = (found == (private.labels == 1)).mean()
    assert max(agreeing, 1 - agreeing) > 0.95


def test_the_order_of_nodes_does_not_matter() -> None:
    graph = csbm(300, num_classes=3, num_features=1, seed=1).graph
    order = np.random.default_rng(0).permutation(300)
    renamed = Graph.from_edges(order[graph.edges], num_nodes=300)
    one, other = (leading_eigenvectors(each, 3).astype(np.float64) for each in (graph, renamed))
    # Vectors may be rotated; the projection on their space may not.
    assert np.abs(other[order] @ other[order].T - one @ one.T).max() < 0.02


def test_the_same_graph_gives_the_same_vectors() -> None:
    graph = csbm(500, num_classes=3, num_features=1, seed=0).graph
    assert (leading_eigenvectors(graph, 16) == leading_eigenvectors(graph, 16)).all()


def test_components_and_isolated_nodes_have_the_vectors_that_they_have_alone() -> None:
    edges = csbm(300, num_classes=3, mean_degree=8, num_features=1, seed=1).graph.edges
    alone = leading_eigenvectors(Graph.from_edges(edges, num_nodes=300), 8)[:, :4]
    twice = leading_eigenvectors(Graph.from_edges(np.concatenate([edges, edges + 300], axis=1), num_nodes=640), 8)
    # Eigenvalues of two components are equal, but each vector is that of one component.
    first = twice[:300, np.abs(twice[:300]).sum(0) > 0]
    assert first.shape == (300, 4)
    assert np.abs(first @ first.T - alone @ alone.T).max() < 1e-3
    assert not twice[600:].any()


@pytest.mark.parametrize("nodes", [2, 5, 16, 33])
def test_a_small_graph_has_as_many_vectors_as_nodes(nodes: int) -> None:
    graph = Graph.from_edges([range(nodes - 1), range(1, nodes)], num_nodes=nodes)
    vectors = leading_eigenvectors(graph, 16)
    assert vectors.shape == (nodes, min(nodes, 16))
    assert np.isfinite(vectors).all()


@pytest.mark.parametrize("edges", [[[0], [1]], [range(0, 400, 2), range(1, 400, 2)], [[0] * 400, range(1, 401)]])
def test_graphs_of_low_rank_have_orthonormal_vectors(edges: list[list[int]]) -> None:
    graph = Graph.from_edges(edges, num_nodes=500)
    vectors, count = leading_eigenvectors(graph, 64), min(64, int((graph.degrees > 0).sum()))
    assert np.abs(vectors.T @ vectors - np.eye(count)).max() < 1e-4
