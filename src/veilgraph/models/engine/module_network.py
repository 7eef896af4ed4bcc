"""A backbone that is a torch module, with the interface of replica networks."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from veilgraph.errors import FitError
from veilgraph.models.engine.backbones import BackboneFactory
from veilgraph.models.engine.node_subset import ALL_NODES, NodeSubset
from veilgraph.models.engine.replica_networks import ReplicaSettings
from veilgraph.models.saved_state import check_layout
from veilgraph.reconstruct.operators import GraphOperators


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
        return logits.T.unsqueeze(0)
