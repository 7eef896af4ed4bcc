"""Full-batch training with selection on randomized labels, of one network or of many at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from veilgraph.errors import FitError


@dataclass(kw_only=True)
class LearningCurve:
    """What happened in each epoch.

    Attributes:
        train_loss: the whole objective, on training nodes.
        validation_score: mean log-likelihood of the validation nodes' randomized labels; higher is better.
        selected_epoch: whose weights are kept.
    """

    train_loss: list[float] = field(default_factory=list)
    validation_score: list[float] = field(default_factory=list)
    selected_epoch: int = 0


class Networks(Protocol):
    """Replicas that are trained together. Logits are [replicas, classes, nodes]."""

    def passes(self) -> tuple[Tensor, Tensor]:
        """Logits for the loss, and for the score."""
        ...

    def evaluate(self) -> Tensor:
        """Logits for the score or for prediction alone."""
        ...

    def step(self) -> None:
        """Move along the gradient."""
        ...

    def keep(self, replicas: Tensor) -> None:
        """Remember the present weights of the replicas that are marked."""
        ...

    def restore(self) -> None:
        """Go back to the weights that were kept."""
        ...

    def weights_of(self, replica: int) -> dict[str, Tensor]:
        """One replica's weights by name."""
        ...

    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Use these weights."""
        ...


def train(
    networks: Networks, *, loss: Callable[[Tensor], Tensor], score: Callable[[Tensor], Tensor], epochs: int
) -> list[LearningCurve]:
    """Minimise each replica's `loss(logits)`; each keeps the weights of the epoch with its best `score(logits)`.

    The weights that an epoch leads to are scored in the pass that the next epoch needs anyway. Nothing is read back
    from the device before the end.
    """
    losses: list[Tensor] = []
    scores: list[Tensor] = []
    best, selected = torch.tensor(-math.inf), torch.tensor(0)
    for epoch in range(epochs + 1):
        logits, evaluated = networks.passes() if epoch < epochs else (None, networks.evaluate())
        if epoch > 0:
            scores.append(score(evaluated))
            better = scores[-1] > best.to(scores[-1].device)
            best = torch.where(better, scores[-1], best.to(scores[-1].device))
            selected = torch.where(better, epoch - 1, selected.to(better.device))
            networks.keep(better)
        if logits is not None:
            objective = loss(logits)
            objective.sum().backward()  # type: ignore[no-untyped-call]
            losses.append(objective.detach())
            networks.step()
    if not bool((best > -math.inf).all()):
        raise FitError("training diverged: no epoch has a score that is a number; choose a lower learning_rate")
    networks.restore()
    loss_table, score_table = (torch.stack(table, dim=1).cpu() for table in (losses, scores))
    return [
        LearningCurve(train_loss=loss_row.tolist(), validation_score=score_row.tolist(), selected_epoch=int(epoch))
        for loss_row, score_row, epoch in zip(loss_table, score_table, selected.cpu(), strict=True)
    ]
