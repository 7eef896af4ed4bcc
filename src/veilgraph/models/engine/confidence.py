"""Calibration of the probabilities of a GNN with randomized labels. It changes no predicted class."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from veilgraph.models.engine.losses import NoisyLogLikelihood
from veilgraph.privacy.frequency import expected_observation

_LOWEST, _HIGHEST, _STEP = -2.0, 3.0, 0.25
"""Range and step of ln T: from 0.14, which sharpens, to 20, which leaves almost nothing."""

_HALVINGS = 12
_TINY = 1e-30
_LARGEST_DOUBT = 0.95
"""Some confidence is left, so that the most likely class stays the most likely one."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Confidence:
    r"""What makes the probabilities of each replica honest: a temperature and a doubt.

    .. math:: \hat y = (1 - \delta) \, \mathrm{softmax}(z / T) + \delta / c

    Neither changes the order of the classes. The temperature T alone (C. Guo et al., "On calibration of modern neural
    networks", 2017) cannot say that a network is sure and wrong for some nodes, such as those without edges; the doubt
    is the share of such nodes.

    Attributes:
        temperatures: T of each replica, [replicas].
        doubts: delta of each replica, [replicas].
    """

    temperatures: Tensor
    doubts: Tensor

    @classmethod
    def fit(cls, logits: Tensor, score: NoisyLogLikelihood) -> Confidence:
        """Find what explains the label reports of held-out nodes best. No true label enters.

        Few reports say little, so that ln T has a standard normal prior and the doubt the density 2 (1 - delta).
        The likelihood is concave in the doubt, whose maximum is found by halving. That over ln T is the maximum of
        the parabola through the best point of a grid and its neighbours: both move smoothly with the logits.

        Args:
            logits: logits of the nodes of the score, [replicas, classes, nodes].
            score: log-likelihood of the reports.
        """
        uniform = score.named_share(torch.zeros_like(logits)).double()
        grid = torch.arange(_LOWEST, _HIGHEST + _STEP / 2, _STEP, dtype=torch.float64, device=logits.device)
        prior = score.mean(score.weights).double()  # 1 / number of reports
        heights = []
        for log_temperature in grid.tolist():
            share = score.named_share(logits / math.exp(log_temperature)).double()
            doubt = _doubt(share, uniform, score, prior)
            chance = _chance(share, uniform, doubt, score)
            known = (1 - doubt.squeeze(1)).log() - log_temperature**2 / 2
            heights.append(score.mean(chance.log()) + prior * known)
        scores = torch.stack(heights)
        best = scores[1:-1].argmax(dim=0, keepdim=True) + 1
        below, top, above = (scores.gather(0, best + shift).squeeze(0) for shift in (-1, 0, 1))
        curvature = (below - 2 * top + above).clamp(max=-torch.finfo(torch.float64).tiny)
        shift = ((below - above) / (2 * curvature)).clamp(-1, 1)
        temperatures = (grid[best.squeeze(0)] + _STEP * shift).exp()
        share = score.named_share(logits / temperatures[:, None, None].to(logits.dtype)).double()
        doubts = _doubt(share, uniform, score, prior).squeeze(1)
        return cls(temperatures=temperatures.to(logits.dtype), doubts=doubts.to(logits.dtype))

    def probabilities(self, logits: Tensor) -> Tensor:
        """Return probabilities [replicas, nodes, classes] from logits [replicas, classes, nodes]."""
        sharp = (logits / self.temperatures[:, None, None]).softmax(dim=1)
        return sharp.lerp(torch.full_like(sharp[:1, :1, :1], 1 / logits.shape[1]), self.doubts[:, None, None]).mT


def _chance(share: Tensor, uniform: Tensor, doubt: Tensor, score: NoisyLogLikelihood) -> Tensor:
    """Return the probability of each report, above 0: labels that are not randomized can contradict a prediction."""
    return expected_observation(share.lerp(uniform, doubt), score.likelihood).clamp(min=_TINY)


def _doubt(share: Tensor, uniform: Tensor, score: NoisyLogLikelihood, prior: Tensor) -> Tensor:
    """Return the most likely doubt, [replicas, 1], by halving where the slope of its density changes sign."""
    low = torch.zeros(len(share), 1, dtype=share.dtype, device=share.device)
    high = torch.full_like(low, _LARGEST_DOUBT)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        chance = _chance(share, uniform, middle, score)
        gain = score.likelihood.gain.double()
        slope = score.mean(gain * (uniform - share) / chance) - prior / (1 - middle.squeeze(1))
        rises = slope.unsqueeze(1) > 0
        low, high = torch.where(rises, middle, low), torch.where(rises, high, middle)
    return (low + high) / 2
