"""Bags and their label proportions b~, estimated from the randomized labels of their members (Algorithm 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.distributed.communicator import LOCAL, Communicator
from veilgraph.graph import PerturbedGraph
from veilgraph.privacy.frequency import estimate_frequencies, population_variance
from veilgraph.reconstruct.labels import ChannelRows, named_class_draws, project_to_simplex
from veilgraph.reconstruct.sparse import csr_from_entries, sparse_product


@dataclass(frozen=True, kw_only=True, eq=False)
class Bags:
    """Bags with at least one labelled member; bags without one have no proportions and are left out of losses.

    The bags of several draws of reports on one graph are concatenated, and so are the nodes of the draws.

    Attributes:
        membership: sparse `[bags, draws * nodes]`, 1/|labelled members| for each labelled member: a product with it
            is a mean over each bag.
        proportions: b~, `[bags, classes]`, the nearest distributions to the estimates in Euclidean distance.
        standard_errors: `[bags, classes]`, standard errors of the estimates before the projection.
        sizes: `[bags]`, number of labelled members.
        draws: `[bags]`, draw to which each bag belongs.
    """

    membership: Tensor
    proportions: Tensor
    standard_errors: Tensor
    sizes: Tensor
    draws: Tensor


def bag_proportions(
    perturbed: PerturbedGraph, clusters: NDArray[np.int64], members: NDArray[np.bool_], *, estimate: bool = True
) -> Bags:
    """Estimate the label proportions of bags: Algorithm 3, lines 4 and 7.

    The share of reports that name each class is computed first; then the bias of the randomization is removed.

    Args:
        perturbed: the graph and its reports.
        clusters: `[nodes]`, cluster of each node.
        members: `[nodes]`, nodes whose reports and predictions count (the training nodes).
        estimate: remove the bias of the randomization; False keeps the observed proportions, for ablations.
    """
    return bags_of_draws([perturbed], [clusters], [members], estimate=[estimate])


def bags_of_draws(
    reports: Sequence[PerturbedGraph],
    clusters: Sequence[NDArray[np.int64]],
    members: Sequence[NDArray[np.bool_]],
    *,
    estimate: Sequence[bool],
    device: torch.device | str = "cpu",
    communicator: Communicator = LOCAL,
) -> Bags:
    """Compute `bag_proportions` of several draws on one graph at once.

    Args:
        reports: the graph and its reports, for each draw.
        clusters: cluster of each node, for each draw.
        members: nodes that count, for each draw.
        estimate: whether to remove the bias, for each draw.
        device: device of the result.
        communicator: collective operations over the processes that share the graph.
    """
    nodes = reports[0].graph.num_nodes
    counted = np.stack([each.has_label & chosen for each, chosen in zip(reports, members, strict=True)])
    draws, nodes_of = torch.from_numpy(counted).to(device).nonzero(as_tuple=True)
    width = communicator.all_reduce_max(1 + max(int(each.max()) for each in clusters))
    cluster_of = draws * width + torch.from_numpy(np.stack(clusters)).to(device)[draws, nodes_of]
    counts = communicator.all_reduce_sum(torch.bincount(cluster_of, minlength=len(reports) * width))
    bag_of, sizes = (counts > 0).cumsum(0)[cluster_of] - 1, counts[counts > 0]
    draw_of = (counts > 0).nonzero().squeeze(1) // width
    weights = 1.0 / sizes[bag_of].to(torch.float32)
    membership = csr_from_entries(bag_of, draws * nodes + nodes_of, weights, (len(sizes), counted.size))
    labels = named_class_draws(reports, weights.device).transpose(0, 1).flatten(0, 1)
    if communicator.counted_nodes is None:
        observed = sparse_product(membership, labels)
    else:  # in 64 bits, so that shares do not depend on the number of processes
        observed = communicator.all_reduce_sum(membership.double() @ labels.double()).to(labels.dtype)
    channels = ChannelRows.of([each.label_mechanism.channel for each in reports], weights.device, dims=2).at(draw_of)
    estimates = estimate_frequencies(observed, channels)
    errors = population_variance(estimates, channels, sizes.unsqueeze(1)).sqrt()
    unbiased = torch.tensor(list(estimate), device=weights.device)[draw_of].unsqueeze(1)
    return Bags(
        membership=membership,
        proportions=torch.where(unbiased, project_to_simplex(estimates), observed / channels.set_size),
        standard_errors=torch.where(unbiased, errors, errors * channels.gain / channels.set_size),
        sizes=sizes,
        draws=draw_of,
    )
