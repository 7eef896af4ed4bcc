r"""Label shares in the surroundings of each node, at several ranges, with how many reports they rest on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from veilgraph.learn.held_out import HeldOutLabels
from veilgraph.reconstruct.propagation import repeated_product

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

    def log_probabilities(self, prior: Tensor, sharpness: float, caution: float) -> Tensor:
        r"""A class distribution that trusts many reports more than few.

        .. math:: z_v = \ln \pi + \tau \frac{N_v}{N_v + \kappa} (\tilde\pi_v - \tilde\pi)
        """
        trust = (self.sizes / (self.sizes + caution * self.needed)).unsqueeze(2)
        return (prior.log() + sharpness * len(prior) * trust * self.excess).log_softmax(dim=2)


def diffusions(labels: HeldOutLabels, matrix: Tensor, *, seed: int) -> dict[tuple[float, int], Diffusion]:
    r"""Every range: :math:`Z \leftarrow (1 - a) S Z + a Y'`, rows divided by their sums and debiased.

    A node's own report is no witness for the node, so the worth of its surroundings leaves it out:
    :math:`N_v = (\sum_u w_{vu})^2 / (\ell \sum_{u \ne v} w_{vu}^2)` with w the weights of the propagation and l the
    share of nodes that report. The sums of squares are estimated with random signs z, from
    :math:`E[(Wz)_v^2] = \sum_u w_{vu}^2` and :math:`E[z_v (Wz)_v] = w_{vv}`.
    """
    nodes, versions, classes = labels.versions.shape
    signs = torch.randint(2, (nodes, _PROBES), generator=torch.Generator().manual_seed(seed)).mul_(2).sub_(1).float()
    sources = torch.cat([labels.versions.reshape(nodes, -1), signs], dim=1)
    reporting = labels.versions.sum(dim=(0, 2)) / nodes
    needed = classes * labels.other * (1 - labels.other) / (labels.keep - labels.other) ** 2 + 1
    found: dict[tuple[float, int], Diffusion] = {}
    for restart, steps in RANGES.items():
        for step, columns in _propagate(matrix, sources, restart, steps):
            scores = columns[:, : versions * classes].reshape(nodes, versions, classes)
            probes = columns[:, versions * classes :]
            squares = probes.square().mean(1) - (probes * signs).mean(1).square()
            mass = scores.sum(2)
            sizes = mass.square() / (reporting * squares.clamp(min=_TINY).unsqueeze(1))
            found[restart, step] = Diffusion(excess=_excess(scores, mass, labels), sizes=sizes, needed=needed)
    return found


def _propagate(matrix: Tensor, sources: Tensor, restart: float, steps: tuple[int, ...]) -> Iterator[tuple[int, Tensor]]:
    columns, injected = sources, restart * sources
    for step in range(1, max(steps) + 1):
        columns = torch.add(injected, repeated_product(matrix, columns, 1), alpha=1 - restart)
        if step in steps:
            yield step, columns


def _excess(scores: Tensor, mass: Tensor, labels: HeldOutLabels) -> Tensor:
    shares = scores / mass.clamp(min=_TINY).unsqueeze(2)
    excess = (shares - labels.shares) / (labels.keep - labels.other)
    return torch.where(mass.unsqueeze(2) > _TINY, excess, 0.0)
