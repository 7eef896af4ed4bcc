"""Forward correction: a GNN that is trained by the likelihood of randomized labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.distributed.communicator import LOCAL, Communicator
from veilgraph.graph import PerturbedGraph
from veilgraph.models.base import FitTask, training_nodes
from veilgraph.models.engine.gnn_method import GNNMethod
from veilgraph.models.engine.output_layer import ALL_NODES, NodeSubset
from veilgraph.reconstruct.labels import ChannelRows
from veilgraph.reconstruct.operators import GraphOperators


class ForwardCorrectedGNN(GNNMethod):
    r"""A GNN whose predictions pass through the label channel before they are compared with reports.

    .. math:: \mathcal L = - \frac{1}{|V_{train}|} \sum_v \ln \sum_x \hat y_{v,x} P(y'_v | x)

    Patrini et al., "Making Deep Neural Networks Robust to Label Noise", CVPR 2017. The channel P is that of the label
    mechanism, so that nothing about it is estimated. Label sets have a likelihood too, and need no other code. Without
    randomization it is the cross-entropy.

    A subclass defines the inputs of the network.
    """

    @classmethod
    def make_loss(
        cls, tasks: Sequence[FitTask[Self]], operators: GraphOperators, nodes: NodeSubset
    ) -> Callable[[Tensor], Tensor]:
        """Return the negative log-likelihood of the training nodes' reports."""
        reports = [task.perturbed for task in tasks]
        return forward_correction(reports, training_nodes(tasks), operators.device, nodes, operators.communicator)


def forward_correction(
    reports: Sequence[PerturbedGraph],
    masks: NDArray[np.bool_],
    device: torch.device,
    nodes: NodeSubset = ALL_NODES,
    communicator: Communicator = LOCAL,
) -> Callable[[Tensor], Tensor]:
    r"""Return a function from logits to the mean :math:`-\ln \sum_x \hat y_x P(y' | x)` over some nodes, [replicas].

    Forward correction of the loss (Patrini et al. 2017) with the known channel of the label reports. It is computed in
    logarithms: for labels that are not randomized it is the cross-entropy, also where a prediction is almost zero.

    Args:
        reports: reports of each replica, with the likelihood of their label mechanism.
        masks: nodes whose labels count, [replicas, nodes].
        device: device of the logits.
        nodes: nodes of the logits.
        communicator: collective operations over the processes that share the graph.
    """
    counted = torch.from_numpy(masks)
    not_named = torch.from_numpy(np.stack([~each.named_classes().T for each in reports])) & counted.unsqueeze(1)
    weights = counted / communicator.all_reduce_sum(counted.sum(dim=1, keepdim=True))
    not_named, weights = (nodes.select(values).to(device) for values in (not_named, weights))
    likelihood = ChannelRows.of([each.label_mechanism.likelihood for each in reports], device, dims=2)
    log_gain, log_other = likelihood.gain.log(), likelihood.other.log()
    log_named = torch.zeros_like(not_named, dtype=torch.float32).masked_fill(not_named, -torch.inf)

    def loss(logits: Tensor) -> Tensor:
        named = (logits.log_softmax(dim=1) + log_named).logsumexp(dim=1)
        return communicator.all_reduce_sum(-(torch.logaddexp(named + log_gain, log_other) * weights).sum(dim=1))

    return loss
