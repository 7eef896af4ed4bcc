"""Leading eigenvectors of a graph whose rows are spread over processes, by the Lanczos method."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal
from scipy.sparse import csr_array

from veilgraph.distributed.graph_rows import GraphRows, Halo
from veilgraph.graph.counters import counter_words
from veilgraph.progress import tracked

_STEPS_PER_VECTOR = 2
_BREAKDOWN = 1e-5
"""Norm of the next direction, relative to the largest eigenvalue 1, below which the space is complete."""

_STREAM = 7000
_BLOCK = 2**15
"""Nodes of which a product is computed at once, in 64 bits."""


def leading_row_eigenvectors(rows: GraphRows, halo: Halo, count: int) -> NDArray[np.float32]:
    r"""Return the own nodes' entries of `graph.spectrum.leading_eigenvectors`, `[own, count]`.

    The basis is kept in 32 bits. Products and sums are computed in 64 bits: what the number of processes changes in
    them is lost when they are rounded, except by rare accident. The basis is orthogonalised in full, twice in every
    step. There is one Krylov space: the leading eigenvectors are found, and those within the bulk are not separated.

    Args:
        rows: neighbours of the own nodes.
        halo: exchange with the processes that hold the other rows.
        count: number of eigenvectors; a graph of fewer nodes has as many as nodes.
    """
    exchange, nodes = halo.exchange, rows.num_global_nodes
    count = min(count, nodes)
    steps = min(_STEPS_PER_VECTOR * count, nodes)
    matrix = _RegularisedAdjacency(rows, halo)
    basis = np.empty((steps, len(rows.numbers)), dtype=np.float32)
    diagonal, beside = np.zeros(steps), np.zeros(steps - 1)

    def norm(vector: NDArray[np.float64]) -> float:
        return float(np.sqrt(exchange.sum_floats(np.array([vector @ vector]))[0]))

    def orthogonalise(vector: NDArray[np.float64], known: NDArray[np.float32]) -> NDArray[np.float64]:
        """Subtract the part of a vector in the known space, in place; return its coordinates."""
        here = np.zeros(len(known))
        for block in _blocks(len(vector)):
            here += known[:, block].astype(np.float64) @ vector[block]
        found = exchange.sum_floats(here)
        for block in _blocks(len(vector)):
            vector[block] -= found @ known[:, block].astype(np.float64)
        return found

    start = _random(rows, 0)
    basis[0] = start / norm(start)
    for step in tracked(range(steps), "eigenvectors, steps"):
        known = basis[: step + 1]
        image = matrix.multiply(basis[step].astype(np.float64))
        diagonal[step] = orthogonalise(image, known)[step]
        orthogonalise(image, known)
        if step + 1 == steps:
            break
        length = norm(image)
        if length < _BREAKDOWN:
            image = _random(rows, step + 1)
            for _ in range(3):
                image /= norm(image)
                orthogonalise(image, known)
            length = norm(image)
        else:
            beside[step] = length
        basis[step + 1] = image / length
    values, rotation = eigh_tridiagonal(diagonal, beside)
    chosen = rotation[:, np.argsort(-np.abs(values), kind="stable")[:count]]
    chosen *= np.where(chosen[0] < 0, -1.0, 1.0)  # the sign of an eigenvector is arbitrary, and must be the same
    found = np.empty((len(rows.numbers), count), dtype=np.float32)
    for block in _blocks(len(found)):
        found[block] = basis[:, block].astype(np.float64).T @ chosen
    return found


class _RegularisedAdjacency:
    """The own rows of (D + d)^-1/2 A (D + d)^-1/2, d the mean degree."""

    def __init__(self, rows: GraphRows, halo: Halo) -> None:
        degrees, exchange = rows.degrees, halo.exchange
        mean = int(exchange.sum(np.array([degrees.sum()]))[0]) / rows.num_global_nodes
        self._halo, self._scale = halo, 1 / np.sqrt(np.maximum(degrees + max(mean, 1.0), 1.0))
        self._starts = rows.starts
        self._positions = np.searchsorted(halo.extended, rows.neighbours).astype(np.int32)
        widths = [int(rows.starts[each.stop] - rows.starts[each.start]) for each in _blocks(len(degrees))]
        self._ones = np.ones(max(widths, default=0))

    def multiply(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the own entries of the product, `[own]`."""
        extended = self._halo.extend(vector * self._scale)
        product = np.empty_like(vector)
        for block in _blocks(len(vector)):
            starts = self._starts[block.start : block.stop + 1]
            inside = self._positions[starts[0] : starts[-1]]
            entries = self._ones[: len(inside)], inside, (starts - starts[0]).astype(np.int32)
            product[block] = csr_array(entries, shape=(len(starts) - 1, len(extended))) @ extended
        return np.asarray(product * self._scale)


def _random(rows: GraphRows, stream: int) -> NDArray[np.float64]:
    """Return numbers from -1 to 1 that depend on the node alone, `[own]`."""
    return counter_words(rows.numbers, seed=0, stream=_STREAM + stream) / 2.0**63 - 1


def _blocks(nodes: int) -> Iterator[slice]:
    return (slice(start, min(start + _BLOCK, nodes)) for start in range(0, nodes, _BLOCK))
