"""Communities of all sizes: a mixture over every partition that nested bisections allow (context-tree weighting)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.graph.clustering import MAX_METIS_EDGES
from veilgraph.models.veil.cross_fitting import CrossFitting
from veilgraph.reconstruct.operators import GraphOperators

PURITY = 0.8
"""Probability that a member of a community has its class because of the membership."""


def community_log_posterior(
    labels: CrossFitting, operators: GraphOperators, *, max_edges: int = MAX_METIS_EDGES
) -> Tensor:
    """Return log-probabilities [nodes, K + 1 or 1, classes] of each node's class from the communities around it.

    The components of the graph are bisected recursively into several random trees. Each tree has an exact posterior;
    the result is their mean. A node without neighbours is in no community and has the class prior.

    Args:
        labels: Label reports in folds.
        operators: The graph, with its bisections.
        max_edges: Number of edges above which the graph is bisected by its eigenvectors.
    """
    found = operators.decompositions.bisections(max_metis_edges=max_edges)
    total = tree_posterior(labels, found.trees[0], found.depths)
    for codes in found.trees[1:]:
        total += tree_posterior(labels, codes, found.depths)
    return total.div_(len(found.trees)).log_()


def tree_posterior(labels: CrossFitting, codes: NDArray[np.signedinteger[Any]], depths: NDArray[np.int64]) -> Tensor:
    r"""Return P(class | reports) [nodes, K + 1 or 1, classes] if some of the nested parts are the communities.

    This is context-tree weighting (Willems, Shtarkov and Tjalkens 1995) on a tree of bisections. The number of
    communities is at least about the number of classes. So the tree of a component begins at :math:`2^{[\log_2 c]}`
    parts, or at its smallest parts if these are fewer. A part is a community with probability 1/2, otherwise both its
    halves consist of communities. The smallest parts are always communities. A community has a class x from the prior.
    Its members have class x with probability 0.8, otherwise a class from the prior. With E_B the likelihood of the
    reports in a part as one community, the sum over all partitions is

    .. math:: W_B = \tfrac12 E_B + \tfrac12 W_{B'} W_{B''}, \qquad
        E_B = \sum_x \pi_x \prod_{v \in B \cap L} \left( b + (a - b)
        \sum_{y \in y'_v} [0.8\, 1(x = y) + 0.2\, \pi_y] \right)

    with a and b the likelihoods of classes that a report names and does not name: p and q with GRR. One pass up the
    tree computes it, and one pass down gives the posterior.

    Args:
        labels: Label reports in folds.
        codes: Number of each node's smallest part, [nodes]; see `Bisections`.
        depths: How often each component is bisected, [components].
    """
    device, prior = labels.device, labels.reports.prior.double()
    parts, joined = int((2**depths).sum()), labels.reports.degrees > 0
    members = torch.from_numpy(codes).to(device, torch.int64).where(joined, parts)
    classes = (1 - PURITY) * prior + PURITY * torch.eye(len(prior), dtype=torch.float64, device=device)
    levels = [_part_log_likelihoods(labels, members, classes, parts + 1)[:parts]]
    merges = depths - np.minimum(depths, round(math.log2(len(prior))))
    for level in range(int(merges.max(initial=0))):
        # Components are in descending order of their depths: those that have further halves to join come first.
        levels.append(_sum_of_halves(levels[-1][: int((2 ** (depths[merges > level] - level)).sum())]))
    joint = [level + prior.log() for level in levels]
    posterior = torch.cat([_downward_pass(joint, classes), prior.expand(1, levels[0].shape[1], -1)]).to(torch.float32)
    if labels.plan.own_only:
        return posterior[members, labels.own_sets].unsqueeze(1)
    return posterior.index_select(0, members)


def _part_log_likelihoods(labels: CrossFitting, members: Tensor, classes: Tensor, parts: int) -> Tensor:
    """Return the log-likelihood of the reports in each part for each class of the community, [parts, K + 1, classes].

    Args:
        labels: Label reports in folds.
        members: Part of each node, [nodes].
        classes: P(class of a member | class of its community), [classes, classes].
        parts: Number of parts.
    """
    sums = torch.cat([_summed(labels, members, sets, classes, parts) for sets in labels.set_slices()], dim=1)
    return labels.reports.communicator.all_reduce_sum(sums)


def _summed(labels: CrossFitting, members: Tensor, sets: slice, classes: Tensor, parts: int) -> Tensor:
    """Return the log-likelihood of some training sets, [parts, sets, classes]."""
    kept = labels.kept[:, sets]
    sums = torch.zeros(parts, kept.shape[1], labels.reports.num_classes, dtype=torch.float64, device=members.device)
    if labels.reports.set_size == 1 and not isinstance(labels.likelihood.outside, Tensor):
        # A report of one class is counted: the log-likelihood is linear in the counts.
        log_rates = (labels.likelihood.outside + labels.likelihood.contrast * classes).log()
        return sums.index_add_(0, members, labels.reports_of(sets).double()) @ log_rates.T
    named = labels.reports.named.double() @ classes.T
    outside = (
        labels.likelihood.outside.unsqueeze(1)
        if isinstance(labels.likelihood.outside, Tensor)
        else labels.likelihood.outside
    )
    rates = (outside + labels.likelihood.contrast * named).log()
    return sums.index_add_(0, members, rates.unsqueeze(1) * kept.unsqueeze(2))


def _downward_pass(joint: list[Tensor], classes: Tensor) -> Tensor:
    """Return the posterior of the smallest parts [parts, K + 1, classes].

    Args:
        joint: ln P(class, reports) of the parts of each level, from the smallest parts up.
        classes: P(class of a member | class of its community), [classes, classes].
    """
    likelihoods = [level.logsumexp(dim=2) for level in joint]
    stops = _upward_pass(likelihoods)
    posterior, reached = torch.zeros_like(joint[-1]), torch.ones_like(stops[-1])
    for number, (level, likelihood, stop) in enumerate(
        zip(reversed(joint), reversed(likelihoods), reversed(stops), strict=True)
    ):
        if number:
            posterior, reached = (
                torch.cat([above.repeat_interleave(2, dim=0), here.new_full(here.shape, start)[2 * len(above) :]])
                for above, here, start in ((posterior, level, 0.0), (reached, stop, 1.0))
            )
        posterior += (reached * stop).unsqueeze(2) * ((level - likelihood.unsqueeze(2)).exp() @ classes)
        reached *= 1 - stop
    return posterior


def _upward_pass(likelihoods: list[Tensor]) -> list[Tensor]:
    """Return, for each level, the posterior probability that a part is a community if no part above it is one."""
    stops, mixture = [torch.ones_like(likelihoods[0])], likelihoods[0]
    for likelihood in likelihoods[1:]:
        one, several = likelihood - math.log(2), _sum_of_halves(mixture[: 2 * len(likelihood)]) - math.log(2)
        mixture = torch.logaddexp(one, several)
        stops.append((one - mixture).exp())
    return stops


def _sum_of_halves(parts: Tensor) -> Tensor:
    """Sum over the two halves of each part, [parts, ...] to [parts / 2, ...]."""
    return parts.reshape(-1, 2, *parts.shape[1:]).sum(dim=1)
