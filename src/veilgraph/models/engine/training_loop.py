"""Full-batch training with model selection on randomized labels, for many replicas at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from veilgraph.errors import FitError, RunError
from veilgraph.models.checkpoint import Checkpoint
from veilgraph.models.engine.cuda_graphs import run_epochs


@dataclass(kw_only=True)
class LearningCurve:
    """Losses and scores of every epoch.

    Attributes:
        train_loss: the whole objective, on training nodes.
        validation_score: mean log-likelihood of the validation nodes' randomized labels; higher is better.
        selected_epoch: index of the epoch whose weights are used.
    """

    train_loss: list[float] = field(default_factory=list)
    validation_score: list[float] = field(default_factory=list)
    selected_epoch: int = 0


class Networks(Protocol):
    """Replicas that are trained together. Logits are [replicas, classes, nodes]."""

    @property
    def replicas(self) -> int:
        """Number of replicas."""

    @property
    def device(self) -> torch.device:
        """Device of the weights."""

    @property
    def generators(self) -> Sequence[torch.Generator] | None:
        """All generators that an epoch uses; None if an epoch may do different work each time."""

    def epoch_logits(self) -> tuple[Tensor, Tensor]:
        """Return logits of the loss nodes, with a gradient, and of the score nodes, without."""

    def score_logits(self) -> Tensor:
        """Return logits of the score nodes alone."""

    def prediction_logits(self) -> Tensor:
        """Return logits of all nodes."""

    def step(self) -> None:
        """Apply one optimizer step with the present gradient."""

    def keep_best(self, improved: Tensor) -> None:
        """Remember the present weights of the replicas that improved, a mask [replicas]."""

    def restore_best(self) -> None:
        """Return to the weights that `keep_best` remembered."""

    def state(self) -> dict[str, Tensor] | None:
        """Return everything that the next epoch depends on; None if it is not known."""

    def resume(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a state that `state` returned."""

    def weights_by_replica(self) -> list[dict[str, Tensor]]:
        """Return the weights of each replica by name, on the CPU."""

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Set the weights."""


class Training:
    """A training that was started. On a GPU it may still be running.

    Args:
        record: losses and scores of every epoch, on the device.
        cuda_graph: the CUDA graph of an epoch, which must exist until the device is finished.
    """

    def __init__(self, record: _EpochRecord, cuda_graph: object) -> None:
        self._record, self._cuda_graph = record, cuda_graph

    def curves(self) -> list[LearningCurve]:
        """Wait for the device, and return the learning curve of each replica."""
        return self._record.curves()


def train(
    networks: Networks,
    *,
    loss: Callable[[Tensor], Tensor],
    score: Callable[[Tensor], Tensor],
    epochs: int,
    checkpoint: Checkpoint | None = None,
) -> Training:
    """Minimise each replica's loss, and restore the weights of the epoch with its best score.

    The weights after an epoch are scored in the forward pass of the next epoch. Nothing is read back from the device,
    so that a GPU can replay a captured epoch while the CPU prepares the next batch. A checkpoint is an exception.

    Args:
        networks: the replicas.
        loss: function from logits of the loss nodes to losses [replicas].
        score: function from logits of the score nodes to scores [replicas].
        epochs: number of epochs.
        checkpoint: state to continue from, if it has one, and the file for later states.
    """
    record = _EpochRecord(networks.replicas, epochs, networks.device)
    resumed_epochs = _resume(networks, record, checkpoint)

    def epoch() -> None:
        loss_logits, score_logits = networks.epoch_logits()
        networks.keep_best(record.add_scores(score(score_logits)))
        losses = loss(loss_logits)
        losses.sum().backward()  # type: ignore[no-untyped-call]
        networks.step()
        record.add_losses(losses.detach())

    def write_checkpoint(done: int) -> None:
        if checkpoint is None or (resumed_epochs + done) % checkpoint.every:
            return
        if (state := networks.state()) is not None:
            checkpoint.write(state | record.state)

    cuda_graph = run_epochs(
        epoch,
        epochs - resumed_epochs,
        device=networks.device,
        generators=networks.generators,
        after_epoch=write_checkpoint,
    )
    networks.keep_best(record.add_scores(score(networks.score_logits())))
    networks.restore_best()
    return Training(record, cuda_graph)


def _resume(networks: Networks, record: _EpochRecord, checkpoint: Checkpoint | None) -> int:
    """Continue from the state of a checkpoint, if it has one; return the number of epochs that it has seen."""
    if checkpoint is None or checkpoint.saved_state is None:
        return 0
    state = checkpoint.state_like((networks.state() or {}) | record.state)
    record.resume(state)
    try:
        networks.resume(state)
    except RuntimeError as error:  # of a generator
        raise RunError("the checkpoint holds no state of a random generator: remove it to start again") from error
    return checkpoint.epochs


class _EpochRecord:
    """Losses and scores of every epoch and the best epoch, on the device and changed in place.

    Args:
        replicas: number of replicas.
        epochs: number of epochs.
        device: device of the training.
    """

    def __init__(self, replicas: int, epochs: int, device: torch.device) -> None:
        self._best_scores = torch.full((replicas,), -math.inf, device=device)
        self._selected_epochs = torch.zeros(replicas, dtype=torch.int64, device=device)
        self._losses = torch.zeros(replicas, epochs + 1, device=device)
        self._scores = torch.zeros(replicas, epochs + 1, device=device)
        self._steps = torch.zeros(1, dtype=torch.int64, device=device)

    @property
    def state(self) -> dict[str, Tensor]:
        """All tensors, by name."""
        return {
            "record.best": self._best_scores,
            "record.selected": self._selected_epochs,
            "record.losses": self._losses,
            "record.scores": self._scores,
            "record.steps": self._steps,
        }

    def resume(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a state; refuse one of more epochs than there are."""
        for name, tensor in self.state.items():
            tensor.copy_(state[name])
        epochs, selected = self._losses.shape[1] - 1, self._selected_epochs.tolist()
        if int(self._steps) > epochs or not all(0 <= epoch < epochs for epoch in selected):
            raise RunError(f"the checkpoint is of more than {epochs} epochs: remove it to start again")

    def add_scores(self, scores: Tensor) -> Tensor:
        """Record the scores of the present weights; return a mask of the replicas that improved.

        Initial weights never count as the best ones: they have seen no report.
        """
        self._scores.index_copy_(1, self._steps, scores.unsqueeze(1))
        improved = (scores > self._best_scores) & (self._steps > 0)
        self._best_scores.copy_(torch.where(improved, scores, self._best_scores))
        self._selected_epochs.copy_(torch.where(improved, self._steps - 1, self._selected_epochs))
        return improved

    def add_losses(self, losses: Tensor) -> None:
        """Record the losses of a step that was made."""
        self._losses.index_copy_(1, self._steps, losses.unsqueeze(1).to(self._losses))
        self._steps.add_(1)

    def curves(self) -> list[LearningCurve]:
        """Wait for the device, and return the learning curve of each replica."""
        if not bool((self._best_scores > -math.inf).all()):
            raise FitError("training diverged: no epoch has a score that is a number; choose a lower learning_rate")
        losses, scores = self._losses[:, :-1].tolist(), self._scores[:, 1:].tolist()
        return [
            LearningCurve(train_loss=train_loss, validation_score=validation_score, selected_epoch=selected_epoch)
            for train_loss, validation_score, selected_epoch in zip(
                losses, scores, self._selected_epochs.tolist(), strict=True
            )
        ]
