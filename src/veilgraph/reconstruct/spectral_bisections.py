"""Nested bisections of a large graph by its leading eigenvectors, on one process's nodes or on all."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.distributed.communicator import LOCAL, Communicator
from veilgraph.reconstruct.threads import map_in_threads

_POWER_STEPS = 3
_BLOCK = 2**20
"""Nodes whose rows are added up at once, in 64 bits."""

_DIGIT_BITS, _DIGITS = 10, 5
"""Places on an axis are whole numbers of 50 bits, and the median is found digit by digit."""


def spectral_bisections(
    vectors: Tensor, depth: int, trees: int, communicator: Communicator = LOCAL
) -> list[NDArray[np.int32]]:
    r"""Bisect a graph recursively by its leading eigenvectors; return codes as `graph.clustering.bisections` does.

    A part is divided at the median of its nodes' places on one axis, so halves have equal size. Nodes in the same
    place stay together. The axis is :math:`C^3 g` with C the covariance of the part's rows and a random vector g: near
    the principal axes, and another one in each tree. The first eigenvector, which tells degrees, is left out, and the
    j-th after it is divided by :math:`\sqrt j`: later ones tell less. It needs no edge, and time is linear in the nodes
    for each level. Processes add up counts and covariances.

    Args:
        vectors: leading eigenvectors of this process's nodes in their order, `[nodes, columns]`; at least two.
        depth: number of levels.
        trees: number of trees.
        communicator: collective operations over the processes that share the graph.

    >>> line = torch.stack([torch.ones(8), torch.arange(8.0)], dim=1)
    >>> [codes] = spectral_bisections(line, 2, 1)
    >>> [len(set(codes[i : i + 2].tolist())) for i in (0, 2, 4, 6)], len(set((codes[:4] >> 1).tolist()))
    ([1, 1, 1, 1], 1)
    """
    columns = torch.arange(1, vectors.shape[1], device=vectors.device)
    rows = (vectors[:, 1:] * columns.sqrt().reciprocal()).contiguous()

    def tree(seed: int) -> NDArray[np.int32]:
        return _bisected(rows, depth, seed, communicator).cpu().numpy()

    # Processes exchange sums in the same order, one tree after another.
    at_once = None if communicator.is_local else 1
    return map_in_threads(tree, range(trees), "communities, trees", at_once=at_once)


def _bisected(rows: Tensor, depth: int, seed: int, communicator: Communicator) -> Tensor:
    """Return the codes of one tree, [nodes]."""
    codes, rng = torch.zeros(len(rows), dtype=torch.int32, device=rows.device), np.random.default_rng(seed)
    for level in range(depth):
        parts = 2**level
        sizes, centres, covariances = _moments(rows, codes, parts, communicator)
        axes = torch.from_numpy(rng.standard_normal((parts, rows.shape[1]))).to(centres)
        for _ in range(_POWER_STEPS):
            axes = torch.einsum("pij,pj->pi", covariances, axes)
            axes /= axes.norm(dim=1, keepdim=True).clamp(min=torch.finfo(axes.dtype).tiny)
        places = _places(rows, codes, centres, axes, communicator)
        medians = _medians(places, codes, sizes, communicator)
        codes = 2 * codes + (places >= medians[codes])
    return codes


def _moments(rows: Tensor, codes: Tensor, parts: int, communicator: Communicator) -> tuple[Tensor, Tensor, Tensor]:
    """Return the sizes [parts], means [parts, columns] and covariances [parts, columns, columns] of all parts."""
    width, order = rows.shape[1], torch.argsort(codes, stable=True)
    here = torch.bincount(codes, minlength=parts)
    sums = torch.zeros(parts, width, width + 1, dtype=torch.float64, device=rows.device)
    for part, members in enumerate(torch.split(order, here.tolist())):
        for block in torch.split(members, _BLOCK):
            inside = rows[block].double()
            sums[part, :, :width] += inside.T @ inside
            sums[part, :, width] += inside.sum(0)
    sizes, sums = communicator.all_reduce_sum(here), communicator.all_reduce_sum(sums)
    moments = sums / sizes.clamp(min=1).view(-1, 1, 1)
    means = moments[:, :, width]
    return sizes, means, moments[:, :, :width] - means.unsqueeze(1) * means.unsqueeze(2)


def _places(rows: Tensor, codes: Tensor, centres: Tensor, axes: Tensor, communicator: Communicator) -> Tensor:
    """Return each node's place on the axis of its part, as a whole number from 0 to 2^50 - 1, [nodes]."""
    blocks = zip(torch.split(rows, _BLOCK), torch.split(codes, _BLOCK), strict=True)
    found = [((inside.double() - centres[here]) * axes[here]).sum(1) for inside, here in blocks]
    places = torch.cat(found) if found else rows.new_zeros(0, dtype=torch.float64)
    # A power of two as the unit, so that it rounds nothing.
    reach = int(np.ceil(np.log2(max(float(places.abs().max()) if len(places) else 0.0, 1e-100))))
    unit: float = 2.0 ** (_DIGIT_BITS * _DIGITS - 2 - communicator.all_reduce_max(reach))
    whole: Tensor = (places * unit).round_().long()
    return whole.add_(2 ** (_DIGIT_BITS * _DIGITS - 1))


def _medians(places: Tensor, codes: Tensor, sizes: Tensor, communicator: Communicator) -> Tensor:
    """Return the least place of the upper half of each part, [parts], digit by digit from the highest."""
    parts, base = len(sizes), 2**_DIGIT_BITS
    below, medians = sizes // 2, torch.zeros_like(sizes)
    for digit in range(_DIGITS - 1, -1, -1):
        digits = (places >> (_DIGIT_BITS * digit)) % base
        counts = torch.bincount(codes * base + digits, minlength=parts * base).view(parts, base)
        ranks = communicator.all_reduce_sum(counts).cumsum(1)
        chosen = (ranks <= below.unsqueeze(1)).sum(1).clamp(max=base - 1)
        before = torch.where(chosen > 0, ranks.gather(1, (chosen - 1).clamp(min=0).unsqueeze(1)).squeeze(1), 0)
        below, medians = below - before, medians + (chosen << (_DIGIT_BITS * digit))
        inside = digits == chosen[codes]
        places, codes = places[inside], codes[inside]
    return medians
