"""Operators: the matrices are those that their docstrings define, and each is computed once."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.partition import Partition
from veilgraph.datasets import csbm
from veilgraph.graph import Graph
from veilgraph.graph.clustering import cluster
from veilgraph.graph.relations import WeightedGraph, relations
from veilgraph.models.veil.pagerank import personalised_pagerank
from veilgraph.reconstruct.operators import GraphOperators, PartOperators

PATH = Graph.from_edges([[0, 1], [1, 2]], num_nodes=4)  # node 3 is isolated


def random_graph(seed: int) -> Graph:
    edges = np.random.default_rng(seed).integers(0, 15, (2, 20))
    return Graph.from_edges(np.concatenate([edges, [[0], [1]]], axis=1), num_nodes=15)


def test_the_symmetric_matrix_of_a_path_is_known_by_hand() -> None:
    # Degrees 1, 2, 1, 0: both edges join a 1 to a 2, so they weigh 1 / sqrt 2; the isolated node has nothing.
    weight = 0.5**0.5
    expected = torch.tensor([[0, weight, 0, 0], [weight, 0, weight, 0], [0, weight, 0, 0], [0, 0, 0, 0]])
    assert torch.allclose(GraphOperators(PATH).symmetric.matrix.to_dense(), expected)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000))
def test_roots_of_degrees_are_the_eigenvector_of_the_largest_eigenvalue_one(seed: int) -> None:
    graph = random_graph(seed)
    matrix = GraphOperators(graph).symmetric.matrix.to_dense()
    assert torch.equal(matrix, matrix.T)
    roots = torch.from_numpy(graph.degrees).to(torch.float32).sqrt()
    assert torch.allclose(matrix @ roots, roots, atol=1e-5)
    assert float(torch.linalg.eigvalsh(matrix).abs().max()) == pytest.approx(1, abs=1e-5)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000))
def test_the_two_matrices_are_built_from_the_same_edges(seed: int) -> None:
    graph = random_graph(seed)
    operators = GraphOperators(graph)
    adjacency = torch.zeros(15, 15)
    adjacency[tuple(operators.edge_index)] = 1
    assert torch.equal(adjacency, adjacency.T)
    assert torch.equal(operators.symmetric.matrix.to_dense() > 0, adjacency > 0)
    assert torch.equal(operators.mean.matrix.to_dense() > 0, (adjacency + torch.eye(15)) > 0)


def test_the_matrices_of_convolutions_are_known_by_hand() -> None:
    # The neighbours' mean of GraphSAGE: node 1 halves two neighbours, and the row of the isolated node is zero.
    neighbours = torch.tensor([[0, 1, 0, 0], [0.5, 0, 0.5, 0], [0, 1, 0, 0], [0, 0, 0, 0]])
    assert torch.equal(GraphOperators(PATH).neighbours.matrix.to_dense(), neighbours)
    # GCN's matrix counts the node itself: degrees 2, 3, 2, 1, and the isolated node keeps its own row.
    edge = 6**-0.5
    closed = torch.tensor([[1 / 2, edge, 0, 0], [edge, 1 / 3, edge, 0], [0, edge, 1 / 2, 0], [0, 0, 0, 1]])
    assert torch.allclose(GraphOperators(PATH).closed_symmetric.matrix.to_dense(), closed)


@pytest.mark.parametrize("name", ["neighbours", "symmetric", "closed_symmetric"])
def test_gradients_go_through_the_transpose(name: str) -> None:
    for seed in range(5):
        product = getattr(GraphOperators(random_graph(seed)), name)
        assert torch.equal(product.transposed.to_dense(), product.matrix.to_dense().T)


def test_each_is_computed_once_and_on_first_use() -> None:
    operators = GraphOperators(csbm(50, seed=0).graph)
    assert operators.symmetric is operators.symmetric
    assert operators.edge_index is operators.edge_index
    assert "mean" not in vars(operators)
    assert operators.mean is operators.mean
    assert "mean" in vars(operators)


def test_edges_on_a_cpu_are_no_copy_and_clusters_of_a_small_graph_are_of_metis() -> None:
    graph = csbm(60, seed=0).graph
    operators = GraphOperators(graph, torch.device("cpu"))
    assert operators.edges.data_ptr() == graph.edges.ctypes.data
    assert np.array_equal(operators.decompositions.clusters(4), cluster(graph, 4))


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000))
def test_messages_of_directed_edges_are_summed_at_their_targets(seed: int) -> None:
    graph = random_graph(seed)
    messages = torch.randn(2 * graph.num_edges, 3, generator=torch.Generator().manual_seed(seed))
    expected = torch.zeros(15, 3).index_add_(0, torch.from_numpy(graph.edge_index[1]), messages)
    assert torch.allclose(GraphOperators(graph).arriving(messages), expected, atol=1e-6)


@pytest.mark.parametrize("name", ["symmetric", "neighbours", "closed_symmetric"])
def test_rows_of_a_part_are_scaled_by_degrees_in_the_whole_graph(name: str) -> None:
    graph = csbm(60, mean_degree=5, seed=0).graph
    whole = getattr(GraphOperators(graph), name)
    for part in Partition(graph, 3):
        here = getattr(PartOperators(part), name)
        ends = graph.edges[:, np.isin(graph.edges, part.global_ids).any(axis=0)]
        extended = np.union1d(part.global_ids, ends)
        for found, expected in ((here.matrix, whole.matrix), (here.transposed, whole.transposed)):
            rows = expected.to_dense()[part.global_ids][:, extended]
            torch.testing.assert_close(found.to_dense(), rows, rtol=0, atol=0)


def test_whole_weights_are_repeated_edges_and_unit_weights_are_none() -> None:
    rng, nodes = np.random.default_rng(0), 40
    graph = Graph.from_edges(rng.integers(0, nodes, (2, 90)), nodes + 1)  # one node has no edge
    times = rng.integers(1, 5, graph.num_edges)
    weighted = GraphOperators(relations(Graph.from_edges(graph.edges, nodes + 1, weights=times))["weights"])
    repeated = np.zeros((nodes + 1, nodes + 1))
    np.add.at(repeated, tuple(np.repeat(graph.edges, times, axis=1)), 1.0)
    repeated += repeated.T
    scale = 1 / np.sqrt(np.maximum(repeated.sum(axis=1), 1))
    expected = scale[:, None] * repeated * scale
    np.testing.assert_allclose(weighted.symmetric.matrix.to_dense().numpy(), expected, atol=1e-6)
    spread = personalised_pagerank(weighted.symmetric.matrix, torch.eye(nodes + 1), [(0.1, 8)])[0.1, 8]
    powers = [np.linalg.matrix_power(0.9 * expected, step) for step in range(9)]
    np.testing.assert_allclose(spread.numpy(), 0.1 * sum(powers[:8]) + powers[8], atol=1e-5)
    ones = WeightedGraph(num_nodes=nodes + 1, edges=graph.edges, weights=np.ones(graph.num_edges))
    plain, unit = GraphOperators(graph), GraphOperators(ones)
    assert torch.equal(plain.symmetric.matrix.values(), unit.symmetric.matrix.values())
    assert torch.equal(plain.decompositions.eigenvectors(8), unit.decompositions.eigenvectors(8))
    assert all(map(np.array_equal, plain.decompositions.bisections().trees, unit.decompositions.bisections().trees))


def test_eigenvectors_and_bisections_follow_the_weights() -> None:
    """Edges within two halves weigh more: without weights the graph is complete and has no halves."""
    nodes, side = 64, np.arange(64) % 2
    edges = np.stack(np.triu_indices(nodes, k=1))
    weights = np.where(side[edges[0]] == side[edges[1]], 3.0, 1.0)
    operators = GraphOperators(relations(Graph.from_edges(edges, nodes, weights=weights))["weights"])
    second = operators.decompositions.eigenvectors(2)[:, 1].numpy()
    assert ((second > 0) == (second[0] > 0) ^ side.astype(bool)).all()
    (first, *_) = operators.decompositions.bisections().trees
    assert (((first >> 1) == first[0] >> 1) == (side == 0)).all()
