"""Which classes are joined by edges, estimated from randomized labels at both ends."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from veilgraph.models.veil.cross_fitting import HeldOutLabels
from veilgraph.reconstruct.simplex import project_to_simplex

_RAREST = 0.2
_LEAST = 0.02


@dataclass(frozen=True, kw_only=True, eq=False)
class Coupling:
    """How much likelier than chance an edge joins two classes.

    Attributes:
        matrix: K [c, c], 1 where chance alone is at work.
        ends: class shares of the ends of edges.
        strength: the largest change of a belief that one edge can transmit, the spectral radius of K - 1 on beliefs.
        plain: whether classes only attract themselves, all alike: then copying says the same.
    """

    matrix: Tensor
    ends: Tensor
    strength: float
    plain: bool


def estimate_coupling(labels: HeldOutLabels) -> Coupling | None:
    r"""From the reports at both ends of edges; None where no edge has two.

    Ends are randomized independently, so with J' the observed joint shares and f' their margins the covariance of
    the true classes at the two ends is :math:`(J' - f' f'^T) / (p - q)^2`. It is split into the part in which all
    classes attract themselves alike, r (diag(f) - f f^T), and a rest, which is kept by the share of it that noise
    does not explain.
    """
    joint, pairs = _observed_pairs(labels)
    if pairs == 0:
        return None
    gain, classes = labels.keep - labels.other, labels.num_classes
    margin = joint.sum(1)
    covariance = (joint - torch.outer(margin, margin)) / gain**2
    ends = project_to_simplex((margin - labels.other) / gain).clamp(min=_RAREST / classes)
    ends = ends / ends.sum()
    alike = torch.diag(ends) - torch.outer(ends, ends)
    attraction = float((covariance * alike).sum() / alike.square().sum())
    rest = covariance - attraction * alike
    noise = (classes * (classes - 1) / 2 - 1) * float(torch.outer(margin, margin).mean()) / (pairs * gain**4)
    kept = max(0.0, 1 - 2 * noise / max(float(rest.square().sum()), 1e-12)) if classes > 2 else 0.0
    error = float((alike.square() * torch.outer(margin, margin)).sum() / pairs) ** 0.5 / gain**2
    error /= float(alike.square().sum())
    matrix = 1 + (attraction * alike + kept * rest) / torch.outer(ends, ends)
    matrix = matrix.clamp(min=_LEAST)
    strength = float(torch.linalg.eigvals((matrix - 1) * ends).abs().max())
    return Coupling(matrix=matrix, ends=ends, strength=strength, plain=attraction > -2 * error and kept == 0.0)


def _observed_pairs(labels: HeldOutLabels) -> tuple[Tensor, int]:
    sources, targets = torch.from_numpy(labels.perturbed.graph.edges)
    reporting = torch.from_numpy(labels.perturbed.has_label)
    both = reporting[sources] & reporting[targets]
    reported = torch.from_numpy(labels.perturbed.labels)
    codes = reported[sources[both]] * labels.num_classes + reported[targets[both]]
    counts = torch.bincount(codes, minlength=labels.num_classes**2).reshape(labels.num_classes, -1).float()
    pairs = int(both.sum())
    return (counts + counts.T) / max(2 * pairs, 1), pairs
