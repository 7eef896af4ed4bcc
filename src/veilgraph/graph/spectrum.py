"""Leading eigenvectors of a graph, from both ends of the spectrum."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal
from scipy.sparse import csr_array
from scipy.sparse.linalg import eigsh

from veilgraph.errors import MissingExtraError
from veilgraph.graph.graph import Graph
from veilgraph.progress import tracked

try:
    threadpoolctl = import_module("threadpoolctl")  # has no annotations
except ImportError as missing:
    raise MissingExtraError(str(missing.name), "server") from None

_TOLERANCE = 1e-2
"""Relative accuracy of the eigenvalues. Views of Veil need the space that the vectors span, and not single vectors."""


MAX_RESTARTED_EDGES = 5_000_000
"""Number of edges above which the Lanczos method is not restarted."""

_BLOCK = 2**18
"""Nodes that a thread takes at a time."""

_BREAKDOWN = 1e-5
"""Norm of the next direction, relative to the largest eigenvalue 1, below which the space is complete."""

Result = TypeVar("Result")
Vector: TypeAlias = NDArray[np.float32]


def leading_eigenvectors(
    graph: Graph,
    count: int,
    *,
    regularised: bool = True,
    workers: int = 1,
    max_restarted_edges: int = MAX_RESTARTED_EDGES,
) -> NDArray[np.float32]:
    r"""Return eigenvectors of the regularised adjacency with the eigenvalues of largest magnitude, [nodes, count].

    .. math:: S = (D + \bar d)^{-1/2} A\, (D + \bar d)^{-1/2}

    The mean degree is added to all degrees. Without it, leading eigenvectors of a sparse graph sit on few nodes
    (Amini, Chen, Bickel and Levina 2013). Positive eigenvalues show classes that attract each other, negative ones
    show classes that avoid each other. The implicitly restarted Lanczos method (ARPACK) multiplies by S alone. On a
    large graph, `lanczos` does it once: eigenvectors outside the bulk of the spectrum, which show classes, are found
    as well, and those within it are not separated.

    Args:
        graph: the public graph.
        count: number of eigenvectors; a graph of fewer nodes has as many as nodes.
        regularised: whether to add the mean degree; False for those of D^-1/2 A D^-1/2.
        workers: number of threads on a large graph.
        max_restarted_edges: number of edges above which the graph is large.

    >>> star = Graph.from_edges([[0, 0, 0], [1, 2, 3]], num_nodes=4)
    >>> [round(abs(float(entry)), 3) for entry in leading_eigenvectors(star, 1)[:, 0]]
    [0.707, 0.408, 0.408, 0.408]
    """
    nodes, (starts, neighbours) = graph.num_nodes, graph.adjacency
    added = max(float(graph.degrees.mean()), 1.0) if regularised else 0.0
    scale = 1 / np.sqrt(np.maximum(graph.degrees + added, 1.0))
    weights = np.empty(len(neighbours), dtype=np.float32)
    for block in _blocks(nodes):
        inside = slice(starts[block.start], starts[block.stop])
        ends = np.repeat(scale[block], np.diff(starts[block.start : block.stop + 1]))
        weights[inside] = ends * scale[neighbours[inside]]
    matrix = csr_array((weights, neighbours, starts), shape=(nodes, nodes))
    start = np.random.default_rng(0).standard_normal(nodes).astype(np.float32)
    with threadpoolctl.threadpool_limits(1, user_api="blas"):  # vectors this short take longer in several threads
        if nodes <= 2 * count:  # ARPACK needs a space that is much smaller than the whole
            values, vectors = np.linalg.eigh(matrix.toarray().astype(np.float64))
        elif graph.num_edges > max_restarted_edges:
            return lanczos(matrix, start, count, steps=2 * count, workers=workers)
        else:
            values, vectors = eigsh(matrix, k=count, which="LM", tol=_TOLERANCE, v0=start)
    order = np.argsort(-np.abs(values), kind="stable")[:count]
    return np.ascontiguousarray(vectors[:, order], dtype=np.float32)


def lanczos(matrix: csr_array, start: Vector, count: int, *, steps: int, workers: int = 1) -> NDArray[np.float32]:
    """Return Ritz vectors with the Ritz values of largest magnitude [nodes, count], of one Krylov space.

    The basis is orthogonalised in full, twice in every step. It takes `steps` numbers for each node, and the result
    is computed in its place. Columns of the result are contiguous.

    Args:
        matrix: symmetric matrix.
        start: first vector of the space.
        count: number of vectors.
        steps: dimension of the space.
        workers: number of threads; each takes blocks of nodes.
    """
    nodes, rng = len(start), np.random.default_rng(1)
    basis = np.empty((steps, nodes), dtype=np.float32)
    basis[0] = start / np.linalg.norm(start)
    diagonal, beside = np.zeros(steps), np.zeros(steps - 1)
    rows = {block.start: _rows(matrix, block) for block in _blocks(nodes)}
    with ThreadPoolExecutor(workers) as pool:

        def each(function: Callable[[slice], Result]) -> list[Result]:
            return list(pool.map(function, _blocks(nodes)))

        def orthogonalise(vector: Vector, known: Vector) -> NDArray[np.float64]:
            """Subtract the part of a vector in the known space, in place; return its coordinates."""
            parts = each(lambda block: known[:, block] @ vector[block])
            found = np.sum(parts, axis=0, dtype=np.float64)

            def subtract(block: slice) -> None:
                vector[block] -= found.astype(np.float32) @ known[:, block]

            each(subtract)
            return np.asarray(found)

        for step in tracked(range(steps), "eigenvectors, steps"):
            image, known = np.empty(nodes, dtype=np.float32), basis[: step + 1]

            def multiply(block: slice, image: Vector = image, vector: Vector = basis[step]) -> None:
                image[block] = rows[block.start] @ vector

            each(multiply)
            diagonal[step] = orthogonalise(image, known)[step]
            orthogonalise(image, known)
            if step + 1 == steps:
                break
            norm = float(np.linalg.norm(image))
            if norm < _BREAKDOWN:
                image = rng.standard_normal(nodes).astype(np.float32)
                for _ in range(3):
                    image /= np.linalg.norm(image)
                    orthogonalise(image, known)
                norm = float(np.linalg.norm(image))
            else:
                beside[step] = norm
            np.divide(image, norm, out=basis[step + 1])
        values, rotation = eigh_tridiagonal(diagonal, beside)
        chosen = rotation[:, np.argsort(-np.abs(values), kind="stable")[:count]].T.astype(np.float32)

        def rotate(block: slice) -> None:
            basis[:count, block] = chosen @ basis[:, block]

        each(rotate)
    basis.resize((count, nodes), refcheck=False)  # the rest is freed without a copy
    return basis.T


def _rows(matrix: csr_array, block: slice) -> csr_array:
    """Return some rows of a matrix, which share its arrays."""
    starts = matrix.indptr[block.start : block.stop + 1]
    inside = slice(starts[0], starts[-1])
    entries = matrix.data[inside], matrix.indices[inside], starts - starts[0]
    return csr_array(entries, shape=(block.stop - block.start, matrix.shape[1]), copy=False)


def _blocks(nodes: int) -> list[slice]:
    return [slice(start, min(start + _BLOCK, nodes)) for start in range(0, nodes, _BLOCK)]
