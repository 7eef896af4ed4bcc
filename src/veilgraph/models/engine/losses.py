"""What training minimises, and the score that selection may see, for all replicas at once.

Logits, probabilities and targets are [replicas, classes, nodes]; a loss is one number for each replica.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.distributed.communicator import LOCAL, Communicator
from veilgraph.graph import PerturbedGraph
from veilgraph.models.engine.node_subset import EVERYWHERE, Asked
from veilgraph.privacy.frequency import expected_observation
from veilgraph.reconstruct.bags import Bags
from veilgraph.reconstruct.labels import ChannelRows
from veilgraph.reconstruct.propagation import SparseProduct, compressed, sparse_csr

_FLOOR = 1e-6


def weighted_targets(labels: Tensor, nodes: Tensor, num_classes: int, communicator: Communicator = LOCAL) -> Tensor:
    """[..., classes, nodes] with 1/|nodes| at the label of each marked node: a product with it is a mean over them.

    >>> weighted_targets(torch.tensor([1, 0, 1]), torch.tensor([True, False, True]), 2)
    tensor([[0.0000, 0.0000, 0.0000],
            [0.5000, 0.0000, 0.5000]])
    """
    hits = labels.unsqueeze(-2) == torch.arange(num_classes, device=labels.device).unsqueeze(1)
    return (hits & nodes.unsqueeze(-2)) / communicator.all_reduce_sum(nodes.sum(dim=-1))[..., None, None]


def cross_entropy(log_probabilities: Tensor, targets: Tensor) -> Tensor:
    r"""Mean :math:`-\ln \hat y_{v, \tilde y_v}` over training nodes, weighted as `weighted_targets` says."""
    return -(log_probabilities * targets).sum(dim=(1, 2))


class ProportionLoss:
    r"""Algorithm 3, line 12: the mean over bags of :math:`D_{KL}(\hat b_r \| \tilde b_r)`.

    The predicted proportion is the mean prediction over the labelled members of a bag. Estimated proportions can be
    zero, where the divergence would be infinite, so both are floored at 1e-6 before the logarithm. The bags of all
    replicas are one sparse product.

    Args:
        bags: of all replicas.
        asked: at which nodes probabilities will be.
        communicator: collective operations over the processes that hold members of the bags.
    """

    def __init__(self, bags: Bags, asked: Asked = EVERYWHERE, communicator: Communicator = LOCAL) -> None:
        self._communicator, bag = communicator, torch.arange(len(bags.draws), device=bags.draws.device)
        counts = bags.draws.bincount()
        self._membership = SparseProduct.of(_at_asked(bags.membership, len(counts), asked))
        self._target = bags.proportions.clamp(min=_FLOOR)
        mean = sparse_csr(bags.draws, bag, 1.0 / counts[bags.draws], (len(counts), len(bag)))
        self._mean = SparseProduct.of(mean)

    def __call__(self, probabilities: Tensor) -> Tensor:
        """The loss of each replica."""
        rows = probabilities.mT.reshape(-1, probabilities.shape[1])
        predicted = self._communicator.all_reduce_sum(self._membership(rows)).clamp(min=_FLOOR)
        divergence = (predicted * (predicted / self._target).log()).sum(dim=1, keepdim=True)
        return self._mean(divergence).squeeze(1)


def noisy_log_likelihood(
    reports: Sequence[PerturbedGraph],
    nodes: Sequence[NDArray[np.bool_]],
    device: torch.device,
    asked: Asked = EVERYWHERE,
    communicator: Communicator = LOCAL,
) -> Callable[[Tensor], Tensor]:
    r"""Mean :math:`\ln [\hat y P]_{y'}` over some nodes of each replica, as a function of logits.

    How well predictions explain randomized labels. No clean label enters.

    Args:
        reports: of each replica; P is its label channel.
        nodes: whose labels count, for each replica.
        device: where logits will be.
        asked: at which nodes logits will be.
        communicator: collective operations over the processes that share the graph.
    """
    counted = torch.from_numpy(np.stack(nodes))
    labels = torch.from_numpy(np.stack([each.labels for each in reports])).where(counted, 0)
    weights = counted / communicator.all_reduce_sum(counted.sum(dim=1, keepdim=True))
    labels, weights = (asked.pick(values).to(device) for values in (labels, weights))
    channels = ChannelRows.of([each.label_mechanism.channel for each in reports], device, dims=2)

    def score(logits: Tensor) -> Tensor:
        chance = logits.softmax(dim=1).gather(1, labels.unsqueeze(1)).squeeze(1)
        chance = expected_observation(chance, channels)
        return communicator.all_reduce_sum((chance.clamp(min=_FLOOR).log() * weights).sum(dim=1))

    return score


def _at_asked(membership: Tensor, replicas: int, asked: Asked) -> Tensor:
    """Of columns for all nodes of one replica after another, those of the nodes that are asked for."""
    if asked.nodes is None:
        return membership
    nodes = membership.shape[1] // replicas
    columns = membership.col_indices()
    kept = (columns // nodes) * asked.count(nodes) + asked.places(columns % nodes)
    shape = membership.shape[0], replicas * asked.count(nodes)
    return compressed(membership.crow_indices(), kept.to(columns.dtype), membership.values(), shape)
