"""RTGNN with a known label channel: pseudo labels and agreement with neighbours beside forward correction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from studies.rivals.featfree import FeatFree
from veilgraph.errors import FitError
from veilgraph.models.base import FitTask, training_nodes
from veilgraph.models.engine.output_layer import NodeSubset
from veilgraph.reconstruct.operators import GraphOperators


@dataclass(kw_only=True)
class RTGNN(FeatFree):
    r"""Qian et al., "Robust Training of Graph Neural Networks via Noise Governance", WSDM 2023, for a known channel.

    .. math:: \mathcal L = \mathcal L_{forward}
        - \frac{1}{|P|} \sum_{v \in P} \ln \hat y_{v, \arg\max \hat y_v}
        - \frac{\lambda}{|V_{train}|} \sum_{v \in V_{train}} \sum_x \bar y_{v,x} \ln \hat y_{v,x}

    P are the nodes outside of the training nodes whose largest probability is above a threshold (self-reinforcement).
    The mean prediction of a node's neighbours is :math:`\bar y_v` (intra-view regularization). Both are constants in
    the gradient.

    RTGNN trains two networks so that they find wrong labels by each other's losses. The channel of the reports is
    known, and forward correction weighs every label as its probability says, so there is one network here. It adds
    edges between nodes with similar features, and randomized features have no such nodes: inputs are positions in the
    graph, as in FeatFree-P, and nobody is asked for features. Its authors have a threshold of 0.95, where at most half
    of the labels are wrong. At epsilon_y = 1 (user level, any two records) most are, and pseudo labels take over.

    Args:
        consistency: lambda.
        threshold: smallest probability of a pseudo label.

    >>> RTGNN().uses_features
    False
    """

    name: ClassVar[str] = "rtgnn"
    loss_needs_all_nodes: ClassVar[bool] = True

    consistency: float = 0.1
    threshold: float = 0.99

    @classmethod
    def make_loss(
        cls, tasks: Sequence[FitTask[Self]], operators: GraphOperators, nodes: NodeSubset
    ) -> Callable[[Tensor], Tensor]:
        """Return forward correction, plus the losses of pseudo labels and of disagreement with neighbours."""
        forward, communicator = super().make_loss(tasks, operators, nodes), operators.communicator
        training = torch.from_numpy(training_nodes(tasks)).to(operators.device)
        share = training / communicator.all_reduce_sum(training.sum(dim=1, keepdim=True))
        consistency, threshold = (
            torch.tensor([getattr(task.method, name) for task in tasks], device=operators.device)
            for name in ("consistency", "threshold")
        )

        def loss(logits: Tensor) -> Tensor:
            log_predicted = logits.log_softmax(dim=1)
            predicted = log_predicted.detach().exp()
            columns = operators.neighbours(predicted.flatten(0, 1).T.contiguous(), 1)
            disagreement = -(columns.T.view_as(predicted) * log_predicted).sum(dim=1)
            confidence, pseudo_labels = predicted.max(dim=1)
            chosen = (confidence > threshold.unsqueeze(1)) & ~training
            surprise = -log_predicted.gather(1, pseudo_labels.unsqueeze(1)).squeeze(1)
            count = communicator.all_reduce_sum(chosen.sum(dim=1)).clamp(min=1)
            parts = consistency * (disagreement * share).sum(dim=1) + (surprise * chosen).sum(dim=1) / count
            return forward(logits) + communicator.all_reduce_sum(parts)

        return loss

    def check_settings(self) -> None:
        """Raise FitError if a setting is out of range."""
        super().check_settings()
        if not self.consistency >= 0:
            raise FitError(f"consistency is {self.consistency}: it must be 0 or more")
        if not 0 < self.threshold <= 1:
            raise FitError(f"threshold is {self.threshold}: it must be above 0 and at most 1")
