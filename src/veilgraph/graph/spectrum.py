"""Leading eigenvectors of a graph, from both ends of the spectrum."""

from __future__ import annotations

from importlib import import_module

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import eigsh

from veilgraph.errors import MissingExtraError
from veilgraph.graph.graph import Graph

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

    The mean degree is added to all degrees. Without it, leading eigenvectors of a sparse graph sit on few nodes
    (Amini, Chen, Bickel and Levina 2013). Positive eigenvalues show classes that attract each other, negative ones
    show classes that avoid each other. The implicitly restarted Lanczos method (ARPACK) multiplies by S alone.

    Args:
        graph: the public graph.
        count: number of eigenvectors; a graph of fewer nodes has as many as nodes.
        regularised: whether to add the mean degree; False for those of D^-1/2 A D^-1/2.

    >>> star = Graph.from_edges([[0, 0, 0], [1, 2, 3]], num_nodes=4)
    >>> [round(abs(float(entry)), 3) for entry in leading_eigenvectors(star, 1)[:, 0]]
    [0.707, 0.408, 0.408, 0.408]
    """
    nodes, (starts, neighbours) = graph.num_nodes, graph.adjacency
    added = max(float(graph.degrees.mean()), 1.0) if regularised else 0.0
    scale = 1 / np.sqrt(np.maximum(graph.degrees + added, 1.0))
    weights = (np.repeat(scale, np.diff(starts)) * scale[neighbours]).astype(np.float32)
    matrix = csr_array((weights, neighbours, starts), shape=(nodes, nodes))
    start = np.random.default_rng(0).standard_normal(nodes).astype(np.float32)
    with threadpoolctl.threadpool_limits(1, user_api="blas"):  # vectors this short take longer in several threads
        if nodes <= 2 * count:  # ARPACK needs a space that is much smaller than the whole
            values, vectors = np.linalg.eigh(matrix.toarray().astype(np.float64))
        else:
            values, vectors = eigsh(matrix, k=count, which="LM", tol=_TOLERANCE, v0=start)
    order = np.argsort(-np.abs(values), kind="stable")[:count]
    return np.ascontiguousarray(vectors[:, order], dtype=np.float32)
