r"""Label shares in the surroundings of each node, at several ranges, with how many reports they rest on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from veilgraph.models.veil.cross_fitting import HeldOutLabels
from veilgraph.models.veil.log_softmax import log_softmax
from veilgraph.reconstruct.propagation import block_width, sparse_product

Range = tuple[float, int]
"""A restart and a number of steps."""

RANGES = {0.5: (4,), 0.3: (16,), 0.1: (16,), 0.03: (32,), 0.01: (2, 4, 32), 0.003: (64,)}
"""Steps for each restart: from the nearest neighbours to whole regions."""

_PROBES = 16
_TINY = 1e-12


@dataclass(frozen=True, kw_only=True, eq=False)
class Diffusion:
    """What one range of personalised PageRank finds around each node.

    Attributes:
        excess: debiased class shares less those of the whole graph, [n, F + 1, c].
        sizes: how many equally weighted reports they are worth, [n, F + 1].
        needed: how many reports it takes until the noise of a share is no more than a share of 1/c differs.
    """

    excess: Tensor
    sizes: Tensor
    needed: float

    def log_probabilities(self, prior: Tensor, sharpness: float | Tensor, caution: float | Tensor) -> Tensor:
        r"""A class distribution that trusts many reports more than few.

        .. math:: z_v = \ln \pi + \tau \frac{N_v}{N_v + \kappa} (\tilde\pi_v - \tilde\pi)
        """
        sizes = self.sizes.unsqueeze(2)
        trust = sizes / (sizes + caution * self.needed)
        return log_softmax(prior.log() + sharpness * len(prior) * trust * self.excess)


def diffusions(labels: HeldOutLabels, matrix: Tensor, *, seed: int) -> dict[Range, Diffusion]:
    r"""Every range: :math:`Z \leftarrow (1 - a) S Z + a Y'`, rows divided by their sums and debiased.

    A node's own report is no witness for the node, so the worth of its surroundings leaves it out:
    :math:`N_v = (\sum_u w_{vu})^2 / (\ell \sum_{u \ne v} w_{vu}^2)` with w the weights of the propagation and l the
    share of nodes that report. The sums of squares are estimated with random signs z, from
    :math:`E[(Wz)_v^2] = \sum_u w_{vu}^2` and :math:`E[z_v (Wz)_v] = w_{vv}`.
    """
    squares = squared_weights(matrix, seed)
    reporting = labels.versions.sum(dim=(0, 2)) / len(labels.versions)
    needed = labels.num_classes * labels.other * (1 - labels.other) / (labels.keep - labels.other) ** 2 + 1
    found: dict[Range, Diffusion] = {}
    for place, columns in personalised_pagerank(matrix, labels.versions.flatten(1), squares).items():
        scores = columns.view_as(labels.versions)
        mass = scores.sum(2)
        sizes = mass.square() / (reporting * squares[place].unsqueeze(1))
        found[place] = Diffusion(excess=_excess(scores, mass, labels), sizes=sizes, needed=needed)
    return found


@lru_cache(maxsize=4)
def squared_weights(matrix: Tensor, seed: int) -> dict[Range, Tensor]:
    """Sum of w_vu^2 over u other than v for each range; kept, since fits on one graph with one seed share it."""
    generator = torch.Generator().manual_seed(seed)
    signs = torch.randint(2, (matrix.shape[0], _PROBES), generator=generator).mul_(2).sub_(1).float()
    signs = signs.to(matrix.device)
    ranges = [(restart, steps) for restart, counts in RANGES.items() for steps in counts]
    return {
        place: (probes.square().mean(1) - (probes * signs).mean(1).square()).clamp(min=_TINY)
        for place, probes in personalised_pagerank(matrix, signs, ranges).items()
    }


def personalised_pagerank(matrix: Tensor, columns: Tensor, ranges: Iterable[Range]) -> dict[Range, Tensor]:
    r"""Z after K steps of :math:`Z \leftarrow (1 - a) S Z + a Y` from Y, for every range (a, K).

    .. math:: Z = a \sum_{k < K} (1 - a)^k S^k Y + (1 - a)^K S^K Y

    The powers are the same for all ranges, so there are as many products as the longest has steps.
    """
    found = {place: columns.new_empty(columns.shape) for place in ranges}
    width = block_width(columns.device, len(columns))
    for start in range(0, columns.shape[1], width):
        power = columns[:, start : start + width].contiguous()
        sums = {place: torch.zeros_like(power) for place in found}
        for step in range(max(steps for _, steps in found) + 1):
            power = sparse_product(matrix, power) if step else power
            for (restart, steps), total in sums.items():
                if step <= steps:
                    total.add_(power, alpha=(1 - restart) ** step * (restart if step < steps else 1.0))
        for place, total in sums.items():
            found[place][:, start : start + width] = total
    return found


def _excess(scores: Tensor, mass: Tensor, labels: HeldOutLabels) -> Tensor:
    shares = scores / mass.clamp(min=_TINY).unsqueeze(2)
    excess = (shares - labels.shares) / (labels.keep - labels.other)
    return torch.where(mass.unsqueeze(2) > _TINY, excess, 0.0)
