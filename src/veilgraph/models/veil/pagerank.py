"""Class shares around each node by personalised PageRank, with the effective sample size of each share."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from veilgraph.models.veil.calibration import Parameters, ParameterTensors, by_class, log_softmax
from veilgraph.models.veil.cross_fitting import CrossFitting
from veilgraph.reconstruct.sparse import block_width, sparse_product

Range = tuple[float, int]
"""Restart probability and number of steps: how far reports spread."""

RANGES: tuple[Range, ...] = (
    (0.5, 4),
    (0.3, 16),
    (0.1, 16),
    (0.03, 32),
    (0.01, 2),
    (0.01, 4),
    (0.01, 32),
    (0.003, 64),
)
"""Ranges of the views, from the nearest neighbours to whole regions."""

SHARPNESS = tuple(np.geomspace(1 / 16, 4, 13).tolist())
CAUTION = (1 / 64, 1 / 16, 1 / 4, 1.0, 4.0, 16.0)
_EXPECTED_SHARPNESS = 0.5
_PROBES = 16
_TINY = 1e-12


@dataclass(frozen=True, kw_only=True, eq=False)
class PageRankView:
    """Class shares that one range of personalised PageRank gives around each node.

    Calibration has two parameters: the sharpness in units of the number of classes, and the caution in units of
    `reports_needed`.

    Attributes:
        excess: Debiased class shares less those of the whole graph, [nodes, K + 1, classes].
        effective_sizes: Effective sample size of each share, in equally weighted reports, [nodes, K + 1].
        reports_needed: Number of reports at which the noise of a share is as large as a share of 1 / classes.
    """

    excess: Tensor
    effective_sizes: Tensor
    reports_needed: float

    def candidates(self) -> Sequence[Parameters]:
        """Return every pair of a sharpness and a caution."""
        return list(itertools.product(SHARPNESS, CAUTION))

    def negative_log_prior(self, parameters: Parameters) -> float:
        """Return half the squared log-distance to the expected sharpness and caution."""
        sharpness, caution = parameters
        return (math.log(sharpness / _EXPECTED_SHARPNESS) ** 2 + math.log(caution) ** 2) / 2

    def out_of_fold(self, labels: CrossFitting) -> PageRankView:
        """Return the out-of-fold shares of the reporting nodes, [reports, 1, classes]."""
        excess, sizes = (labels.out_of_fold(part).unsqueeze(1) for part in (self.excess, self.effective_sizes))
        return replace(self, excess=by_class(excess), effective_sizes=sizes)

    def log_probabilities(self, prior: Tensor, parameters: Parameters | ParameterTensors) -> Tensor:
        r"""Return class log-probabilities, nearer to the prior where the effective sample size is small.

        .. math:: z_v = \ln \pi + \tau \frac{N_v}{N_v + \kappa} (\tilde\pi_v - \tilde\pi)
        """
        sharpness, caution = parameters
        sizes = self.effective_sizes.unsqueeze(2)
        trust = sizes / (sizes + caution * self.reports_needed)
        return log_softmax(prior.log() + (sharpness * len(prior) * trust) * self.excess)


def pagerank_views(labels: CrossFitting, matrix: Tensor, *, seed: int) -> dict[Range, PageRankView]:
    r"""Propagate label reports, :math:`Z \leftarrow (1 - a) S Z + a Y'`, and debias the row-normalised result.

    The effective sample size leaves a node's own report out:
    :math:`N_v = (\sum_u w_{vu})^2 / (\ell \sum_{u \ne v} w_{vu}^2)`, with w the PageRank weights and l the share of
    nodes that report. Hutchinson's estimator with random signs z gives the sums of squares, from
    :math:`E[(Wz)_v^2] = \sum_u w_{vu}^2` and :math:`E[z_v (Wz)_v] = w_{vv}`.

    Args:
        labels: Label reports in folds.
        matrix: S, sparse [nodes, nodes].
        seed: Seed of the random signs.
    """
    squares = squared_weights(matrix, seed)
    sources = labels.weighted_training_sets
    reporting = sources.square().sum(dim=(0, 2)) / (labels.set_size * len(sources))
    needed = labels.num_classes * labels.other * (1 - labels.other) / (labels.keep - labels.other) ** 2 + 1
    views: dict[Range, PageRankView] = {}
    for key, columns in personalised_pagerank(matrix, sources.flatten(1), squares).items():
        scores = columns.view_as(sources)
        mass = scores.sum(2) / labels.set_size
        sizes = mass.square() / (reporting * squares[key].unsqueeze(1))
        views[key] = PageRankView(excess=_excess(scores, mass, labels), effective_sizes=sizes, reports_needed=needed)
    return views


@lru_cache(maxsize=4)
def squared_weights(matrix: Tensor, seed: int) -> dict[Range, Tensor]:
    """Estimate the sum of w_vu^2 over u other than v [nodes] for each range.

    Fits on one graph with one seed share the result.
    """
    generator = torch.Generator().manual_seed(seed)
    signs = torch.randint(2, (matrix.shape[0], _PROBES), generator=generator).mul_(2).sub_(1).float()
    signs = signs.to(matrix.device)
    return {
        key: (probes.square().mean(1) - (probes * signs).mean(1).square()).clamp(min=_TINY)
        for key, probes in personalised_pagerank(matrix, signs, RANGES).items()
    }


def personalised_pagerank(matrix: Tensor, columns: Tensor, ranges: Iterable[Range]) -> dict[Range, Tensor]:
    r"""Apply K steps of :math:`Z \leftarrow (1 - a) S Z + a Y` to columns Y [nodes, columns], for every range (a, K).

    .. math:: Z = a \sum_{k < K} (1 - a)^k S^k Y + (1 - a)^K S^K Y

    All ranges share the powers :math:`S^k Y`: the number of sparse products is the number of steps of the longest.
    """
    results = {key: columns.new_empty(columns.shape) for key in ranges}
    width = block_width(columns.device, len(columns))
    for start in range(0, columns.shape[1], width):
        power = columns[:, start : start + width].contiguous()
        sums = {key: torch.zeros_like(power) for key in results}
        for step in range(max(steps for _, steps in results) + 1):
            power = sparse_product(matrix, power) if step else power
            for (restart, steps), total in sums.items():
                if step <= steps:
                    total.add_(power, alpha=(1 - restart) ** step * (restart if step < steps else 1.0))
        for key, total in sums.items():
            results[key][:, start : start + width] = total
    return results


def _excess(scores: Tensor, mass: Tensor, labels: CrossFitting) -> Tensor:
    shares = scores / mass.clamp(min=_TINY).unsqueeze(2)
    excess = (shares - labels.report_shares) / (labels.keep - labels.other)
    return torch.where(mass.unsqueeze(2) > _TINY, excess, 0.0)
