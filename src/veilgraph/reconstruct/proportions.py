"""b~: the label distribution of each bag, estimated from the randomized labels of its members."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.frequency import estimate_frequencies, population_variance, project_to_simplex
from veilgraph.graph import PerturbedGraph
from veilgraph.reconstruct.labels import one_hot_labels
from veilgraph.reconstruct.peers import ALONE, Alone
from veilgraph.reconstruct.propagation import sparse_csr


@dataclass(frozen=True, kw_only=True, eq=False)
class Bags:
    """Bags with at least one labelled member; the others have no proportion and no part in a loss.

    Attributes:
        membership: sparse [bags, nodes], 1/|labelled members| for each labelled member: a product with it is a
            mean over the bag.
        proportions: b~, on the simplex (nearest distribution in Euclidean distance).
        standard_errors: of the estimates before projection.
        sizes: labelled members of each bag.
    """

    membership: Tensor
    proportions: Tensor
    standard_errors: Tensor
    sizes: Tensor

    def to(self, device: torch.device) -> Bags:
        """The same bags on another device."""
        return Bags(**{name: tensor.to(device) for name, tensor in vars(self).items()})


def bag_proportions(
    perturbed: PerturbedGraph,
    clusters: NDArray[np.int64],
    members: NDArray[np.bool_],
    *,
    estimate: bool = True,
    peers: Alone = ALONE,
) -> Bags:
    """Algorithm 3, lines 4 and 7: mean randomized label of each bag, then undo the randomization.

    Args:
        perturbed: the graph and its reports.
        clusters: the cluster of each node.
        members: the nodes whose reports and predictions count (the training nodes).
        estimate: undo the randomization; otherwise the observed proportions are kept, for ablations.
        peers: who holds the rest of the graph.
    """
    channel = perturbed.label_mechanism.channel
    nodes = torch.from_numpy(members & perturbed.has_label).nonzero().squeeze(1)
    cluster_of = torch.from_numpy(clusters)[nodes]
    counts = peers.total(torch.bincount(cluster_of, minlength=peers.most(int(clusters.max()) + 1)))
    bag_of, sizes = (counts > 0).cumsum(0)[cluster_of] - 1, counts[counts > 0]
    weights = 1.0 / sizes[bag_of].to(torch.float32)
    membership = sparse_csr(bag_of, nodes, weights, (len(sizes), perturbed.graph.num_nodes))
    observed = peers.total(membership @ one_hot_labels(perturbed))
    estimates = estimate_frequencies(observed, channel)
    errors = population_variance(estimates, channel, sizes.unsqueeze(1)).sqrt()
    return Bags(
        membership=membership,
        proportions=project_to_simplex(estimates) if estimate else observed,
        standard_errors=errors if estimate else errors * float(channel.gain),
        sizes=sizes,
    )
