"""Leading eigenvectors of a large graph by the Lanczos method, the same bit for bit with any number of processes.

Sums over nodes are exact, so their order does not matter. The basis is kept in 32 bits as multiples of
:math:`2^{-30}`. A number that it is multiplied by is split into multiples of :math:`2^{-22}` and a small rest. Then all
products are multiples of :math:`2^{-52}`, partial sums of products of unit vectors are below 2, and 53 bits hold each
of them. The rest is rounded so that the same is true of it (the idea of Ozaki et al. 2012).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal
from torch import Tensor

from veilgraph.distributed.communicator import Communicator
from veilgraph.graph.counters import counter_words
from veilgraph.progress import tracked
from veilgraph.reconstruct.threads import map_in_threads

_STEPS_PER_VECTOR = 2
_BREAKDOWN = 1e-5
"""Norm of the next direction, relative to the largest eigenvalue 1, below which the space is complete."""

_STREAM = 7000
_BASIS_BITS, _HIGH_BITS, _SQUARE_BITS = 30, 22, 60
_BLOCK, _GPU_BLOCK = 2**13, 2**21
"""Nodes of which a product is computed at once, in 64 bits."""


def lanczos_eigenvectors(
    neighbour_sums: Callable[[Tensor], Tensor],
    degrees: Tensor,
    communicator: Communicator,
    count: int,
    *,
    regularised: bool = True,
) -> Tensor:
    r"""Return eigenvectors of the regularised adjacency with the eigenvalues of largest magnitude, `[nodes, count]`.

    .. math:: S = (D + \bar d)^{-1/2} A\, (D + \bar d)^{-1/2}

    They are those of `graph.spectrum.leading_eigenvectors`, from one Krylov space of twice as many dimensions that is
    never restarted. Eigenvectors outside the bulk of the spectrum, which show classes, are found as well; those within
    it are not separated. Each direction is made orthogonal to all before it. The sign of a vector follows from its
    first coordinate. Columns of the result are contiguous.

    Args:
        neighbour_sums: function from a column of this process's nodes `[nodes, 1]` to its sums over their neighbours.
        degrees: degrees of these nodes, `[nodes]`.
        communicator: collective operations over the processes that share the graph.
        count: number of eigenvectors; a graph of fewer nodes has as many as nodes.
        regularised: whether to add the mean degree; False for those of D^-1/2 A D^-1/2.
    """
    nodes = communicator.global_nodes(len(degrees))
    mean = int(communicator.all_reduce_sum(degrees.sum())) / int(communicator.all_reduce_sum((degrees > 0).sum()))
    added = max(mean, 1.0) if regularised else 0.0
    scale = 1 / (degrees.double() + added).clamp(min=1.0).sqrt()
    count = min(count, nodes)
    steps = min(_STEPS_PER_VECTOR * count, nodes)
    basis = _Basis(len(degrees), (count, steps - count), nodes, scale.device, communicator)
    diagonal, beside = np.zeros(steps), np.zeros(steps - 1)
    numbers = communicator.counted_nodes
    numbers = torch.arange(len(degrees)) if numbers is None else numbers.cpu()
    random = partial(_random_direction, basis, numbers.numpy(), scale, nodes)
    basis.append(random(0))
    for step in tracked(range(steps), "eigenvectors, steps"):
        direction = basis.last(0)
        image = neighbour_sums((direction * scale).float().unsqueeze(1)).squeeze(1).double() * scale
        diagonal[step] = float(basis.coordinates(image, latest=True)[0])
        if step + 1 == steps:
            break
        image -= diagonal[step] * direction
        if step:
            image -= beside[step - 1] * basis.last(1)
        basis.orthogonalise(image)
        length = basis.norm(image)
        if length < _BREAKDOWN:
            image = random(step + 1)
            for _ in range(3):
                basis.orthogonalise(image)
                image /= (length := basis.norm(image))
            length = 1.0
        else:
            beside[step] = length
        basis.append(image / length)
    chosen = _leading_rotation(diagonal, beside, count)
    # All processes take the first one's numbers: those of another kind of machine may differ in the last bit.
    shared = torch.from_numpy(chosen).to(scale) * (1.0 if communicator.is_first else 0.0)
    return basis.rotated(communicator.all_reduce_sum(shared))


def _random_direction(basis: _Basis, numbers: NDArray[np.int64], like: Tensor, nodes: int, stream: int) -> Tensor:
    """Return a unit vector of random numbers that depend on the node alone, [nodes]."""
    words = counter_words(numbers, seed=0, stream=_STREAM + stream) / 2.0**63 - 1
    vector = torch.from_numpy(words).to(like) / math.sqrt(nodes)
    return vector / basis.norm(vector)


def _leading_rotation(diagonal: NDArray[np.float64], beside: NDArray[np.float64], count: int) -> NDArray[Any]:
    """Return eigenvectors of a tridiagonal matrix with the largest magnitudes, [steps, count], of one sign each."""
    values, rotation = eigh_tridiagonal(diagonal, beside)
    chosen = rotation[:, np.argsort(-np.abs(values), kind="stable")[:count]]
    chosen *= np.where(chosen[0] < 0, -1.0, 1.0)
    return chosen


class _Basis:
    """Orthonormal directions, `[steps, nodes]`, with exact products.

    Directions are in two tensors: the result takes the place of the first, and the second is freed before.

    Args:
        local_nodes: number of nodes of this process.
        sizes: number of directions in each tensor.
        nodes: number of nodes of the whole graph.
        device: device of the directions.
        communicator: collective operations over the processes that share the graph.
    """

    def __init__(
        self,
        local_nodes: int,
        sizes: tuple[int, int],
        nodes: int,
        device: torch.device,
        communicator: Communicator,
    ) -> None:
        self._parts = [torch.empty(size, local_nodes, device=device) for size in sizes]
        self._known, self._communicator = 0, communicator
        # A rest is at most 2^-23 for each node, and products with it are below sqrt(n) 2^-23 in sum.
        self._rest_bits = math.floor(53 - _BASIS_BITS + _HIGH_BITS + 1 - math.log2(max(nodes, 2)) / 2)
        width = _BLOCK if device.type == "cpu" else _GPU_BLOCK
        self._blocks = [slice(start, min(start + width, local_nodes)) for start in range(0, local_nodes, width)]

    def append(self, direction: Tensor) -> None:
        """Keep a direction [nodes], rounded."""
        self._row(self._known).copy_(_rounded(direction, _BASIS_BITS))
        self._known += 1

    def last(self, before: int) -> Tensor:
        """Return the last direction, or one of those before it, [nodes]."""
        return self._row(self._known - 1 - before).double()

    def norm(self, vector: Tensor) -> float:
        """Return the norm of a vector of norm 1 at most, from whole numbers."""
        squares = _rounded_whole(vector.square(), _SQUARE_BITS).sum()
        return math.sqrt(int(self._communicator.all_reduce_sum(squares)) / 2.0**_SQUARE_BITS)

    def coordinates(self, vector: Tensor, *, latest: bool = False) -> Tensor:
        """Return the products of the known directions, or of the latest alone, and a vector, [directions]."""
        first = self._known - 1 if latest else 0

        def product(block: slice) -> Tensor:
            factors = self._split(vector[block])
            return torch.cat([factors @ rows.T for rows in self._rows(block, first)], dim=1)

        parts = map_in_threads(product, self._blocks, "eigenvectors, products")
        here = torch.stack(parts).sum(0) if parts else vector.new_zeros(2, self._known - first)
        found: Tensor = self._communicator.all_reduce_sum(here).sum(0)
        return found

    def orthogonalise(self, vector: Tensor) -> None:
        """Subtract the part of a vector in the known space, in place."""
        factors = torch.split(self._split(self.coordinates(vector)), len(self._parts[0]), dim=1)

        def subtract(block: slice) -> None:
            for some, rows in zip(factors, self._rows(block), strict=True):
                vector[block] -= (some @ rows).sum(0)

        map_in_threads(subtract, self._blocks, "eigenvectors, products")

    def rotated(self, rotation: Tensor) -> Tensor:
        """Return combinations of all directions, `[nodes, count]`, for a rotation `[steps, count]`; nothing is kept."""
        factors = self._split(rotation.T)

        def rotate(block: slice) -> None:
            rows = torch.cat(self._rows(block))
            self._parts[0][:, block] = factors[0] @ rows + factors[1] @ rows

        map_in_threads(rotate, self._blocks, "eigenvectors, products")
        del self._parts[1]
        return self._parts.pop().T

    def _row(self, number: int) -> Tensor:
        first = len(self._parts[0])
        return self._parts[0][number] if number < first else self._parts[1][number - first]

    def _rows(self, block: slice, first: int = 0) -> list[Tensor]:
        """Return entries of the known directions from a number on, `[directions, block]`, of each tensor with any."""
        sizes = (0, len(self._parts[0]))
        known = [
            part[max(first - size, 0) : max(self._known - size, 0), block]
            for part, size in zip(self._parts, sizes, strict=True)
        ]
        return [rows.double() for rows in known if len(rows)]

    def _split(self, numbers: Tensor) -> Tensor:
        """Return numbers as two that sum to them, [2, ...]: multiples of 2^-22 and the rounded rest."""
        high = _rounded(numbers, _HIGH_BITS)
        return torch.stack([high, _rounded(numbers - high, self._rest_bits)])


def _rounded(numbers: Tensor, bits: int) -> Tensor:
    """Round to multiples of 2^-bits."""
    return (numbers * 2.0**bits).round_() * 2.0**-bits


def _rounded_whole(numbers: Tensor, bits: int) -> Tensor:
    return (numbers * 2.0**bits).round_().long()
