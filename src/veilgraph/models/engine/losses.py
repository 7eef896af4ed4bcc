"""Loss functions of training and the score of model selection, for all replicas at once.

Logits, probabilities and targets are [replicas, classes, nodes]; losses and scores are [replicas].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.distributed.communicator import LOCAL, Communicator
from veilgraph.graph import PerturbedGraph
from veilgraph.models.engine.output_layer import ALL_NODES, NodeSubset
from veilgraph.privacy.frequency import expected_observation
from veilgraph.reconstruct.bags import Bags
from veilgraph.reconstruct.labels import ChannelRows, set_sizes
from veilgraph.reconstruct.sparse import SparseProduct, csr_from_entries, csr_from_rows

_FLOOR = 1e-6


def weighted_targets(labels: Tensor, nodes: Tensor, num_classes: int, communicator: Communicator = LOCAL) -> Tensor:
    """Return targets [..., classes, nodes] with 1/|nodes| at the label of each marked node, for a mean over these.

    >>> weighted_targets(torch.tensor([1, 0, 1]), torch.tensor([True, False, True]), 2)
    tensor([[0.0000, 0.0000, 0.0000],
            [0.5000, 0.0000, 0.5000]])
    """
    hits = labels.unsqueeze(-2) == torch.arange(num_classes, device=labels.device).unsqueeze(1)
    return (hits & nodes.unsqueeze(-2)) / communicator.all_reduce_sum(nodes.sum(dim=-1))[..., None, None]


def reported_targets(reports: Sequence[PerturbedGraph], nodes: Tensor, communicator: Communicator = LOCAL) -> Tensor:
    """Return targets [draws, classes, nodes] as reported: the classes that a report names share its weight.

    Args:
        reports: reports of each draw on one graph.
        nodes: nodes that count, [draws, nodes].
        communicator: collective operations over the processes that share the graph.
    """
    named = torch.from_numpy(np.stack([each.named_classes().T for each in reports])).to(nodes.device)
    sizes = set_sizes(reports, nodes.device).long() * communicator.all_reduce_sum(nodes.sum(dim=-1))
    return (named & nodes.unsqueeze(-2)) / sizes[:, None, None]


def cross_entropy(log_probabilities: Tensor, targets: Tensor) -> Tensor:
    r"""Return the mean of :math:`-\ln \hat y_{v, \tilde y_v}` over training nodes, with `weighted_targets`."""
    return -(log_probabilities * targets).sum(dim=(1, 2))


class ProportionLoss:
    r"""Algorithm 3, line 12: the mean over bags of :math:`D_{KL}(\hat b_r \| \tilde b_r)`.

    The predicted proportion is the mean prediction over the labelled members of a bag. Estimated proportions can be
    zero, where the divergence would be infinite, so that both are clamped to at least 1e-6. The bags of all replicas
    are one sparse product.

    Args:
        bags: bags of all replicas.
        nodes: nodes of the probabilities.
        communicator: collective operations over the processes that hold members of the bags.
    """

    def __init__(self, bags: Bags, nodes: NodeSubset = ALL_NODES, communicator: Communicator = LOCAL) -> None:
        self._communicator, bag = communicator, torch.arange(len(bags.draws), device=bags.draws.device)
        counts = bags.draws.bincount()
        self._target = bags.proportions.clamp(min=_FLOOR)
        mean = csr_from_entries(bags.draws, bag, 1.0 / counts[bags.draws], (len(counts), len(bag)))
        self._matrices = _select_members(bags.membership, len(counts), nodes), mean
        self._products: dict[torch.dtype, tuple[SparseProduct, SparseProduct]] = {}
        self._products_in(torch.float32)  # now: nothing may be made while a GPU records an epoch

    def __call__(self, probabilities: Tensor) -> Tensor:
        """Return the loss of each replica, [replicas]."""
        rows = probabilities.mT.reshape(-1, probabilities.shape[1])
        membership, mean = self._products_in(rows.dtype)
        predicted = self._communicator.all_reduce_sum(membership(rows)).clamp(min=_FLOOR)
        divergence = (predicted * (predicted / self._target).log()).sum(dim=1, keepdim=True)
        return mean(divergence).squeeze(1)

    def _products_in(self, precision: torch.dtype) -> tuple[SparseProduct, SparseProduct]:
        """Return the products with the members and the mean over bags, made once for each precision."""
        if precision not in self._products:
            members, mean = (SparseProduct.of(each.to(precision)) for each in self._matrices)
            self._products[precision] = members, mean
        return self._products[precision]


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyLogLikelihood:
    r"""The mean :math:`\ln \sum_x \hat y_x P(y' | x)` over some nodes: how well predictions explain randomized labels.

    Attributes:
        named: 1 for the classes that the report of a node names and 0 for others, [replicas, classes, nodes].
        weights: weight of each node in the mean, [replicas, nodes].
        likelihood: channel of each replica's label reports.
        communicator: collective operations over the processes that share the graph.
    """

    named: Tensor
    weights: Tensor
    likelihood: ChannelRows
    communicator: Communicator

    def __call__(self, logits: Tensor) -> Tensor:
        """Return the score of each replica, [replicas], from logits [replicas, classes, nodes]."""
        chance = expected_observation(self.named_share(logits), self.likelihood)
        return self.mean(chance.clamp(min=_FLOOR).log())

    def named_share(self, logits: Tensor) -> Tensor:
        """Return the probability of the classes that a node's report names, [replicas, nodes]."""
        return (logits.softmax(dim=1) * self.named).sum(dim=1)  # a product, because `masked_fill` is slow on a CPU

    def mean(self, values: Tensor) -> Tensor:
        """Return the mean over the nodes that count, [replicas], from values [replicas, nodes]."""
        return self.communicator.all_reduce_sum((values * self.weights).sum(dim=1))


def noisy_log_likelihood(
    reports: Sequence[PerturbedGraph],
    masks: Sequence[NDArray[np.bool_]],
    device: torch.device,
    nodes: NodeSubset = ALL_NODES,
    communicator: Communicator = LOCAL,
) -> NoisyLogLikelihood:
    r"""Return a function from logits to the mean :math:`\ln \sum_x \hat y_x P(y' | x)` over some nodes, [replicas].

    It measures how well predictions explain randomized labels. No true label enters.

    Args:
        reports: reports of each replica, with the likelihood of their label mechanism.
        masks: nodes whose labels count, for each replica.
        device: device of the logits.
        nodes: nodes of the logits.
        communicator: collective operations over the processes that share the graph.
    """
    counted = torch.from_numpy(np.stack(masks))
    named = torch.from_numpy(np.stack([each.named_classes().T for each in reports])).to(torch.float32)
    weights = counted / communicator.all_reduce_sum(counted.sum(dim=1, keepdim=True))
    named, weights = (nodes.select(values).to(device) for values in (named, weights))
    likelihood = ChannelRows.of([each.label_mechanism.likelihood for each in reports], device, dims=2)
    return NoisyLogLikelihood(named=named, weights=weights, likelihood=likelihood, communicator=communicator)


def _select_members(membership: Tensor, replicas: int, nodes: NodeSubset) -> Tensor:
    """Select the columns of a node subset from a matrix with the nodes of all replicas as columns."""
    if nodes.nodes is None:
        return membership
    num_nodes = membership.shape[1] // replicas
    columns = membership.col_indices()
    kept = (columns // num_nodes) * nodes.size(num_nodes) + nodes.positions(columns % num_nodes)
    shape = membership.shape[0], replicas * nodes.size(num_nodes)
    return csr_from_rows(membership.crow_indices(), kept.to(columns.dtype), membership.values(), shape)
