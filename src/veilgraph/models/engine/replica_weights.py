"""Weights of networks that are trained together: one tensor for all, its gradient over processes, and its Adam."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from veilgraph.models.engine.backbones import ReplicaSettings
from veilgraph.models.engine.replica_dropout import ReplicaDropout
from veilgraph.models.saved_state import check_layout
from veilgraph.reconstruct.operators import GraphOperators

_BETA_1, _BETA_2, _EPSILON = 0.9, 0.999, 1e-8


class ReplicaAdam:
    r"""Adam (Kingma and Ba 2015) on weights with one row for each replica.

    .. math:: \theta \leftarrow \theta - \eta_r \frac{m / (1 - \beta_1^t)}{\sqrt{v / (1 - \beta_2^t)} + 10^{-8}}

    The optimizer of torch has one learning rate for a tensor; replicas that are trained together may differ in it.

    Args:
        weights: [replicas, parameters], changed in place.
        learning_rates: eta of each replica.
        weight_decays: weight of the L2 penalty of each replica.

    >>> weights = torch.zeros(2, 1, requires_grad=True)
    >>> optimizer = ReplicaAdam(weights, learning_rates=[0.1, 0.2], weight_decays=[0.0, 0.0])
    >>> weights.sum().backward()
    >>> optimizer.step()
    >>> [round(weight.item(), 4) for weight in weights]  # the first step is one learning rate long
    [-0.1, -0.2]
    """

    def __init__(self, weights: Tensor, *, learning_rates: list[float], weight_decays: list[float]) -> None:
        self.weights = weights
        self._rates = torch.tensor(learning_rates, device=weights.device).unsqueeze(1)
        self._decays = torch.tensor(weight_decays, device=weights.device).unsqueeze(1)
        self._decaying = any(weight_decays)
        self._mean, self._square = torch.zeros_like(weights), torch.zeros_like(weights)
        self._steps = torch.zeros((), device=weights.device)

    @property
    def state(self) -> dict[str, Tensor]:
        """Everything that the next step depends on, besides the weights and their gradient."""
        return {"adam.mean": self._mean, "adam.square": self._square, "adam.steps": self._steps}

    def resume(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a state."""
        for name, tensor in self.state.items():
            tensor.copy_(state[name])

    @torch.no_grad()
    def step(self) -> None:
        """Apply the gradient and clear it."""
        gradient, self.weights.grad = self.weights.grad, None
        if gradient is None:
            raise RuntimeError("there is no gradient: call backward() first")
        if self._decaying:
            gradient = gradient + self._decays * self.weights
        self._steps.add_(1)
        self._mean.lerp_(gradient, 1 - _BETA_1)
        self._square.mul_(_BETA_2).addcmul_(gradient, gradient, value=1 - _BETA_2)
        scale = (self._square / (1 - torch.pow(_BETA_2, self._steps))).sqrt_().add_(_EPSILON)
        self.weights.sub_(self._rates / (1 - torch.pow(_BETA_1, self._steps)) * self._mean / scale)


class ReplicaWeights:
    """Weights of R replicas with their optimizer, their dropout masks and the best weights so far.

    All processes start with the weights of the first. They share one objective, and each has the gradient of its own
    nodes' terms, so that a step begins with the sum of the gradients.

    Args:
        initial: initial weights, [replicas, parameters].
        shapes: name and shape of each part of a replica's weights, in their order.
        settings: settings of each replica.
        operators: matrices of the graph.

    Attributes:
        weights: all parameters, [replicas, parameters].
        dropout: dropout masks of the replicas.
    """

    def __init__(
        self,
        initial: Tensor,
        shapes: Mapping[str, tuple[int, ...]],
        settings: Sequence[ReplicaSettings],
        operators: GraphOperators,
    ) -> None:
        self._shapes, self._communicator = shapes, operators.communicator
        here = initial if self._communicator.is_first else torch.zeros_like(initial)
        self.weights = nn.Parameter(self._communicator.all_reduce_sum(here.to(operators.device)))
        self._best = self.weights.detach().clone()
        self.dropout = ReplicaDropout(
            [each.dropout for each in settings],
            [each.seed for each in settings],
            operators.device,
            operators.communicator,
        )
        self._optimizer = ReplicaAdam(
            self.weights,
            learning_rates=[each.learning_rate for each in settings],
            weight_decays=[each.weight_decay for each in settings],
        )

    @property
    def replicas(self) -> int:
        """Number of replicas."""
        return len(self.weights)

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return self.weights.device

    def step(self) -> None:
        """Apply one optimizer step with the present gradient."""
        if self.weights.grad is not None:
            self.weights.grad = self._communicator.all_reduce_sum(self.weights.grad)
        self._optimizer.step()

    def state(self) -> dict[str, Tensor]:
        """Return everything that the next epoch depends on, by name."""
        return {"weights": self.weights.detach(), "best": self._best, **self._optimizer.state, **self.dropout.state}

    def resume(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a state that `state` returned."""
        with torch.no_grad():
            self.weights.copy_(state["weights"])
        self._best.copy_(state["best"])
        self._optimizer.resume(state)
        self.dropout.resume(state)

    def keep_best(self, improved: Tensor) -> None:
        """Remember the present weights of the replicas that improved, a mask [replicas]."""
        self._best.copy_(torch.where(improved.unsqueeze(1), self.weights.detach(), self._best))

    def restore_best(self) -> None:
        """Return to the weights that `keep_best` remembered."""
        with torch.no_grad():
            self.weights.copy_(self._best)

    def weights_by_replica(self) -> list[dict[str, Tensor]]:
        """Return the weights of each replica by name, on the CPU."""
        parts = self.parts(self.weights.detach().cpu())
        return [{name: part[replica] for name, part in parts.items()} for replica in range(self.replicas)]

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Set the weights of every replica; refuse weights of another network."""
        check_layout(weights, self.weights_by_replica()[0])
        flat = torch.cat([weights[name].flatten() for name in self._shapes])
        with torch.no_grad():
            self.weights.copy_(flat.to(self.weights.device).expand_as(self.weights))

    def parts(self, weights: Tensor) -> dict[str, Tensor]:
        """Return the parts of weights [replicas, parameters] by name, each [replicas, *shape]."""
        parts = torch.split(weights, [math.prod(shape) for shape in self._shapes.values()], dim=1)
        return {name: part.view(-1, *shape) for (name, shape), part in zip(self._shapes.items(), parts, strict=True)}
