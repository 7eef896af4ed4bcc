"""Sparse matrices hold the entries they were given, and their products and gradients are those of dense matrices."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from veilgraph.errors import ReconstructionError
from veilgraph.reconstruct.sparse import (
    RowSums,
    SparseProduct,
    csr_from_entries,
    csr_from_rows,
    repeated_product,
    select_columns,
    select_rows,
    sparse_product,
)
from veilgraph.reconstruct.threads import thread_workers


def random_matrix(seed: int, shape: tuple[int, int], dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Draw a dense matrix with mostly zeros; some rows and columns are all zero."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.rand(shape, generator=generator, dtype=dtype) - 0.5
    return torch.where(torch.rand(shape, generator=generator) < 0.3, values, 0.0)


def product_of(dense: torch.Tensor, *, shuffled: int = 0) -> SparseProduct:
    rows, columns = dense.nonzero().T
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(shuffled))
    rows, columns = rows[order], columns[order]
    return SparseProduct.of(csr_from_entries(rows, columns, dense[rows, columns], (dense.shape[0], dense.shape[1])))


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
    rows, columns = select_rows(product.matrix, chosen), select_columns(product.transposed, chosen)
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
def test_columns_side_by_side_equal_each_one_alone(times: int, width: int) -> None:
    dense = random_matrix(2, (7, 7))
    product = product_of(dense)
    columns = torch.rand(7, 15, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = repeated_product(product.matrix, columns, times, max_columns=width)
    assert torch.allclose(found, torch.linalg.matrix_power(dense, times) @ columns, rtol=0, atol=1e-12)
    for column, alone in zip(found.T, columns.T, strict=True):
        assert torch.allclose(product(alone.unsqueeze(1), times).squeeze(1), column, rtol=0, atol=1e-12)


def test_nan_in_one_column_does_not_spread_to_others() -> None:
    product = product_of(random_matrix(3, (7, 7)))
    columns = torch.rand(7, 3, dtype=torch.float64)
    spoilt = columns.clone()
    spoilt[:, 1] = math.nan
    assert torch.equal(product(spoilt)[:, [0, 2]], product(columns)[:, [0, 2]])


def test_negative_powers_are_refused() -> None:
    with pytest.raises(ReconstructionError, match="hops is -1"):
        product_of(random_matrix(4, (3, 3)))(torch.ones(3, 1, dtype=torch.float64), -1)


def test_threads_that_share_the_rows_of_a_large_matrix_give_the_same_product() -> None:
    generator, entries = torch.Generator().manual_seed(0), 3 * 2**20
    starts = torch.randint(entries, (999,), generator=generator).sort().values
    starts = torch.cat([torch.tensor([0]), starts, torch.tensor([entries])])
    rows = torch.randint(500, (entries,), generator=generator)
    matrix = csr_from_rows(starts, rows, torch.rand(entries, generator=generator), (1000, 500))
    table = torch.rand(500, 2, generator=generator)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with thread_workers(torch.device("cpu")):
            product, sums = sparse_product(matrix, table), RowSums(starts, rows)(table)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(product, sparse_product(matrix, table))
    assert torch.equal(sums, RowSums(starts, rows)(table))
