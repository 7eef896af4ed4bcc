"""Principal components of public attributes that were smoothed over the graph."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.distributed.communicator import Communicator
from veilgraph.graph import PublicAttributes
from veilgraph.reconstruct.operators import GraphOperators
from veilgraph.reconstruct.sparse import SparseProduct, csr_from_rows, repeated_product, sparse_product

MAX_COMPONENTS = 128
"""Components that are found; shrunk columns of more would have next to no variance."""

_MAX_KEPT_BYTES = 2**26
"""Components of a larger graph are not kept for the next fit."""

_OVERSAMPLED, _ITERATIONS = 16, 2
"""Directions beyond those that are needed, and iterations of the subspace (Halko, Martinsson and Tropp 2011)."""

_SMALLEST = 1e-4
"""Singular value, relative to the first one or to that of a standardised column, below which it is rounding."""

_ROUNDING, _BLOCK = 1e-12, 2**14
"""Eigenvalue of a Gram matrix, relative to the largest, below which it is rounding; rows that are added up at once."""

_MAX_POWER = 20.0
_NEGLIGIBLE = 1e-4
"""Variance of a column, relative to the first one, below which it is left out."""


class Components(NamedTuple):
    r"""Principal components of :math:`S^h X` with centred columns.

    Attributes:
        scores: U, one column for each component, with a mean square of 1, [nodes, components].
        singular_values: s, falling, [components].
    """

    scores: Tensor
    singular_values: Tensor

    def shrunk(self, size: float) -> Tensor:
        r"""Return columns that count as `size` components: :math:`U s^a` with rows of a mean square of 1.

        The effective number of components is :math:`(\sum_j s_j^{2a})^2 / \sum_j s_j^{4a}`. a is chosen so that it is
        `size`, and 0 if there are no more. So what is learned from reports depends on the size alone, not on how fast
        the spectrum of a data set falls.

        >>> falling = Components(torch.ones(4, 2), torch.tensor([1.0, 0.5]))
        >>> falling.shrunk(2)[0], falling.shrunk(1.0)[0]
        (tensor([0.7071, 0.7071]), tensor([1.]))
        """
        values = self.singular_values.double() / float(self.singular_values[0])
        low, high = 0.0, _MAX_POWER
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if _effective_number(values ** (2 * middle)) > size else (low, middle)
        variances = values ** (2 * high)
        kept = int((variances > _NEGLIGIBLE).sum())
        weights = (variances[:kept] / variances[:kept].sum()).sqrt()
        return (self.scores[:, :kept] * weights.to(self.scores)).contiguous()


def _effective_number(variances: Tensor) -> float:
    """Return the participation ratio of variances: their number if all are equal, 1 if one is much greater."""
    return float(variances.sum().square() / variances.square().sum())


def smoothed_components(public: PublicAttributes, operators: GraphOperators, hops: int) -> Components:
    r"""Return the leading components of the attributes X, smoothed over the graph, and keep them for the next fit.

    .. math:: B = \left( I - \tfrac1n 1 1^T \right) S^h X, \qquad S = (D + 1)^{-1/2} (A + I) (D + 1)^{-1/2}

    B is not formed: randomized subspace iteration takes products with X, S and their transposes. With at most as many
    columns as components it is exact. Where smoothing left no difference, the one component is 0.

    Args:
        public: The attributes.
        operators: The graph.
        hops: h.
    """
    kept = 4 * operators.num_nodes * MAX_COMPONENTS <= _MAX_KEPT_BYTES
    return (_kept_components if kept else _components)(public, operators, hops)


def _components(public: PublicAttributes, operators: GraphOperators, hops: int) -> Components:
    columns, communicator = AttributeColumns.of(public), operators.communicator
    nodes = communicator.global_nodes(operators.graph.num_nodes)

    def smoothed(rows: Tensor) -> Tensor:
        matrix = operators.closed_symmetric.matrix
        return repeated_product(matrix, rows.to(operators.device), hops, communicator=communicator)

    def centred(rows: Tensor) -> Tensor:
        return rows.sub_(communicator.all_reduce_sum(rows.sum(0, dtype=torch.float64)).to(rows) / nodes)

    def times(right: NDArray[np.float32]) -> Tensor:
        return centred(smoothed(torch.from_numpy(columns.times(right))))

    def transposed(left: Tensor) -> NDArray[np.float32]:
        here = columns.transposed(smoothed(centred(left.clone())).cpu().numpy())
        return np.asarray(communicator.all_reduce_sum(torch.from_numpy(here).double()).float().numpy())

    width = columns.width
    if width <= MAX_COMPONENTS + _OVERSAMPLED:
        basis = orthonormal(times(np.eye(width, dtype=np.float32)), communicator)
    else:
        start = np.random.default_rng(0).standard_normal((width, MAX_COMPONENTS + _OVERSAMPLED), dtype=np.float32)
        basis = orthonormal(times(start), communicator)
        for _ in range(_ITERATIONS):
            basis = orthonormal(times(np.linalg.qr(transposed(basis)).Q), communicator)
    if not basis.shape[1]:
        return Components(basis.new_zeros(len(basis), 1), basis.new_ones(1))
    left, values, _ = torch.linalg.svd(torch.from_numpy(transposed(basis).T).to(basis), full_matrices=False)
    if float(values[0]) < _SMALLEST * nodes**0.5:
        return Components(basis.new_zeros(len(basis), 1), values.new_ones(1))
    kept = min(MAX_COMPONENTS, int((values > _SMALLEST * values[0]).sum()))
    scores = (basis @ left[:, :kept]).mul_(nodes**0.5)
    return Components(scores, values[:kept])


def orthonormal(rows: Tensor, communicator: Communicator) -> Tensor:
    r"""Return an orthonormal basis of the columns of a matrix whose rows several processes share, [rows, rank].

    .. math:: Q = Y V \Lambda^{-1/2}, \qquad Y^T Y = V \Lambda V^T

    Only the small matrix :math:`Y^T Y` is added up over processes, in 64 bits. Directions that are rounding are left
    out.

    Args:
        rows: Y, the rows of this process, [rows, columns].
        communicator: Collective operations over the processes.
    """
    gram = rows.new_zeros(rows.shape[1], rows.shape[1], dtype=torch.float64)
    for block in torch.split(rows, _BLOCK):
        gram += block.T.double() @ block.double()
    values, vectors = torch.linalg.eigh(communicator.all_reduce_sum(gram))
    known = values > _ROUNDING * values[-1].clamp(min=torch.finfo(torch.float64).tiny)
    basis: Tensor = rows @ (vectors[:, known] / values[known].sqrt()).to(rows)
    return basis


_kept_components = lru_cache(maxsize=6)(_components)


class AttributeColumns(NamedTuple):
    """All columns of the attributes: those of dense blocks, then those of sparse ones.

    Attributes:
        dense: Dense columns, [nodes, columns].
        sparse: Sparse columns and their transpose; None if there are none.
    """

    dense: NDArray[np.float32]
    sparse: SparseProduct | None

    @classmethod
    def of(cls, public: PublicAttributes) -> AttributeColumns:
        """Return the encoded columns, which are kept as long as the attributes are."""
        if public not in _COLUMNS:
            _COLUMNS[public] = cls._encoded(public)
        return _COLUMNS[public]

    @classmethod
    def _encoded(cls, public: PublicAttributes) -> AttributeColumns:
        from scipy.sparse import hstack

        blocks, none = public.encoded(), np.zeros((public.num_nodes, 0), dtype=np.float32)
        dense = np.concatenate([none, *(block for block in blocks if isinstance(block, np.ndarray))], axis=1)
        sparse: list[Any] = [block for block in blocks if not isinstance(block, np.ndarray)]
        if not sparse:
            return cls(dense, None)
        joined: Any = hstack(sparse, format="csr")
        return cls(dense, SparseProduct(_as_torch(joined), _as_torch(joined.T.tocsr())))

    @property
    def width(self) -> int:
        """Number of columns."""
        return int(self.dense.shape[1]) + (0 if self.sparse is None else int(self.sparse.matrix.shape[1]))

    def times(self, right: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return X @ right."""
        split = self.dense.shape[1]
        product = self.dense @ right[:split]
        if self.sparse is not None:
            product += sparse_product(self.sparse.matrix, _contiguous(right[split:])).numpy()
        return product

    def transposed(self, left: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return X^T @ left."""
        product = self.dense.T @ left
        if self.sparse is None:
            return product
        return np.concatenate([product, sparse_product(self.sparse.transposed, _contiguous(left)).numpy()])


_COLUMNS: WeakKeyDictionary[PublicAttributes, AttributeColumns] = WeakKeyDictionary()


def _as_torch(matrix: Any) -> Tensor:
    """Return a sparse matrix of scipy as one of torch, whose products are three times as fast."""
    starts, columns = (torch.from_numpy(each.astype(np.int64)) for each in (matrix.indptr, matrix.indices))
    return csr_from_rows(starts, columns, torch.from_numpy(matrix.data), matrix.shape)


def _contiguous(rows: NDArray[np.float32]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(rows))
