"""Leading eigenvectors of a graph, from both ends of the spectrum."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import eigsh

from veilgraph.errors import MissingExtraError
from veilgraph.graph.canonical_order import canonical_order
from veilgraph.graph.graph import Adjacency, Graph

try:
    threadpoolctl = import_module("threadpoolctl")  # has no annotations
except ImportError as missing:
    raise MissingExtraError(str(missing.name), "server") from None

_TOLERANCE = 1e-2
"""Relative accuracy of the eigenvalues. Views of Veil need the space that the vectors span, and not single vectors."""

MAX_RESTARTED_EDGES = 5_000_000
"""Number of edges above which the Lanczos method is not restarted: see `reconstruct.lanczos`."""


def leading_eigenvectors(graph: Graph, count: int, *, regularised: bool = True) -> NDArray[np.float32]:
    r"""Return eigenvectors of the regularised adjacency with the eigenvalues of largest magnitude, [nodes, count].

    .. math:: S = (D + \bar d)^{-1/2} A\, (D + \bar d)^{-1/2}

    The mean degree of the nodes that have neighbours is added to all degrees. Without it, leading eigenvectors of a
    sparse graph sit on few nodes (Amini, Chen, Bickel and Levina 2013). Positive eigenvalues show classes that attract
    each other, negative ones show classes that avoid each other. The implicitly restarted Lanczos method (ARPACK)
    multiplies by S alone. It is applied to each component by itself, in the canonical order: so vectors do not depend
    on the rows of a table, and components with equal eigenvalues are told apart.

    Args:
        graph: the public graph.
        count: number of eigenvectors; there are at most as many as nodes that have neighbours.
        regularised: whether to add the mean degree; False for those of D^-1/2 A D^-1/2.

    >>> star = Graph.from_edges([[0, 0, 0], [1, 2, 3]], num_nodes=4)
    >>> [round(abs(float(entry)), 3) for entry in leading_eigenvectors(star, 1)[:, 0]]
    [0.707, 0.408, 0.408, 0.408]
    """
    order = canonical_order(graph)
    added = max(float(graph.strengths.sum()) / len(order.nodes), 1.0) if regularised else 0.0
    degrees = graph.strengths[order.nodes]
    # S has the eigenvalues of (D + added)^-1 A, which its largest row sum bounds.
    bounds = np.maximum.reduceat(degrees / (degrees + added), order.starts[:-1])
    leading: list[tuple[float, int, NDArray[np.floating[Any]]]] = []
    with threadpoolctl.threadpool_limits(1, user_api="blas"):  # vectors this short take longer in several threads
        for number, bound in enumerate(bounds.tolist()):
            if len(leading) == count and bound <= leading[-1][0]:
                continue
            values, vectors = _component_eigenvectors(
                order.component(number), order.component_weights(number), count, added
            )
            found = zip(np.abs(values).tolist(), vectors.T, strict=True)
            leading += [(value, number, vector) for value, vector in found]
            leading = sorted(leading, key=lambda each: -each[0])[:count]
    columns = np.zeros((graph.num_nodes, len(leading)), dtype=np.float32)
    for column, (_, number, vector) in enumerate(leading):
        columns[order.nodes[order.starts[number] : order.starts[number + 1]], column] = vector
    return columns


def _component_eigenvectors(
    rows: Adjacency, entries: NDArray[np.float64] | None, count: int, added: float
) -> tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]]]:
    """Return leading eigenvalues and eigenvectors `[nodes, vectors]` of one component, not sorted."""
    (starts, neighbours), nodes = rows, len(rows.starts) - 1
    degrees = np.diff(starts) if entries is None else np.add.reduceat(entries, starts[:-1])
    scale = 1 / np.sqrt(degrees + added)
    weights = np.repeat(scale, np.diff(starts)) * scale[neighbours]
    weights = (weights if entries is None else weights * entries).astype(np.float32)
    matrix = csr_array((weights, neighbours, starts), shape=(nodes, nodes))
    if nodes <= 2 * count:  # ARPACK needs a space that is much smaller than the whole
        return np.linalg.eigh(matrix.toarray().astype(np.float64))
    start = np.random.default_rng(0).standard_normal(nodes).astype(np.float32)
    values, vectors = eigsh(matrix, k=count, which="LM", tol=_TOLERANCE, v0=start)
    return values, vectors
