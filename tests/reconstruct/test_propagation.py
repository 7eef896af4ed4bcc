"""K-hop means: one sparse product equals the paper's loops, and knows how many reports a mean is worth."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import veilgraph.reconstruct.propagation as propagation
from benchmarks.reference import literal
from veilgraph.datasets import csbm
from veilgraph.errors import ReconstructionError
from veilgraph.graph import Graph
from veilgraph.reconstruct import NeighbourhoodMean
from veilgraph.reconstruct.propagation import SparseProduct, columns_of, reach, rows_of, sparse_csr

EPSILON = torch.finfo(torch.float32).eps
STAR = Graph.from_edges([[0, 0, 0], [1, 2, 3]], num_nodes=5)  # node 4 is isolated


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.integers(0, 5))
def test_propagation_equals_the_literal_loop(seed: int, hops: int) -> None:
    rng = np.random.default_rng(seed)
    edges = np.concatenate([rng.integers(0, 12, (2, 20)), [[0], [1]]], axis=1)
    graph = Graph.from_edges(edges, num_nodes=12)
    columns = torch.from_numpy(rng.random((12, 3)))
    expected = literal.propagate(columns, literal.node_hop(graph), hops)
    found = NeighbourhoodMean.of(graph).propagate(columns.float(), hops)
    assert np.allclose(found, expected, atol=1e-6)


def test_blocks_of_columns_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    mean = NeighbourhoodMean.of(csbm(200, seed=1).graph)
    columns = torch.rand(200, 7, generator=torch.Generator().manual_seed(0))
    whole = mean.propagate(columns, 3)
    for width in (1, 2, 6, 7, 100):
        monkeypatch.setattr(propagation, "_CACHE_LINE", width)
        # Shares up to 1 after three roundings.
        assert torch.allclose(mean.propagate(columns, 3), whole, rtol=0, atol=4 * EPSILON)


def test_isolated_nodes_keep_their_own_row() -> None:
    columns = torch.arange(5.0).unsqueeze(1)
    assert NeighbourhoodMean.of(STAR).propagate(columns, 9)[4] == 4.0


def test_one_hop_is_worth_the_closed_neighbourhood() -> None:
    sizes = NeighbourhoodMean.of(STAR).effective_sample_size(torch.ones(5, dtype=torch.bool), 1)
    assert torch.allclose(sizes, torch.tensor([4.0, 2, 2, 2, 1]))


def test_overlapping_hops_are_worth_one_over_the_sum_of_squared_weights() -> None:
    graph = csbm(60, mean_degree=3, seed=2).graph
    mean = NeighbourhoodMean.of(graph)
    power = torch.linalg.matrix_power(mean.matrix.to_dense(), 5)
    expected = 1 / power.square().sum(1)
    assert torch.allclose(mean.effective_sample_size(torch.ones(60, dtype=torch.bool), 5), expected, rtol=1e-4)


def test_only_reporting_nodes_count() -> None:
    reporting = torch.tensor([False, True, True, False, False])
    sizes = NeighbourhoodMean.of(STAR).effective_sample_size(reporting, 1)
    assert sizes.tolist() == [2, 1, 1, 0, 0]  # the hub hears two leaves, node 3 nobody, node 4 nobody


def test_random_signs_estimate_the_sample_size_on_large_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = csbm(1000, mean_degree=6, seed=3).graph
    mean = NeighbourhoodMean.of(graph)
    reporting = torch.ones(1000, dtype=torch.bool)
    exact = mean.effective_sample_size(reporting, 4)
    monkeypatch.setattr(propagation, "_EXACT_NODES", 0)
    ratio = mean.effective_sample_size(reporting, 4) / exact
    # The mean of 64 squared sums has relative variance at most 2/64, its inverse the same to first order; over 1000
    # nodes, not all independent, the mean is within a tenth of 1 + 2/64 and hardly any node is off by 5 deviations.
    assert abs(float(ratio.mean()) - 1) < 0.1
    assert float((ratio.log().abs() > 5 * math.sqrt(2 / 64)).float().mean()) < 0.01


def test_negative_hops_are_refused() -> None:
    with pytest.raises(ReconstructionError, match="hops is -1"):
        NeighbourhoodMean.of(STAR).propagate(torch.ones(5, 1), -1)


def test_a_dense_graph_is_reached_sooner() -> None:
    sparse, dense = (reach(csbm(500, mean_degree=degree, seed=0).graph) for degree in (3, 30))
    assert dense < sparse


def random_matrix(seed: int, shape: tuple[int, int], dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """A dense matrix of which most entries are zero, whole rows and columns among them."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.rand(shape, generator=generator, dtype=dtype) - 0.5
    return torch.where(torch.rand(shape, generator=generator) < 0.3, values, 0.0)


def product_of(dense: torch.Tensor, *, shuffled: int = 0) -> SparseProduct:
    rows, columns = dense.nonzero().T
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(shuffled))
    rows, columns = rows[order], columns[order]
    return SparseProduct.of(sparse_csr(rows, columns, dense[rows, columns], (dense.shape[0], dense.shape[1])))


SHAPES = st.tuples(st.integers(1, 9), st.integers(1, 9))


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), SHAPES)
def test_a_sparse_matrix_and_its_transpose_hold_the_entries_they_were_given(seed: int, shape: tuple[int, int]) -> None:
    dense = random_matrix(seed, shape)
    product = product_of(dense, shuffled=seed)
    assert torch.equal(product.matrix.to_dense(), dense)
    assert torch.equal(product.transposed.to_dense(), dense.T)
    for matrix in (product.matrix, product.transposed):
        assert matrix.crow_indices().dtype == matrix.col_indices().dtype == torch.int32


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), SHAPES)
def test_some_rows_and_the_same_columns_of_the_transpose_are_each_others_transpose(
    seed: int, shape: tuple[int, int]
) -> None:
    dense = random_matrix(seed, shape)
    product = product_of(dense)
    chosen = (torch.rand(shape[0], generator=torch.Generator().manual_seed(seed)) < 0.5).nonzero().flatten()
    rows, columns = rows_of(product.matrix, chosen), columns_of(product.transposed, chosen)
    assert torch.equal(rows.to_dense(), dense[chosen])
    assert torch.equal(columns.to_dense(), dense[chosen].T)
    for matrix in (rows, columns):
        assert matrix.crow_indices().dtype == matrix.col_indices().dtype == torch.int32


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10_000), SHAPES, st.integers(1, 12))
def test_products_and_their_gradients_equal_those_of_the_dense_matrix(
    seed: int, shape: tuple[int, int], width: int
) -> None:
    dense = random_matrix(seed, shape)
    product = product_of(dense)
    generator = torch.Generator().manual_seed(seed)
    columns = torch.rand(shape[1], width, generator=generator, dtype=torch.float64, requires_grad=True)
    found, expected = product(columns), dense @ columns
    assert torch.allclose(found, expected, rtol=0, atol=1e-12)
    direction = torch.rand(expected.shape, generator=generator, dtype=torch.float64)
    by_product, by_dense = (torch.autograd.grad((each * direction).sum(), columns)[0] for each in (found, expected))
    assert torch.allclose(by_product, by_dense, rtol=0, atol=1e-12)


@pytest.mark.parametrize("times", [0, 1, 3])
def test_repeated_products_have_the_gradient_that_differences_give(times: int) -> None:
    product = product_of(random_matrix(1, (6, 6)))
    columns = torch.rand(6, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda each: product(each, times), (columns,))


@pytest.mark.parametrize("times", [0, 1, 3])
@pytest.mark.parametrize("width", [1, 2, 5, 16, 1000])
def test_columns_side_by_side_equal_each_one_alone(monkeypatch: pytest.MonkeyPatch, times: int, width: int) -> None:
    dense = random_matrix(2, (7, 7))
    product = product_of(dense)
    columns = torch.rand(7, 15, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    monkeypatch.setattr(propagation, "block_width", lambda device, nodes: width)
    found = product(columns, times)
    assert torch.allclose(found, torch.linalg.matrix_power(dense, times) @ columns, rtol=0, atol=1e-12)
    for column, alone in zip(found.T, columns.T, strict=True):
        assert torch.allclose(product(alone.unsqueeze(1), times).squeeze(1), column, rtol=0, atol=1e-12)


def test_what_is_not_a_number_in_one_column_stays_there() -> None:
    product = product_of(random_matrix(3, (7, 7)))
    columns = torch.rand(7, 3, dtype=torch.float64)
    spoilt = columns.clone()
    spoilt[:, 1] = math.nan
    assert torch.equal(product(spoilt)[:, [0, 2]], product(columns)[:, [0, 2]])


def test_a_product_cannot_be_undone() -> None:
    with pytest.raises(ReconstructionError, match="hops is -1"):
        product_of(random_matrix(4, (3, 3)))(torch.ones(3, 1, dtype=torch.float64), -1)
