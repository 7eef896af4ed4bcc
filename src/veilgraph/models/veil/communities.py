"""Communities at every scale: an average over all the ways to put a partition together from nested halves."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.graph import Graph
from veilgraph.graph.clustering import MOST_METIS_EDGES
from veilgraph.models.veil.cross_fitting import HeldOutLabels
from veilgraph.reconstruct.operators import GraphOperators

PURITY = 0.8
"""The share of a community's members that are of its class because they belong to it."""

SMALLEST = 16
"""Nodes in a community that is not divided any more."""

_TREES, _TREES_OF_LARGE_GRAPHS = 16, 8
_LARGE = 2**15


def community_beliefs(labels: HeldOutLabels, operators: GraphOperators) -> Tensor:
    """Log-probabilities [n, F + 1, c] of every node's class from the communities that it may belong to.

    The graph is halved again and again, in several ways; each way gives an exact posterior, and these are averaged.
    """
    depth, trees = halvings(operators.graph)
    found = torch.zeros_like(labels.versions)
    for codes in operators.bisections(depth, trees):
        found += tree_posterior(labels, codes, depth)
    return (found / trees).log()


def halvings(graph: Graph) -> tuple[int, int]:
    """How often a graph is halved, and in how many ways; a graph too large for METIS is one community.

    >>> halvings(Graph.from_edges([range(1023), range(1, 1024)], num_nodes=1024))
    (6, 16)
    """
    if graph.num_edges > MOST_METIS_EDGES:
        return 0, 1
    depth = max(0, int(math.log2(max(graph.num_nodes, 1) / SMALLEST)))
    return depth, 1 if depth == 0 else _TREES_OF_LARGE_GRAPHS if graph.num_edges > _LARGE else _TREES


def tree_posterior(labels: HeldOutLabels, codes: NDArray[np.int64], depth: int) -> Tensor:
    r"""P(class | reports) of every node, if some of the nested parts are the communities.

    There are at least about as many communities as classes, so the tree begins at :math:`2^{[\log_2 c]}` parts. A part
    is a community with probability 1/2, or else both its halves are made up of communities (the smallest parts always
    are one). A community has a class x from the prior; its members are of class x with probability 0.8 and drawn from
    the prior otherwise. So with E_B the likelihood of the reports in a part as one community, the sum over all
    partitions is

    .. math:: W_B = \tfrac12 E_B + \tfrac12 W_{B'} W_{B''}, \qquad
        E_B = \sum_x \pi_x \prod_{v \in B \cap L} \left( q + g [0.8\, 1(x = y'_v) + 0.2\, \pi_{y'_v}] \right)

    which takes one pass up the tree, and the posterior one pass down.
    """
    device, prior = labels.versions.device, labels.prior.double()
    members = torch.from_numpy(codes).to(device)
    classes = (1 - PURITY) * prior + PURITY * torch.eye(len(prior), dtype=torch.float64, device=device)
    rates = (labels.other + (labels.keep - labels.other) * classes).log()
    counts = torch.zeros(2**depth, *labels.versions.shape[1:], dtype=torch.float64, device=device)
    levels = [counts.index_add_(0, members, labels.versions.double()) @ rates.T]
    for _ in range(depth - min(depth, round(math.log2(len(prior))))):
        levels.append(_both_halves(levels[-1]))
    joint = [level + prior.log() for level in levels]
    return _descend(joint, classes).index_select(0, members).to(torch.float32)


def _descend(joint: list[Tensor], classes: Tensor) -> Tensor:
    """Posteriors of the smallest parts [parts, V, c], from ln P(class, reports) of the parts of each size."""
    likelihoods = [level.logsumexp(dim=2) for level in joint]
    stops = _stopping(likelihoods)
    found, reached = torch.zeros_like(joint[-1]), torch.ones_like(stops[-1])
    for level, likelihood, stop in zip(reversed(joint), reversed(likelihoods), reversed(stops), strict=True):
        halves = len(level) // len(found)
        found, reached = (values.repeat_interleave(halves, dim=0) for values in (found, reached))
        found += (reached * stop).unsqueeze(2) * ((level - likelihood.unsqueeze(2)).exp() @ classes)
        reached *= 1 - stop
    return found


def _stopping(likelihoods: list[Tensor]) -> list[Tensor]:
    """The posterior probability that a part which is not within a community is one, from the smallest parts up."""
    stops, whole = [torch.ones_like(likelihoods[0])], likelihoods[0]
    for likelihood in likelihoods[1:]:
        one, several = likelihood - math.log(2), _both_halves(whole) - math.log(2)
        whole = torch.logaddexp(one, several)
        stops.append((one - whole).exp())
    return stops


def _both_halves(parts: Tensor) -> Tensor:
    """Sums over the two halves of each part."""
    return parts.reshape(-1, 2, *parts.shape[1:]).sum(dim=1)
