"""Adam for many replicas at once, with a learning rate and weight decay for each replica."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

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
