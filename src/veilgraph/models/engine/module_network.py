"""A backbone that is a torch module, behind the same interface as stacked networks."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from veilgraph.errors import FitError
from veilgraph.models.engine.backbones import BackboneFactory
from veilgraph.models.engine.node_subset import EVERYWHERE, Asked
from veilgraph.models.engine.replica_networks import ReplicaSettings
from veilgraph.reconstruct.operators import GraphOperators


class ModuleNetwork:
    """One replica: what a module computes is its own business, so there is nothing to share between several.

    The module's weights and dropout come from torch's global generator, seeded here; the caller restores its state.

    Args:
        factory: (num_inputs, num_classes) -> module.
        operators: of the graph.
        inputs: [nodes, columns].
        num_classes: outputs.
        settings: of the replica.
        loss_asks: nodes of the logits for the loss.
        score_asks: nodes of the logits for the score.
    """

    def __init__(
        self,
        factory: BackboneFactory,
        operators: GraphOperators,
        inputs: Tensor,
        *,
        num_classes: int,
        settings: ReplicaSettings,
        loss_asks: Asked = EVERYWHERE,
        score_asks: Asked = EVERYWHERE,
    ) -> None:
        torch.manual_seed(settings.seed)
        self._module: nn.Module = factory(inputs.shape[1], num_classes).to(operators.device)
        self._loss_asks, self._score_asks = loss_asks, score_asks
        self._inputs, self._edge_index = inputs, operators.edge_index
        self._optimizer = torch.optim.Adam(
            self._module.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )
        self._best = copy.deepcopy(self._module.state_dict())

    @property
    def replicas(self) -> int:
        """How many."""
        return 1

    @property
    def device(self) -> torch.device:
        """Where they are."""
        return self._inputs.device

    @property
    def generators(self) -> None:
        """Not known: a module may draw from anywhere, or decide on the processor what it does next."""
        return

    def evaluate(self) -> Tensor:
        """Logits [1, classes, nodes] of all nodes, as in prediction."""
        self._module.eval()
        with torch.no_grad():
            return self._logits()

    def scored(self) -> Tensor:
        """Of these, those for the score."""
        return self._score_asks.pick(self.evaluate())

    def passes(self) -> tuple[Tensor, Tensor]:
        """Logits as in training, and as in prediction."""
        evaluated = self.scored()
        self._module.train()
        return self._loss_asks.pick(self._logits()), evaluated

    def step(self) -> None:
        """Move along the gradient."""
        self._optimizer.step()
        self._optimizer.zero_grad()

    def keep(self, replicas: Tensor) -> None:
        """Remember the present weights if the replica is marked."""
        if bool(replicas.any()):
            self._best = copy.deepcopy(self._module.state_dict())

    def restore(self) -> None:
        """Go back to the weights that were kept."""
        self._module.load_state_dict(self._best)

    def state(self) -> None:
        """Not known: a module may keep anything anywhere."""
        return

    def resume(self, state: Mapping[str, Tensor]) -> None:
        """Nothing is ever saved."""
        raise FitError("a module has no state that could be gone on from")

    def all_weights(self) -> list[dict[str, Tensor]]:
        """The weights by name."""
        return [{name: tensor.detach().cpu() for name, tensor in self._module.state_dict().items()}]

    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Use these weights."""
        self._module.load_state_dict(dict(weights))

    def _logits(self) -> Tensor:
        logits: Tensor = self._module(self._inputs, self._edge_index)
        return logits.T.unsqueeze(0)
