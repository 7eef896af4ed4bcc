"""Sparse matrices in compressed rows (CSR): construction, selection, and products with dense columns."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import embedding_bag, pad

from veilgraph.distributed.communicator import LOCAL, Communicator
from veilgraph.errors import ReconstructionError
from veilgraph.progress import tracked
from veilgraph.reconstruct.threads import map_in_threads, num_workers

_CACHE_LINE = 16  # 32-bit numbers: one gather from memory always brings a whole line
_CACHE_NUMBERS = 2**21
_GPU_BLOCK_BYTES = 2**32
_BLOCK_ENTRIES = 2**20
"""Entries of a matrix that a thread multiplies at a time: some ten milliseconds."""

_GPU_BLOCK_ENTRIES = 2**28
"""Rows that a GPU adds up at a time: it keeps the sum to which each belongs."""


class FusedFunction(Function):
    """An operation whose gradient is written out: torch's `Function`, whose `apply` has no types of its own."""

    if TYPE_CHECKING:

        @classmethod
        def apply(cls, *arguments: Any, **options: Any) -> Any:
            """Call `forward`."""


@dataclass(frozen=True, eq=False)
class SparseProduct:
    """A sparse matrix P with its transpose, computed once, so that products have a fast gradient.

    Attributes:
        matrix: P, `[rows, columns]`.
        transposed: the transpose of P.
        communicator: collective operations over the processes that share the graph.

    >>> swap = SparseProduct.of(csr_from_entries(torch.tensor([0, 1]), torch.tensor([1, 0]), torch.ones(2), (2, 2)))
    >>> swap(torch.tensor([[1.0], [2.0]])).flatten()
    tensor([2., 1.])
    """

    matrix: Tensor
    transposed: Tensor
    communicator: Communicator = LOCAL

    @classmethod
    def of(cls, matrix: Tensor, *, symmetric: bool = False) -> SparseProduct:
        """Build the product with its transpose; a symmetric matrix is its own transpose."""
        return cls(matrix, matrix if symmetric else _transpose(matrix))

    def __call__(self, columns: Tensor, times: int = 1) -> Tensor:
        """Return P^times @ columns; gradients flow to `columns`."""
        product: Tensor = _RepeatedProductFunction.apply(columns, self, times)
        return product


class _RepeatedProductFunction(FusedFunction):
    """P^times @ columns, whose gradient is (P^T)^times @ gradient. torch would transpose P in every backward pass."""

    @staticmethod
    def forward(ctx: Any, columns: Tensor, product: SparseProduct, times: int) -> Tensor:
        ctx.product, ctx.times = product, times
        return repeated_product(product.matrix, columns, times, communicator=product.communicator)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        product, times = ctx.product, ctx.times
        gradient = repeated_product(product.transposed, gradients[0], times, communicator=product.communicator)
        return gradient, None, None


def repeated_product(
    matrix: Tensor,
    columns: Tensor,
    times: int,
    *,
    out: Tensor | None = None,
    communicator: Communicator = LOCAL,
    max_columns: int | None = None,
) -> Tensor:
    """Return matrix^times @ columns, computed in blocks of columns that stay in the cache between products.

    On a CPU a product is the weighted sum of rows of an embedding table. That kernel prefetches the rows that it needs:
    it is twice as fast as torch's sparse product for columns larger than the cache, and not slower for smaller ones.

    Args:
        matrix: sparse matrix.
        columns: `[nodes, columns]`.
        times: the power, 0 or more.
        out: tensor for the result, which may be a view of some columns of a wider tensor.
        communicator: collective operations over the processes that share the graph.
        max_columns: number of columns of a block; default: `block_width`.
    """
    check_hops(times)
    width = max_columns or block_width(columns.device, communicator.max_extended_rows(columns.shape[0]))
    if out is not None or (columns.shape[1] > width and times > 0):
        result = columns.new_empty(matrix.shape[0], columns.shape[1]) if out is None else out
        for block, target in zip(torch.split(columns, width, dim=1), torch.split(result, width, dim=1), strict=True):
            block = block.contiguous()
            target.copy_(repeated_product(matrix, block, times, communicator=communicator, max_columns=width))
        return result
    for _ in tracked(range(times), "propagation, hops"):
        columns = communicator.exchange_halo(columns)
        if columns.device.type != "cpu" or columns.dtype != torch.float32:
            columns = matrix @ columns
        else:
            columns = _row_sums(matrix.crow_indices(), matrix.col_indices(), matrix.values(), columns.contiguous())
    return columns


@dataclass(frozen=True, eq=False)
class RowSums:
    """Sums of some rows of a table, as a product with a sparse matrix of ones that stores no ones.

    Attributes:
        starts: `[sums + 1]`, where the rows of each sum start.
        rows: numbers of the rows.
        weights: weight of each of these rows in its sum; None where all count once.

    >>> RowSums(torch.tensor([0, 2, 2, 3]), torch.tensor([0, 2, 1]))(torch.tensor([[1.0], [2.0], [4.0]])).flatten()
    tensor([5., 0., 2.])
    """

    starts: Tensor
    rows: Tensor
    weights: Tensor | None = None

    def __call__(self, table: Tensor) -> Tensor:
        """Return the sums, `[sums, columns]`, of a table `[rows, columns]`."""
        return _row_sums(self.starts, self.rows, self.weights, table)

    def select(self, sums: Tensor) -> RowSums:
        """Return some of the sums, in increasing order."""
        counts = self.starts.diff()
        chosen = torch.zeros(len(counts), dtype=torch.bool, device=counts.device)
        chosen[sums] = True
        starts = pad(counts[chosen].cumsum(0), (1, 0)).to(self.starts.dtype)
        return RowSums(starts, self.rows[torch.repeat_interleave(chosen, counts)])


def _row_sums(starts: Tensor, rows: Tensor, weights: Tensor | None, table: Tensor) -> Tensor:
    """Return weighted sums of rows of a table; within `thread_workers`, threads take blocks of sums.

    Blocks are short, so that a thread on a busy core takes fewer of them. A GPU takes long ones in turn.
    """
    sums, on_gpu = len(starts) - 1, table.device.type != "cpu"
    blocks = min(sums, len(rows) // (_GPU_BLOCK_ENTRIES if on_gpu else _BLOCK_ENTRIES))
    if blocks <= 1 or (num_workers() == 1 and not on_gpu):
        return _bag(starts, rows, weights, table)
    result = table.new_empty(sums, table.shape[1])
    bounds = [sums * block // blocks for block in range(blocks + 1)]

    def fill(block: int) -> None:
        low, high = bounds[block], bounds[block + 1]
        inside = slice(int(starts[low]), int(starts[high]))
        some = None if weights is None else weights[inside]
        result[low:high] = _bag(starts[low : high + 1] - starts[low], rows[inside], some, table)

    map_in_threads(fill, range(blocks), "blocks of a sparse product")
    return result


def _bag(starts: Tensor, rows: Tensor, weights: Tensor | None, table: Tensor) -> Tensor:
    return embedding_bag(rows, table, starts, mode="sum", per_sample_weights=weights, include_last_offset=True)


def block_width(device: torch.device, nodes: int) -> int:
    """Return the number of columns for which a product is fastest: as many as the cache holds for all nodes.

    On a CPU it is a multiple of a cache line. On a GPU it is limited by the memory for one block.
    """
    if device.type != "cpu":
        return max(1, _GPU_BLOCK_BYTES // (4 * nodes))
    return max(1, _CACHE_NUMBERS // (nodes * _CACHE_LINE)) * _CACHE_LINE


def sparse_product(matrix: Tensor, columns: Tensor, communicator: Communicator = LOCAL) -> Tensor:
    """Return matrix @ columns, computed in one block."""
    return repeated_product(matrix, columns, 1, max_columns=columns.shape[1], communicator=communicator)


def select_rows(matrix: Tensor, rows: Tensor) -> Tensor:
    """Return some rows of a sparse matrix, in increasing order."""
    counts = matrix.crow_indices().diff()
    chosen = torch.zeros(matrix.shape[0], dtype=torch.bool, device=matrix.device)
    chosen[rows] = True
    entries = torch.repeat_interleave(chosen, counts)
    starts = pad(counts[chosen].cumsum(0), (1, 0)).to(matrix.crow_indices().dtype)
    columns, weights = matrix.col_indices()[entries], matrix.values()[entries]
    return csr_from_rows(starts, columns, weights, (len(rows), matrix.shape[1]))


def select_columns(matrix: Tensor, columns: Tensor) -> Tensor:
    """Return some columns of a sparse matrix; `columns` must be increasing."""
    index = matrix.col_indices().dtype
    new_column = torch.full((matrix.shape[1],), -1, device=matrix.device, dtype=index)
    new_column[columns] = torch.arange(len(columns), device=matrix.device, dtype=index)
    new_columns = new_column[matrix.col_indices()]
    kept = new_columns >= 0
    before = torch.zeros(len(kept) + 1, device=matrix.device, dtype=index)  # a narrow type saves memory
    torch.cumsum(kept, dim=0, dtype=index, out=before[1:])
    starts = before[matrix.crow_indices()]
    del before
    return csr_from_rows(starts, new_columns[kept], matrix.values()[kept], (matrix.shape[0], len(columns)))


def csr_from_entries(rows: Tensor, columns: Tensor, weights: Tensor, shape: tuple[int, int]) -> Tensor:
    """Build a sparse matrix from its entries in any order, with 32-bit indices where they suffice."""
    order = torch.argsort(rows * shape[1] + columns)
    starts = pad(torch.bincount(rows, minlength=shape[0]).cumsum(0), (1, 0))
    index = torch.int32 if max(len(rows), *shape) < 2**31 else torch.int64
    return csr_from_rows(starts.to(index), columns[order].to(index), weights[order], shape)


def csr_from_rows(starts: Tensor, columns: Tensor, weights: Tensor, shape: tuple[int, int]) -> Tensor:
    """Build a sparse matrix from its entries in order, row by row.

    Args:
        starts: `[rows + 1]`, where each row's entries start.
        columns: `[entries]`, column of each entry.
        weights: `[entries]`, value of each entry.
        shape: number of rows and of columns.
    """
    with warnings.catch_warnings():
        # torch warns once per process that this format is "in beta state". Some versions also warn that checks are
        # off although they are switched off explicitly.
        warnings.filterwarnings("ignore", message="Sparse (CSR tensor support|invariant checks)")
        return torch.sparse_csr_tensor(starts, columns, weights, size=shape, check_invariants=False)


def _transpose(matrix: Tensor) -> Tensor:
    rows = torch.arange(matrix.shape[0], device=matrix.device)
    rows = torch.repeat_interleave(rows, matrix.crow_indices().long().diff())
    return csr_from_entries(matrix.col_indices().long(), rows, matrix.values(), (matrix.shape[1], matrix.shape[0]))


def check_hops(hops: int) -> int:
    """Return a number of hops, or raise a `ReconstructionError` if it is negative."""
    if hops < 0:
        raise ReconstructionError(f"hops is {hops}: it must be 0 (own report only) or more")
    return hops
