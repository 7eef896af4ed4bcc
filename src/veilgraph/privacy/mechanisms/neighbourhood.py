"""Answers about a neighbour list: the protocol of their mechanisms.

A device looks up what is published about its own neighbours, a `BeliefTable`, and adds it up: one integer for each
class. The sum stays on the device. What leaves it is an answer by one of these mechanisms. `RandomizedNeighbourList`
looks nothing up: its sum is the list itself, one integer for each person.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from fractions import Fraction
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import CampaignError, DomainError
from veilgraph.privacy.epsilon import ListLoss, ListRelation
from veilgraph.privacy.mechanisms.base import Report
from veilgraph.privacy.mechanisms.random_source import RandomIntegers
from veilgraph.privacy.mechanisms.wire import PackedForm

Sums = tuple[int, ...]
"""Published beliefs of a person's neighbours, added up for each class, in units of 1 / scale; or the list itself."""


class NeighbourMechanism(PackedForm, Hashable, Protocol):
    """A randomizer of what a neighbour list adds up to, with its privacy loss.

    A neighbour adds whole numbers of at least 0, which sum to `scale`, or nothing if nothing is known about them.

    Attributes:
        asks_for_lists: whether the answer is the list itself. Then no table is published; the server learns a graph.
    """

    asks_for_lists: ClassVar[bool]

    @property
    def num_columns(self) -> int:
        """Number of columns of the sums: classes, or people."""

    @property
    def epsilon(self) -> float:
        """Requested budget of one wave."""

    @property
    def list_loss(self) -> ListLoss:
        """Exact epsilon under each relation between lists, computed from the integers that `randomize` compares."""

    def randomize(self, sums: NDArray[Any], *, rng: RandomIntegers) -> NDArray[Any]:
        """Draw one answer for each row of `sums` [lists, columns], independently."""

    def reports(self) -> Iterator[Report]:
        """Iterate over all possible answers; small domains only."""

    def probability(self, report: Report, sums: Sums) -> Fraction:
        """Return the exact probability of an answer given the sums of a list."""

    def log_likelihood(self, reports: NDArray[Any], sums: Sums) -> NDArray[np.float64]:
        """Return the log-probability of each row of `reports` given the sums of a list, [reports]."""

    def extreme_sums(self, relation: ListRelation) -> tuple[Sums, Sums]:
        """Return the sums of two lists that attain the epsilon under a relation about one person's list."""

    @classmethod
    def read(cls, stated: object, where: str, num_classes: int) -> Self:
        """Read the part of a document; refuse integers that do not follow from its epsilon."""

    def check_asked(self, *, classes: int, people: int) -> None:
        """Refuse a campaign with another number of classes or people."""

    @property
    def title(self) -> str:
        """What is asked, and what is protected, in a few words."""

    @property
    def asked_in_words(self) -> str:
        """What is asked, in words for people."""

    def check_reports(self, reports: NDArray[Any]) -> None:
        """Refuse an array whose rows are not possible answers."""

    def class_columns(self, reports: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the inputs of a network from answers; refuse answers that are not about classes.

        Returns:
            Columns [answers, classes, columns], the share of each class last; and columns of whole answers
            [answers, totals].
        """


ADDED_IN_WORDS = (
    "A device looks the people in its list up in what is published, and adds it up. The list never leaves it."
)


def check_classes(asked: int, classes: int) -> None:
    """Refuse an answer about another number of classes than that of the campaign."""
    if asked != classes:
        raise CampaignError(f"an answer is about {asked} classes, the label has {classes}")


def check_sums(sums: NDArray[Any], num_columns: int) -> None:
    """Refuse sums that are not whole numbers of at least 0, [lists, columns].

    >>> check_sums(np.array([[3, -1]]), 2)
    Traceback (most recent call last):
    veilgraph.errors.DomainError: row 0: beliefs of neighbours add up to numbers of at least 0 (value withheld)
    """
    if sums.ndim != 2 or sums.shape[1] != num_columns:
        raise DomainError(f"sums have shape {sums.shape}: expected one row per person and {num_columns} columns")
    if not np.issubdtype(sums.dtype, np.integer):
        raise DomainError(f"sums of neighbours are {sums.dtype}: published beliefs are whole numbers")
    if (sums < 0).any():
        row = int(np.argwhere(sums < 0)[0][0])
        raise DomainError(f"row {row}: beliefs of neighbours add up to numbers of at least 0 (value withheld)")
