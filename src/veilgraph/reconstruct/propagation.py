r"""K-hop means over closed neighbourhoods: the one operation that every reconstruction shares.

A hop replaces each node's row by the mean over itself and its neighbours, :math:`\lambda \leftarrow W\lambda` with
:math:`W = D^{-1}(A + I)`. All columns, of all features and values, go through one sparse product.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array, eye_array
from torch import Tensor
from torch.nn.functional import embedding_bag

from veilgraph.distributed.autograd import applied
from veilgraph.distributed.communicator import LOCAL, Communicator
from veilgraph.errors import ReconstructionError
from veilgraph.graph import Adjacency, Graph
from veilgraph.progress import tracked

_CACHE_LINE = 16  # 32-bit numbers: what one gather from memory brings anyway
_CACHE_NUMBERS = 2**21
_GPU_BLOCK_BYTES = 2**32
_EXACT_NODES = 2048
_PROBES = 64


@dataclass(frozen=True, eq=False)
class NeighbourhoodMean:
    """W of one graph, as a sparse matrix on one device.

    >>> path = NeighbourhoodMean.of(Graph.from_edges([[0, 1], [1, 2]], num_nodes=3))
    >>> path.propagate(torch.tensor([[1.0], [0.0], [0.0]]), hops=1).flatten()
    tensor([0.5000, 0.3333, 0.0000])
    """

    matrix: Tensor
    communicator: Communicator = LOCAL

    @classmethod
    def of(cls, graph: Graph, device: torch.device | str = "cpu") -> NeighbourhoodMean:
        """Build W; isolated nodes keep their own row."""
        return cls(weighted_adjacency(closed(graph.adjacency), rows=1 / (1 + graph.degrees)).to(device))

    @property
    def num_nodes(self) -> int:
        """The number of nodes, n."""
        return int(self.matrix.shape[0])

    @property
    def device(self) -> torch.device:
        """Where the matrix is."""
        return self.matrix.device

    def propagate(self, columns: Tensor, hops: int) -> Tensor:
        """W^K applied to every column."""
        return repeated_product(self.matrix, columns, hops, communicator=self.communicator)

    def effective_sample_size(self, reporting: Tensor, hops: int, *, seed: int = 0) -> Tensor:
        r"""How many equally weighted reports each node's K-hop mean is worth: (sum w)^2 / sum w^2.

        Neighbourhoods overlap, so this is not the degree. The sum of squared weights is the diagonal of
        W^K (W^K)^T: exact on small graphs; on large ones estimated with random signs z, since
        :math:`E[(W^K z)_v^2] = \sum_u w_{vu}^2`, to within 18% (one standard deviation, 64 probes).

        Args:
            reporting: which nodes have a report; the others have no weight.
            hops: K.
            seed: of the random signs.
        """
        if not self.communicator.is_local:
            raise ReconstructionError("sample sizes need the whole graph: ask for them in one process")
        mask = reporting.to(self.matrix.dtype).unsqueeze(1)
        mass = self.propagate(mask, hops)
        if hops == 0:
            return mask.squeeze(1)
        if self.num_nodes <= _EXACT_NODES:
            squares = self.propagate(torch.diag(mask.squeeze(1)), hops).square().sum(1, keepdim=True)
        else:
            generator = torch.Generator().manual_seed(seed)
            signs = torch.randint(2, (self.num_nodes, _PROBES), generator=generator).mul_(2).sub_(1)
            signs = signs.to(self.device, self.matrix.dtype)
            squares = self.propagate(signs * mask, hops).square().mean(1, keepdim=True)
        sizes = mass.square() / squares.clamp(min=torch.finfo(squares.dtype).tiny)
        # A mean of n reports is worth at least one of them and at most all.
        return torch.where(mass > 0, sizes.clamp(1, max(1.0, float(mask.sum()))), 0.0).squeeze(1)


@dataclass(frozen=True, eq=False)
class SparseProduct:
    """A sparse matrix that gradients flow through, its transpose made once.

    >>> swap = SparseProduct.of(sparse_csr(torch.tensor([0, 1]), torch.tensor([1, 0]), torch.ones(2), (2, 2)))
    >>> swap(torch.tensor([[1.0], [2.0]])).flatten()
    tensor([2., 1.])
    """

    matrix: Tensor
    transposed: Tensor
    communicator: Communicator = LOCAL

    @classmethod
    def of(cls, matrix: Tensor, *, symmetric: bool = False) -> SparseProduct:
        """With the transpose, which is the matrix itself where it is symmetric."""
        return cls(matrix, matrix if symmetric else _transpose(matrix))

    def __call__(self, columns: Tensor, times: int = 1) -> Tensor:
        """The matrix applied `times` times to every column."""
        product: Tensor = applied(_Product, columns, self, check_hops(times))
        return product


class _Product(torch.autograd.Function):
    """torch would transpose the matrix anew in every backward pass."""

    @staticmethod
    def forward(ctx: Any, columns: Tensor, product: SparseProduct, times: int) -> Tensor:
        ctx.product, ctx.times = product, times
        return repeated_product(product.matrix, columns, times, communicator=product.communicator)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        product = ctx.product
        return (
            repeated_product(product.transposed, gradients[0], ctx.times, communicator=product.communicator),
            None,
            None,
        )


def repeated_product(
    matrix: Tensor, columns: Tensor, times: int, *, out: Tensor | None = None, communicator: Communicator = LOCAL
) -> Tensor:
    """matrix^times @ columns, in blocks of columns that stay in the cache (in memory, on a GPU) between products.

    Args:
        matrix: sparse.
        columns: of numbers.
        times: the power.
        out: where to write the result, which may be columns of a wider array.
        communicator: collective operations over the processes that share the graph.
    """
    check_hops(times)
    width = block_width(columns.device, communicator.max_extended_rows(columns.shape[0]))
    if out is None and (columns.shape[1] <= width or times == 0):
        return _power(matrix, columns, times, communicator)
    result = columns.new_empty(matrix.shape[0], columns.shape[1]) if out is None else out
    for block, target in zip(torch.split(columns, width, dim=1), torch.split(result, width, dim=1), strict=True):
        target.copy_(_power(matrix, block.contiguous(), times, communicator))
    return result


def block_width(device: torch.device, nodes: int) -> int:
    """How many columns go through a product best at once: what a cache, or a GPU's memory, holds of all nodes.

    On a processor not less than a cache line, which a gather brings anyway.
    """
    if device.type != "cpu":
        return max(1, _GPU_BLOCK_BYTES // (4 * nodes))
    return max(1, _CACHE_NUMBERS // (nodes * _CACHE_LINE)) * _CACHE_LINE


def _power(matrix: Tensor, block: Tensor, times: int, communicator: Communicator) -> Tensor:
    for _ in tracked(range(times), "propagation, hops"):
        block = sparse_product(matrix, communicator.exchange_halo(block))
    return block


def sparse_product(matrix: Tensor, block: Tensor) -> Tensor:
    """matrix @ block.

    On a processor the same sums are those of an embedding table's rows, whose kernel fetches ahead what it will need:
    twice as fast as the sparse product once the columns are larger than the cache, and no slower before.
    """
    if block.device.type != "cpu" or block.dtype != torch.float32:
        return matrix @ block
    return embedding_bag(
        matrix.col_indices(),
        block.contiguous(),
        matrix.crow_indices(),
        mode="sum",
        per_sample_weights=matrix.values(),
        include_last_offset=True,
    )


def weighted_adjacency(
    adjacency: Adjacency,
    *,
    rows: NDArray[np.floating[Any]] | None = None,
    columns: NDArray[np.floating[Any]] | None = None,
) -> Tensor:
    """A graph's matrix with entries r_u c_v; matrices of one adjacency share its index arrays.

    Args:
        adjacency: where entries are.
        rows: r, 1 where it is left out.
        columns: c, 1 where it is left out.
    """
    starts, neighbours = adjacency
    nodes = len(starts) - 1
    weights = np.repeat(_single(rows, nodes), np.diff(starts))
    if columns is not None:
        weights *= _single(columns, nodes)[neighbours]
    return compressed(torch.from_numpy(starts), torch.from_numpy(neighbours), torch.from_numpy(weights), (nodes, nodes))


def closed(adjacency: Adjacency) -> Adjacency:
    """Every node beside its neighbours: A + I."""
    starts, neighbours = adjacency
    nodes = len(starts) - 1
    others = csr_array((np.ones(len(neighbours), dtype=np.int8), neighbours, starts), shape=(nodes, nodes))
    both = others + eye_array(nodes, dtype=np.int8, format="csr")
    return Adjacency(both.indptr, both.indices)


def _single(scale: NDArray[np.floating[Any]] | None, nodes: int) -> NDArray[np.float32]:
    return np.ones(nodes, dtype=np.float32) if scale is None else scale.astype(np.float32)


def rows_of(matrix: Tensor, rows: Tensor) -> Tensor:
    """Some rows of a sparse matrix, in its order."""
    counts = matrix.crow_indices().diff()
    chosen = torch.zeros(matrix.shape[0], dtype=torch.bool, device=matrix.device)
    chosen[rows] = True
    entries = torch.repeat_interleave(chosen, counts)
    starts = torch.nn.functional.pad(counts[chosen].cumsum(0), (1, 0)).to(matrix.crow_indices().dtype)
    columns, weights = matrix.col_indices()[entries], matrix.values()[entries]
    return compressed(starts, columns, weights, (len(rows), matrix.shape[1]))


def columns_of(matrix: Tensor, columns: Tensor) -> Tensor:
    """Some columns of a sparse matrix, in increasing order."""
    place = torch.full((matrix.shape[1],), -1, device=matrix.device, dtype=matrix.col_indices().dtype)
    place[columns] = torch.arange(len(columns), device=matrix.device, dtype=place.dtype)
    places = place[matrix.col_indices()]
    kept = places >= 0
    before = torch.zeros(len(kept) + 1, device=matrix.device, dtype=place.dtype)  # as narrow as it can be
    torch.cumsum(kept, dim=0, dtype=place.dtype, out=before[1:])
    starts = before[matrix.crow_indices()]
    del before
    return compressed(starts, places[kept], matrix.values()[kept], (matrix.shape[0], len(columns)))


def sparse_csr(rows: Tensor, columns: Tensor, weights: Tensor, shape: tuple[int, int]) -> Tensor:
    """A sparse matrix in compressed rows, from its entries in any order; 32-bit indices where they suffice."""
    order = torch.argsort(rows * shape[1] + columns)
    starts = torch.nn.functional.pad(torch.bincount(rows, minlength=shape[0]).cumsum(0), (1, 0))
    index = torch.int32 if max(len(rows), *shape) < 2**31 else torch.int64
    return compressed(starts.to(index), columns[order].to(index), weights[order], shape)


def _transpose(matrix: Tensor) -> Tensor:
    rows = torch.arange(matrix.shape[0], device=matrix.device)
    rows = torch.repeat_interleave(rows, matrix.crow_indices().long().diff())
    return sparse_csr(matrix.col_indices().long(), rows, matrix.values(), (matrix.shape[1], matrix.shape[0]))


def compressed(starts: Tensor, columns: Tensor, weights: Tensor, shape: tuple[int, int]) -> Tensor:
    """A sparse matrix whose entries are in order, row by row."""
    with warnings.catch_warnings():
        # torch announces once per process that this format is "in beta state" and, in some versions, that its checks
        # are off even where they are switched off by hand.
        warnings.filterwarnings("ignore", message="Sparse (CSR tensor support|invariant checks)")
        return torch.sparse_csr_tensor(starts, columns, weights, size=shape, check_invariants=False)


def check_hops(hops: int) -> int:
    """Return `hops` if a neighbourhood can be that wide."""
    if hops < 0:
        raise ReconstructionError(f"hops is {hops}: it must be 0 (own report only) or more")
    return hops


def reach(graph: Graph) -> int:
    """Hops after which a neighbourhood would cover the graph if it kept branching: ln n / ln(1 + mean degree).

    Public structure only. Beyond it means are the same everywhere; within it they are local. Used as default
    for the number of hops.

    >>> reach(Graph.from_edges([[0, 1, 2], [1, 2, 3]], num_nodes=4))  # ln 4 / ln 2.5
    2
    """
    mean_degree = 2 * graph.num_edges / graph.num_nodes
    return max(1, math.ceil(math.log(graph.num_nodes) / math.log1p(mean_degree)))
