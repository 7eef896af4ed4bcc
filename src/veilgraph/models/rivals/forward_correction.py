"""Forward correction: a GNN that is trained by the likelihood of randomized labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self

from torch import Tensor

from veilgraph.models.base import FitTask, training_nodes
from veilgraph.models.engine.gnn_method import GNNMethod
from veilgraph.models.engine.losses import forward_correction
from veilgraph.models.engine.output_layer import NodeSubset
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
