"""Full-batch training with selection on randomized labels, of one network or of many at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from veilgraph.errors import FitError
from veilgraph.models.checkpoint import Checkpoint
from veilgraph.models.engine.cuda_graphs import repeat


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

    @property
    def replicas(self) -> int:
        """How many."""
        ...

    @property
    def device(self) -> torch.device:
        """Where they are."""
        ...

    @property
    def generators(self) -> Sequence[torch.Generator] | None:
        """All that an epoch draws from, if an epoch is the same work every time; else None."""
        ...

    def passes(self) -> tuple[Tensor, Tensor]:
        """Logits for the loss and for the score, each at the nodes that it asks for."""
        ...

    def scored(self) -> Tensor:
        """Logits for the score alone."""
        ...

    def evaluate(self) -> Tensor:
        """Logits of all nodes, for prediction."""
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

    def state(self) -> dict[str, Tensor] | None:
        """All that the next epoch depends on; None if it cannot be told."""
        ...

    def resume(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        ...

    def all_weights(self) -> list[dict[str, Tensor]]:
        """Each replica's weights by name."""
        ...

    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Use these weights."""
        ...


def train(
    networks: Networks,
    *,
    loss: Callable[[Tensor], Tensor],
    score: Callable[[Tensor], Tensor],
    epochs: int,
    checkpoint: Checkpoint | None = None,
) -> Training:
    """Minimise each replica's `loss(logits)`; each keeps the weights of the epoch with its best `score(logits)`.

    The weights that an epoch leads to are scored in the pass that the next epoch needs anyway. Nothing is read back
    from the device, so that a GPU can repeat a recorded epoch while its processor gets something else ready; except for
    a checkpoint, from which training goes on if there is one. On a GPU, training may still run after the return.
    """
    record = _Record(networks.replicas, epochs, networks.device)
    done = _go_on(networks, record, checkpoint)

    def epoch() -> None:
        logits, evaluated = networks.passes()
        networks.keep(record.note_score(score(evaluated)))
        objective = loss(logits)
        objective.sum().backward()  # type: ignore[no-untyped-call]
        networks.step()
        record.note_loss(objective.detach())

    def note(more: int) -> None:
        state = networks.state() if checkpoint is not None and (done + more) % checkpoint.every == 0 else None
        if checkpoint is not None and state is not None:
            checkpoint.write(state | record.state)

    recording = repeat(epoch, epochs - done, device=networks.device, generators=networks.generators, after=note)
    networks.keep(record.note_score(score(networks.scored())))
    networks.restore()
    return Training(record, recording)


class Training:
    """A training that was started. On a GPU it may still be running.

    Args:
        record: scores and losses of every epoch, on the device.
        recording: the CUDA graph of an epoch, which must exist until the device is finished.
    """

    def __init__(self, record: _Record, recording: object) -> None:
        self._record, self._recording = record, recording

    def curves(self) -> list[LearningCurve]:
        """Wait for the device, and return the learning curve of each replica."""
        return self._record.curves()


def _go_on(networks: Networks, record: _Record, checkpoint: Checkpoint | None) -> int:
    """Take up the state that a checkpoint holds; after how many epochs it was left."""
    if checkpoint is None or checkpoint.saved is None:
        return 0
    networks.resume(checkpoint.saved)
    return record.resume(checkpoint.saved)


class _Record:
    """Scores and losses of every epoch, and which epoch was best, kept on the device and changed in place.

    Args:
        replicas: how many.
        epochs: how many there will be.
        device: where they are trained.
    """

    def __init__(self, replicas: int, epochs: int, device: torch.device) -> None:
        self.best = torch.full((replicas,), -math.inf, device=device)
        self._selected = torch.zeros(replicas, dtype=torch.int64, device=device)
        self._losses = torch.zeros(replicas, epochs + 1, device=device)
        self._scores = torch.zeros(replicas, epochs + 1, device=device)
        self._steps = torch.zeros(1, dtype=torch.int64, device=device)

    @property
    def state(self) -> dict[str, Tensor]:
        """By name."""
        return {
            "record.best": self.best,
            "record.selected": self._selected,
            "record.losses": self._losses,
            "record.scores": self._scores,
            "record.steps": self._steps,
        }

    def resume(self, state: Mapping[str, Tensor]) -> int:
        """Go on from a state; how many epochs it has seen."""
        for name, tensor in self.state.items():
            tensor.copy_(state[name])
        return int(self._steps)

    def note_score(self, scores: Tensor) -> Tensor:
        """Keep the scores of the present weights; which replicas were never better?

        Initial weights are nobody's best: they have seen no report.
        """
        self._scores.index_copy_(1, self._steps, scores.unsqueeze(1))
        better = (scores > self.best) & (self._steps > 0)
        self.best.copy_(torch.where(better, scores, self.best))
        self._selected.copy_(torch.where(better, self._steps - 1, self._selected))
        return better

    def note_loss(self, losses: Tensor) -> None:
        """Keep the losses of a step that was made."""
        self._losses.index_copy_(1, self._steps, losses.unsqueeze(1))
        self._steps.add_(1)

    def curves(self) -> list[LearningCurve]:
        """One for each replica; the device is waited for."""
        if not bool((self.best > -math.inf).all()):
            raise FitError("training diverged: no epoch has a score that is a number; choose a lower learning_rate")
        rows = zip(self._losses[:, :-1].tolist(), self._scores[:, 1:].tolist(), self._selected.tolist(), strict=True)
        return [LearningCurve(train_loss=a, validation_score=b, selected_epoch=c) for a, b, c in rows]
