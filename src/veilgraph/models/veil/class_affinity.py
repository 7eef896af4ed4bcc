"""Class affinity: which classes edges join, estimated from randomized labels at both ends."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from veilgraph.models.veil.cross_fitting import CrossFitting
from veilgraph.reconstruct.labels import project_to_simplex

_RAREST = 0.2
_MIN_AFFINITY = 0.02
_BLOCK = 2**20
"""Edges whose reports are compared at once."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassAffinity:
    """Ratio of the probability that an edge joins two classes to that of independent ends.

    Attributes:
        matrix: K [classes, classes], 1 where the classes of the ends are independent.
        end_shares: Class shares of the ends of edges, [classes].
        spectral_radius: Largest change of a belief that one edge can transmit: the spectral radius of
            (K - 1) diag(end_shares).
        uniformly_assortative: Whether every class attracts itself equally; then no matrix is needed.
    """

    matrix: Tensor
    end_shares: Tensor
    spectral_radius: float
    uniformly_assortative: bool


def estimate_class_affinity(labels: CrossFitting) -> ClassAffinity | None:
    r"""Estimate the affinity from edges with a report at both ends; return None if there are none.

    Ends are randomized independently. With J' the observed joint shares and f' their margins, the covariance of the
    true classes at the two ends is :math:`(J' - f' f'^T) / (p - q)^2`. This holds for the shares of edges whose reports
    name a pair of classes, also if a report names several. It is the sum of a uniformly assortative part,
    r (diag(f) - f f^T), and a residual. Of the residual, the share that noise does not explain is kept. Reports that
    were not randomized, a share a of all, multiply the covariance of reports by (1 - a)^2, if they are not neighbours.
    """
    joint, pairs = _observed_pairs(labels)
    if pairs == 0:
        return None
    gain, classes = labels.reports.keep - labels.reports.other, labels.reports.num_classes
    margin = shares = joint.sum(1) / labels.reports.set_size
    if labels.contamination is not None:
        gain, shares = gain * (1 - labels.contamination.share), labels.contamination.honest_shares(margin)
    covariance = (joint - torch.outer(margin, margin)) / gain**2
    ends = project_to_simplex((shares - labels.reports.other) / (labels.reports.keep - labels.reports.other)).clamp(
        min=_RAREST / classes
    )
    ends = ends / ends.sum()
    assortative = torch.diag(ends) - torch.outer(ends, ends)
    attraction = float((covariance * assortative).sum() / assortative.square().sum())
    residual = covariance - attraction * assortative
    spread = _spread(margin, labels.reports.set_size)
    noise = (classes * (classes - 1) / 2 - 1) * float(torch.outer(spread, spread).mean()) / (pairs * gain**4)
    kept = max(0.0, 1 - 2 * noise / max(float(residual.square().sum()), 1e-12)) if classes > 2 else 0.0
    error = float((assortative.square() * torch.outer(spread, spread)).sum() / pairs) ** 0.5 / gain**2
    error /= float(assortative.square().sum())
    matrix = 1 + (attraction * assortative + kept * residual) / torch.outer(ends, ends)
    matrix = matrix.clamp(min=_MIN_AFFINITY)
    return ClassAffinity(
        matrix=matrix,
        end_shares=ends,
        spectral_radius=float(torch.linalg.eigvals((matrix - 1) * ends).abs().max()),
        uniformly_assortative=attraction > -2 * error and kept == 0.0,
    )


def _spread(margin: Tensor, set_size: int) -> Tensor:
    """Return the variance of naming each class, scaled so that it is the share itself for equal shares and one class.

    Single reports keep the approximation by their shares, which are small.
    """
    classes = len(margin)
    return margin if set_size == 1 else margin * (1 - margin) * classes / (classes - 1)


def _observed_pairs(labels: CrossFitting) -> tuple[Tensor, int]:
    """Return the shares of edges whose reports name each pair of classes, [classes, classes], and how many edges."""
    operators, communicator = labels.reports.operators, labels.reports.communicator
    sources, targets = operators.edges
    named = communicator.exchange_halo(labels.reports.named.float())
    reporting, counted = named.any(dim=1), operators.counted_edges
    counts, pairs = named.new_zeros(labels.reports.num_classes, labels.reports.num_classes, dtype=torch.float64), 0
    for start in range(0, len(sources), _BLOCK):
        block = slice(start, start + _BLOCK)
        first, second = sources[block], targets[block]
        both = reporting[first] & reporting[second]
        both = both if counted is None else both & counted[block]
        pairs += int(both.sum())
        counts += named[first[both]].T @ named[second[both]]  # whole numbers below 2**24: exact
    counts = communicator.all_reduce_sum(counts).cpu().float()
    pairs = int(communicator.all_reduce_sum(torch.tensor(pairs, device=labels.device)))
    return (counts + counts.T) / max(2 * pairs, 1), pairs
