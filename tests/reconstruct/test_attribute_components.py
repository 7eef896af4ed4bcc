"""Components of public attributes: those of the smoothed columns, and shrunk to a stated size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from veilgraph.graph import Graph, PublicAttributes
from veilgraph.reconstruct.attribute_components import Components, smoothed_components
from veilgraph.reconstruct.operators import GraphOperators

RNG = np.random.default_rng(0)
GRAPH = Graph.from_edges(RNG.integers(0, 200, size=(2, 600)), num_nodes=200)


def smoothed(columns: Any, hops: int) -> NDArray[Any]:
    """Return S^h X with centred columns, by the formula."""
    adjacency = np.eye(200)
    adjacency[tuple(GRAPH.edge_index)] = 1
    scale = adjacency.sum(1) ** -0.5
    operator = scale[:, None] * adjacency * scale
    for _ in range(hops):
        columns = operator @ columns
    centred: NDArray[Any] = columns - columns.mean(axis=0)
    return centred


@pytest.mark.parametrize("hops", [0, 2])
@pytest.mark.parametrize("columns", [5, 300])
def test_they_are_those_of_the_smoothed_columns(hops: int, columns: int) -> None:
    rows = RNG.normal(size=(200, 3)) @ RNG.normal(size=(3, columns)) * 5 + RNG.normal(size=(200, columns))
    public = PublicAttributes.from_matrix(rows)
    expected = smoothed(public.encoded()[0], hops)
    left, values, _ = np.linalg.svd(expected, full_matrices=False)
    found = smoothed_components(public, GraphOperators(GRAPH), hops)
    np.testing.assert_allclose(found.singular_values[:3], values[:3], rtol=1e-3)
    alike = np.abs(found.scores[:, :3].numpy().T @ left[:, :3]) / np.sqrt(200)
    np.testing.assert_allclose(alike, np.eye(3), atol=0.02)
    np.testing.assert_allclose(found.scores.square().mean(0), 1, rtol=1e-4)


def test_dense_and_sparse_columns_stand_side_by_side() -> None:
    numbers, words = RNG.normal(size=(200, 4)), (RNG.random((200, 30)) < 0.2).astype(np.float32)
    mixed = PublicAttributes.from_matrix(numbers, name="a") + PublicAttributes.from_matrix(csr_array(words), name="b")
    encoded = [block if isinstance(block, np.ndarray) else block.toarray() for block in mixed.encoded()]
    values = np.linalg.svd(smoothed(np.concatenate(encoded, axis=1), 2), compute_uv=False)
    found = smoothed_components(mixed, GraphOperators(GRAPH), 2)
    np.testing.assert_allclose(found.singular_values, values[: len(found.singular_values)], rtol=1e-3)


def test_the_order_of_nodes_changes_nothing_but_the_order() -> None:
    rows, order = RNG.normal(size=(200, 200)).astype(np.float32), RNG.permutation(200)
    place = np.argsort(order)
    permuted = Graph.from_edges(place[GRAPH.edges], num_nodes=200)
    one = smoothed_components(PublicAttributes.from_matrix(rows), GraphOperators(GRAPH), 2).shrunk(8)
    other = smoothed_components(PublicAttributes.from_matrix(rows[order]), GraphOperators(permuted), 2).shrunk(8)
    np.testing.assert_allclose(other @ other.T, (one @ one.T)[order][:, order], atol=2e-3)


@pytest.mark.parametrize("size", [2.0, 8.0])
def test_shrunk_columns_count_as_so_many_and_have_rows_of_mean_square_1(size: float) -> None:
    values = 0.9 ** torch.arange(40)
    columns = Components(torch.linalg.qr(torch.randn(200, 40)).Q * 200**0.5, values).shrunk(size)
    variances = columns.square().mean(0)
    assert variances.sum() == pytest.approx(1, rel=1e-4)
    assert 1 / variances.square().sum() == pytest.approx(size, rel=1e-2)


def test_fewer_components_than_the_size_are_taken_as_they_are() -> None:
    columns = Components(torch.ones(10, 3), torch.tensor([5.0, 1.0, 0.1])).shrunk(8)
    np.testing.assert_allclose(columns, np.full((10, 3), 3**-0.5), rtol=1e-5)


def test_where_smoothing_leaves_no_difference_the_component_is_zero() -> None:
    complete = GraphOperators(Graph.from_edges(np.array(np.triu_indices(200, 1)), num_nodes=200))
    numbers = PublicAttributes.from_matrix(np.arange(200.0)[:, None])
    assert smoothed_components(numbers, complete, 0).scores.square().mean() == pytest.approx(1, rel=1e-4)
    assert not smoothed_components(numbers, complete, 1).scores.any()
