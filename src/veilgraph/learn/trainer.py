"""Full-batch training with selection on randomized labels."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn


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


def train(
    model: nn.Module,
    inputs: Tensor,
    edge_index: Tensor,
    *,
    loss: Callable[[Tensor], Tensor],
    score: Callable[[Tensor], Tensor],
    epochs: int,
    learning_rate: float,
    weight_decay: float,
) -> LearningCurve:
    """Adam on `loss(logits)`; the weights of the epoch with the best `score(logits)` stay in the model."""
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate, weight_decay=weight_decay)
    curve = LearningCurve()
    best = copy.deepcopy(model.state_dict())
    for epoch in range(epochs):
        model.train()
        optimizer.zero_grad()
        objective = loss(model(inputs, edge_index))
        objective.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        model.eval()
        with torch.no_grad():
            curve.validation_score.append(float(score(model(inputs, edge_index))))
        curve.train_loss.append(float(objective.detach()))
        if curve.validation_score[epoch] > curve.validation_score[curve.selected_epoch] or epoch == 0:
            curve.selected_epoch = epoch
            best = copy.deepcopy(model.state_dict())
    model.load_state_dict(best)
    model.eval()
    return curve
