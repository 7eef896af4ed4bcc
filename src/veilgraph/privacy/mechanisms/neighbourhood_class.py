"""The class that the neighbours point to, reported as a set of classes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from veilgraph.privacy.epsilon import ListLoss, ListRelation
from veilgraph.privacy.mechanisms.base import Report
from veilgraph.privacy.mechanisms.neighbourhood import ADDED_IN_WORDS, Sums, check_classes, check_sums
from veilgraph.privacy.mechanisms.random_source import RandomIntegers
from veilgraph.privacy.mechanisms.subset_selection import SubsetSelection, SubsetTable
from veilgraph.privacy.mechanisms.wire import SetReports, chance_text


@dataclass(frozen=True)
class NeighbourhoodClass(SetReports):
    r"""Report the class whose published beliefs add up to most over the neighbours, by subset selection.

    .. math:: \hat c = \arg\max_c \sum_{j \in N} b_j(c), \qquad r = \mathrm{SS}_\epsilon(\hat c)

    Of several such classes the device draws one, uniformly; an empty list therefore names a uniform class. Whatever a
    list is, the answer depends on it through one class alone. So the guarantee for **any two lists**, of any length, is
    exactly epsilon; one entry can change the class, and costs the same.

    Many answers are bit masks, [people, ceil(k / 64)], as those of `SubsetSelection`.

    Args:
        num_classes: k, the declared number of classes.
        epsilon: the requested budget of one wave.
        size: number of classes in a set; None chooses the one that carries most information.

    >>> answer = NeighbourhoodClass(num_classes=4, epsilon=2.0)
    >>> round(answer.list_loss.any_lists, 9), round(answer.list_loss.one_relationship, 9)
    (2.0, 4.0)
    >>> answer.randomize(np.array([[120, 0, 0, 60]]), rng=np.random.default_rng(0)).shape
    (1, 1)
    """

    wire_name: ClassVar[str] = "neighbourhood_class"
    asks_for_lists: ClassVar[bool] = False

    num_classes: int
    epsilon: float
    size: int | None = None
    sets: SubsetSelection = field(init=False, repr=False, compare=False)
    domain_size: int = field(init=False, repr=False, compare=False)
    table: SubsetTable = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        sets = SubsetSelection(self.num_classes, self.epsilon, self.size)
        object.__setattr__(self, "sets", sets)
        object.__setattr__(self, "domain_size", sets.domain_size)
        object.__setattr__(self, "table", sets.table)
        object.__setattr__(self, "size", sets.set_size)

    @property
    def num_columns(self) -> int:
        """k: sums have a column for each class."""
        return self.num_classes

    @property
    def list_loss(self) -> ListLoss:
        """Exact epsilon; for any two lists it is that of one entry."""
        epsilon = self.sets.privacy_loss.user_level
        return ListLoss(any_lists=epsilon, one_entry=epsilon)

    def randomize(self, sums: NDArray[Any], *, rng: RandomIntegers) -> NDArray[Any]:
        """Draw one set of classes for each row of `sums`, as bit masks [people, words]."""
        check_sums(sums, self.num_classes)
        ranks = rng.integers(0, 2**32, size=sums.size).reshape(sums.shape)
        return self.sets.randomize(_first_of_the_largest(sums, ranks), rng=rng)

    def class_columns(self, reports: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return whether each set names a class [answers, classes, 1], and nothing about whole answers."""
        return self.named(reports)[:, :, None].astype(np.float64), np.zeros((len(reports), 0))

    def reports(self) -> Iterator[Report]:
        """Iterate over all sets of classes."""
        return self.sets.reports()

    def probability(self, report: Report, sums: Sums) -> Fraction:
        """Return the mean over the classes that the neighbours point to."""
        pointed = [code for code, count in enumerate(sums) if count == max(sums)]
        total = sum((self.sets.probability(report, (code,)) for code in pointed), Fraction(0))
        return total / len(pointed)

    def log_likelihood(self, reports: NDArray[Any], sums: Sums) -> NDArray[np.float64]:
        """Return the log of `probability` for bit masks, [reports]."""
        pointed = [code for code, count in enumerate(sums) if count == max(sums)]
        chances = [np.exp(self.sets.log_likelihood(reports, (code,))) for code in pointed]
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.mean(chances, axis=0)))

    def extreme_sums(self, relation: ListRelation) -> tuple[Sums, Sums]:
        """Return two lists that point to different classes; for one entry, one of them has an entry more.

        Two entries of class 1 and one of class 0 point to 1; the second entry of 0 makes a tie, so a list of that kind
        cannot attain the epsilon. One neighbour who is half 0, half 1, and leans to 0, can be outvoted by one entry.
        """
        rest = (0,) * (self.num_classes - 2)
        return ((2, 1, *rest), (2, 4, *rest)) if relation is ListRelation.ONE_ENTRY else ((3, 0, *rest), (0, 3, *rest))

    def check_asked(self, *, classes: int, people: int) -> None:
        """Refuse a campaign with another number of classes."""
        check_classes(self.num_classes, classes)

    @property
    def title(self) -> str:
        """What is asked, and what is protected, in a few words.

        >>> NeighbourhoodClass(4, 2.0).title
        'the class of the neighbours, epsilon 2 for any two lists'
        """
        return f"the class of the neighbours, epsilon {self.epsilon:g} for any two lists"

    @property
    def asked_in_words(self) -> str:
        """What is asked, in words for people."""
        return "the class that the people in one's list point to"

    def method_in_words(self, question: str) -> str:
        """Say to people how a device randomizes the answer about the people in a list."""
        named = f"{self.set_size} of {self.num_classes} classes"
        return (
            f"{ADDED_IN_WORDS} It names {named}; the one that {question} point to is among them with "
            f"{chance_text(self.sets.channel)}."
        )


def _first_of_the_largest(sums: NDArray[Any], ranks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the class with the largest sum [people]; of several, the one with the largest random rank.

    Equal ranks, one pair in 2**32, go to the first class. This is before the randomizer, so that it changes no epsilon.
    """
    largest = sums == sums.max(axis=1, keepdims=True)
    return np.asarray(np.where(largest, ranks, -1).argmax(axis=1))
