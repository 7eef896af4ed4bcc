"""One wave of answers about private neighbour lists, as the server holds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import DomainError, GraphError
from veilgraph.privacy.belief_table import BeliefTable
from veilgraph.privacy.epsilon import ListLoss
from veilgraph.privacy.mechanisms import NeighbourMechanism


@dataclass(frozen=True, kw_only=True, eq=False)
class WaveAnswers:
    """The answers of a wave, with the table that was published before it. The lists themselves stay on devices.

    Attributes:
        mechanism: mechanism that randomized the answers.
        table: beliefs that devices added up over their neighbours; None for randomized lists, which need none.
        answers: `[nodes, ...]`, as the mechanism reports them.
        has_answer: `[nodes]`, which rows of `answers` are reports.
    """

    mechanism: NeighbourMechanism
    table: BeliefTable | None
    answers: NDArray[Any] = field(repr=False)
    has_answer: NDArray[np.bool_] = field(repr=False)

    def __post_init__(self) -> None:
        nodes, columns = self.num_people, self.mechanism.num_columns
        if len(self.answers) != nodes or self.has_answer.shape != (nodes,):
            raise GraphError(
                f"a wave has {len(self.answers)} answers and a mask of shape {self.has_answer.shape}: "
                f"there are {nodes} people"
            )
        if self.table is not None and columns != self.table.num_classes:
            raise GraphError(f"the answers are about {columns} classes, the table has {self.table.num_classes}")
        try:
            self.mechanism.check_reports(self.answers[self.has_answer])
        except DomainError as error:
            raise GraphError(str(error)) from None

    @property
    def num_people(self) -> int:
        """Number of people who may answer: rows of the table, or columns of a list."""
        return self.mechanism.num_columns if self.table is None else len(self.table)


def most_answered(waves: Sequence[WaveAnswers]) -> list[NeighbourMechanism]:
    """Return the mechanisms of the waves that one person answered, of the person who spent most on one entry.

    Where each person answers one wave of several, a person's answers cost one wave.
    """
    if not waves:
        return []
    patterns = np.unique(np.stack([wave.has_answer for wave in waves], axis=1), axis=0)
    answered = [[wave.mechanism for wave, has in zip(waves, row, strict=True) if has] for row in patterns]
    return max(answered, key=lambda each: ListLoss.sum_of(one.list_loss for one in each).one_entry)
