"""b~: the label distribution of each bag, estimated from the randomized labels of its members."""

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
from veilgraph.reconstruct.labels import ChannelRows, stacked_one_hot
from veilgraph.reconstruct.simplex import project_to_simplex
from veilgraph.reconstruct.sparse import csr_from_entries, sparse_product


@dataclass(frozen=True, kw_only=True, eq=False)
class Bags:
    """Bags with at least one labelled member; the others have no proportion and no part in a loss.

    Bags of several draws on one graph follow each other, and so do the draws' nodes.

    Attributes:
        membership: sparse [bags, draws * nodes], 1/|labelled members| for each labelled member: a product with it is a
            mean over the bag.
        proportions: b~, on the simplex (nearest distribution in Euclidean distance).
        standard_errors: of the estimates before projection.
        sizes: labelled members of each bag.
        draws: to which draw each bag belongs.
    """

    membership: Tensor
    proportions: Tensor
    standard_errors: Tensor
    sizes: Tensor
    draws: Tensor


def bag_proportions(
    perturbed: PerturbedGraph, clusters: NDArray[np.int64], members: NDArray[np.bool_], *, estimate: bool = True
) -> Bags:
    """Algorithm 3, lines 4 and 7: mean randomized label of each bag, then undo the randomization.

    Args:
        perturbed: the graph and its reports.
        clusters: the cluster of each node.
        members: the nodes whose reports and predictions count (the training nodes).
        estimate: undo the randomization; otherwise the observed proportions are kept, for ablations.
    """
    return stacked_bags([perturbed], [clusters], [members], estimate=[estimate])


def stacked_bags(
    reports: Sequence[PerturbedGraph],
    clusters: Sequence[NDArray[np.int64]],
    members: Sequence[NDArray[np.bool_]],
    *,
    estimate: Sequence[bool],
    device: torch.device | str = "cpu",
    communicator: Communicator = LOCAL,
) -> Bags:
    """`bag_proportions` of several draws on one graph, at once.

    Args:
        reports: of each draw.
        clusters: of each.
        members: of each.
        estimate: for each.
        device: where to compute.
        communicator: collective operations over the processes that share the graph.
    """
    nodes = reports[0].graph.num_nodes
    counted = np.stack([each.has_label & chosen for each, chosen in zip(reports, members, strict=True)])
    draws, places = torch.from_numpy(counted).to(device).nonzero(as_tuple=True)
    width = communicator.all_reduce_max(1 + max(int(each.max()) for each in clusters))
    cluster_of = draws * width + torch.from_numpy(np.stack(clusters)).to(device)[draws, places]
    counts = communicator.all_reduce_sum(torch.bincount(cluster_of, minlength=len(reports) * width))
    bag_of, sizes = (counts > 0).cumsum(0)[cluster_of] - 1, counts[counts > 0]
    draw_of = (counts > 0).nonzero().squeeze(1) // width
    weights = 1.0 / sizes[bag_of].to(torch.float32)
    membership = csr_from_entries(bag_of, draws * nodes + places, weights, (len(sizes), counted.size))
    labels = stacked_one_hot(reports, weights.device).transpose(0, 1).flatten(0, 1)
    observed = communicator.all_reduce_sum(sparse_product(membership, labels))
    channels = ChannelRows.of([each.label_mechanism.channel for each in reports], weights.device, dims=2).at(draw_of)
    estimates = estimate_frequencies(observed, channels)
    errors = population_variance(estimates, channels, sizes.unsqueeze(1)).sqrt()
    undone = torch.tensor(list(estimate), device=weights.device)[draw_of].unsqueeze(1)
    return Bags(
        membership=membership,
        proportions=torch.where(undone, project_to_simplex(estimates), observed),
        standard_errors=torch.where(undone, errors, errors * channels.gain),
        sizes=sizes,
        draws=draw_of,
    )
