"""Backbones by name: GNNs that map node inputs and a graph to logits.

GraphSAGE and GCN are linear convolutions, whose replicas are trained together (`ReplicaNetworks`). GAT is trained alone
(`AttentionNetwork`). A backbone of the user's own is a torch module, which `ModuleNetwork` gives the same interface.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from veilgraph.errors import FitError
from veilgraph.models.engine.output_layer import ALL_NODES, NodeSubset
from veilgraph.models.saved_state import check_layout
from veilgraph.reconstruct.operators import GraphOperators
from veilgraph.reconstruct.sparse import SparseProduct

HIDDEN = 16

BackboneFactory = Callable[[int, int], nn.Module]
"""A function (num_inputs, num_classes) -> module with ``forward(x, edge_index) -> logits``."""


@dataclass(frozen=True, kw_only=True)
class ReplicaSettings:
    """Settings that may differ between replicas that are trained together."""

    seed: int
    dropout: float
    learning_rate: float
    weight_decay: float


@dataclass(frozen=True, kw_only=True)
class Convolution:
    r"""A graph convolution that is linear before its activation, so that many replicas can be trained together.

    .. math:: H \mapsto P H W_1 + H W_2 + b

    P is one of the graph's matrices. Because the convolution is linear, it can propagate before it multiplies (once for
    all epochs, if H are the inputs) or after (if W_1 has few outputs).

    Attributes:
        operator: returns P.
        has_own_term: whether there is a term H W_2 for a node's own row.
        bound: bound of the uniform initial weights, as a function of the numbers of inputs and outputs.
        bias_bound: bound of the uniform initial biases, as a function of the number of inputs.
    """

    operator: Callable[[GraphOperators], SparseProduct]
    has_own_term: bool
    bound: Callable[[int, int], float]
    bias_bound: Callable[[int], float]


SAGE = Convolution(
    operator=lambda operators: operators.neighbours,
    has_own_term=True,
    bound=lambda inputs, outputs: 1 / math.sqrt(inputs),
    bias_bound=lambda inputs: 1 / math.sqrt(inputs),
)
"""GraphSAGE with mean aggregation (Hamilton et al. 2017), with the initial weights of torch.nn.Linear."""

GCN = Convolution(
    operator=lambda operators: operators.closed_symmetric,
    has_own_term=False,
    bound=lambda inputs, outputs: math.sqrt(6 / (inputs + outputs)),
    bias_bound=lambda inputs: 0.0,
)
"""GCN (Kipf and Welling 2017), with Glorot's initial weights."""

CONVOLUTIONS = {"gcn": GCN, "sage": SAGE}


NAMED_BACKBONES = ("gat", *sorted(CONVOLUTIONS))


def check_backbone(backbone: str | BackboneFactory) -> None:
    """Refuse a backbone that is neither one of the named ones nor a function."""
    if not callable(backbone) and backbone not in NAMED_BACKBONES:
        raise FitError(
            f"backbone is '{backbone}': choose {', '.join(NAMED_BACKBONES)}, "
            "or give a function (num_inputs, num_classes) -> torch.nn.Module"
        )


class ModuleNetwork:
    """One replica that is a torch module. Its computation is unknown, so that replicas have nothing to share.

    The module's weights and dropout come from torch's global generator, which is seeded here. The caller restores it.

    Args:
        factory: a function (num_inputs, num_classes) -> module.
        operators: matrices of the graph.
        inputs: [nodes, columns].
        num_classes: number of outputs.
        settings: settings of the replica.
        loss_nodes: nodes of the logits for the loss.
        score_nodes: nodes of the logits for the score.
    """

    def __init__(
        self,
        factory: BackboneFactory,
        operators: GraphOperators,
        inputs: Tensor,
        *,
        num_classes: int,
        settings: ReplicaSettings,
        loss_nodes: NodeSubset = ALL_NODES,
        score_nodes: NodeSubset = ALL_NODES,
    ) -> None:
        torch.manual_seed(settings.seed)
        self._module: nn.Module = factory(inputs.shape[1], num_classes).to(operators.device)
        self._loss_nodes, self._score_nodes = loss_nodes, score_nodes
        self._inputs, self._edge_index = inputs, operators.edge_index
        self._shape = len(inputs), num_classes
        self._optimizer = torch.optim.Adam(
            self._module.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )
        self._best = copy.deepcopy(self._module.state_dict())

    @property
    def replicas(self) -> int:
        """Number of replicas."""
        return 1

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return self._inputs.device

    @property
    def generators(self) -> None:
        """None: a module may use any generator, and may decide on the CPU what it does next."""
        return

    def prediction_logits(self) -> Tensor:
        """Return logits of all nodes in evaluation mode, [1, classes, nodes]."""
        self._module.eval()
        with torch.no_grad():
            return self._logits()

    def score_logits(self) -> Tensor:
        """Return logits of the score nodes in evaluation mode."""
        return self._score_nodes.select(self.prediction_logits())

    def epoch_logits(self) -> tuple[Tensor, Tensor]:
        """Return logits in training mode, for the loss, and in evaluation mode, for the score."""
        evaluated = self.score_logits()
        self._module.train()
        return self._loss_nodes.select(self._logits()), evaluated

    def step(self) -> None:
        """Apply one optimizer step and clear the gradient."""
        self._optimizer.step()
        self._optimizer.zero_grad()

    def keep_best(self, improved: Tensor) -> None:
        """Remember the present weights if the replica improved."""
        if bool(improved.any()):
            self._best = copy.deepcopy(self._module.state_dict())

    def restore_best(self) -> None:
        """Return to the weights that `keep_best` remembered."""
        self._module.load_state_dict(self._best)

    def state(self) -> None:
        """Return None: a module may have state anywhere, so that its fit cannot be resumed."""
        return

    def resume(self, state: Mapping[str, Tensor]) -> None:
        """Refuse: no state was ever saved."""
        raise FitError("a torch module cannot be resumed from a checkpoint: start the fit again")

    def weights_by_replica(self) -> list[dict[str, Tensor]]:
        """Return the weights by name."""
        return [{name: tensor.detach().cpu() for name, tensor in self._module.state_dict().items()}]

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Set the weights; refuse weights of another module."""
        check_layout(weights, self._module.state_dict())
        self._module.load_state_dict(dict(weights))

    def _logits(self) -> Tensor:
        logits: Tensor = self._module(self._inputs, self._edge_index)
        if logits.shape != self._shape:
            raise FitError(
                f"the backbone returned logits of shape {tuple(logits.shape)}: its forward(x, edge_index) must return "
                f"{self._shape}, one column for each class"
            )
        return logits.T.unsqueeze(0)
