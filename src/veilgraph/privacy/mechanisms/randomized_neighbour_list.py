"""A neighbour list by randomized response: for every person, whether they are in the list."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import BudgetError, CampaignError, FitError
from veilgraph.privacy.epsilon import NOT_PRIVATE, ListLoss, ListRelation
from veilgraph.privacy.mechanisms.base import Report
from veilgraph.privacy.mechanisms.grr import GRR
from veilgraph.privacy.mechanisms.neighbourhood import Sums, check_sums
from veilgraph.privacy.mechanisms.random_source import RandomIntegers
from veilgraph.privacy.mechanisms.wire import BitReports, chance_text, check_integers, read_parts
from veilgraph.privacy.strict_json import expect_whole, number_text

MOST_PEOPLE = 50_000
"""Largest number of people: a server holds a bit for every two of them, 312 MB."""

_BLOCK = 2**24
"""Random words that are drawn at once."""


@dataclass(frozen=True)
class RandomizedNeighbourList(BitReports):
    r"""Report for every person, by randomized response, whether they are in the list (Qin et al., CCS 2017).

    .. math:: P(r_j = a_j) = e^\epsilon / (1 + e^\epsilon), \qquad a_j = 1 \text{ if } j \in N \text{, else } 0

    A person is named by chance with probability 1 / (1 + e^epsilon). The server takes a pair as neighbours if both ends
    name each other. So there are n / (1 + e^epsilon)^2 false neighbours for each person: few, where epsilon is above
    ln(n) / 2. Then the graph is nearly as good as the true one.

    One entry changes one bit. So the guarantee for **one entry** of a list is exactly epsilon, however long the list
    is. Two lists that differ in everybody differ in n bits: whole lists are not protected, and none is stated.

    Where other mechanisms take sums of beliefs, this one takes the list itself: a column for each person, 0 for one who
    is not in it. Many answers are an array [lists, ceil(n / 8)] of bytes, person 0 in the lowest bit of the first.

    What is sent are these bytes as text, in base64url without padding. So all answers have one length, n / 6 characters
    and up to 2 more: who watches the network learns nothing of how many neighbours a person has.

    Args:
        num_people: n, the declared number of people.
        epsilon: the requested budget of one entry.

    >>> answer = RandomizedNeighbourList(num_people=2708, epsilon=4.0)
    >>> round(answer.list_loss.one_entry, 9), answer.list_loss.any_lists
    (4.0, inf)
    >>> round(answer.false_neighbours, 2)
    0.88
    >>> few = RandomizedNeighbourList(num_people=3, epsilon=40.0)
    >>> few.decode(few.randomize(np.array([[0, 1, 1], [0, 0, 0]]), rng=np.random.default_rng(0)))
    ['Bg', 'AA']
    """

    wire_name: ClassVar[str] = "randomized_neighbour_list"
    asks_for_lists: ClassVar[bool] = True

    num_people: int
    epsilon: float
    bit: GRR = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 2 <= self.num_people <= MOST_PEOPLE:
            raise BudgetError(
                f"there are {self.num_people:,} people: lists are reported among 2 to {MOST_PEOPLE:,}; among more, "
                "answers in waves (histogram, class) do not grow with their number"
            )
        object.__setattr__(self, "bit", GRR(2, self.epsilon))

    @property
    def num_columns(self) -> int:
        """n: a list has a column for each person."""
        return self.num_people

    @property
    def list_loss(self) -> ListLoss:
        """Exact epsilon of one entry; whole lists are not protected."""
        return ListLoss(any_lists=NOT_PRIVATE, one_entry=self.bit.table.epsilon)

    @property
    def false_neighbours(self) -> float:
        """How many false neighbours a person has on average, where a pair counts if both ends name each other."""
        return self.num_people * float(self.bit.channel.other) ** 2

    def randomize(self, sums: NDArray[Any], *, rng: RandomIntegers) -> NDArray[Any]:
        """Draw one answer for each list [lists, people]; return bits, [lists, bytes]."""
        check_sums(sums, self.num_people)
        drawn, step = self.blank(len(sums)), max(1, _BLOCK // self.num_people)
        for start in range(0, len(sums), step):
            listed = (sums[start : start + step] > 0).astype(np.int8)
            drawn[start : start + step] = np.packbits(self.bit.randomize(listed, rng=rng), axis=1, bitorder="little")
        return drawn

    @property
    def document(self) -> dict[str, Any]:
        """Part of the campaign document."""
        table = {"people": self.num_people, "table": self.bit.table.document}
        return {"mechanism": self.wire_name, "epsilon": number_text(self.epsilon), **table}

    @classmethod
    def read(cls, stated: object, where: str, num_classes: int) -> Self:
        """Read the part of a document; refuse integers that do not follow from its epsilon."""
        parts, epsilon = read_parts(stated, {"people", "table"}, where)
        answer = cls(expect_whole(parts["people"], f"{where}.people", 2, MOST_PEOPLE), epsilon)
        check_integers(answer, parts, where)
        return answer

    def check_asked(self, *, classes: int, people: int) -> None:
        """Refuse a campaign with another number of people."""
        if self.num_people != people:
            raise CampaignError(f"lists are of {self.num_people} people, and the series has {people}")

    @property
    def title(self) -> str:
        """What is asked, and what is protected, in a few words."""
        return f"the list of neighbours, randomized, epsilon {self.epsilon:g} for one entry of it"

    @property
    def asked_in_words(self) -> str:
        """What is asked, in words for people."""
        return f"of each of {self.num_people:,} people, whether they are in one's list"

    def method_in_words(self, question: str) -> str:
        """Say to people how a device randomizes the answer about the people in a list."""
        strangers = float(self.bit.channel.other) * self.num_people
        return (
            f"A device says of each of {self.num_people:,} people whether they are among {question}. Each who is among "
            f"them is named with {chance_text(self.bit.channel)}, and some {strangers:,.0f} of the others by chance. "
            "Two people who name each other are taken to know each other. The list itself never leaves the device."
        )

    def class_columns(self, reports: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Refuse: a list tells nothing about classes."""
        raise FitError("answers by RandomizedNeighbourList cannot be read: use a histogram or a class")

    def reports(self) -> Iterator[Report]:
        """Iterate over all sets of people, as ascending numbers; a few people only."""
        return itertools.chain.from_iterable(
            itertools.combinations(range(self.num_people), size) for size in range(self.num_people + 1)
        )

    def probability(self, report: Report, sums: Sums) -> Fraction:
        """Return the product over all people."""
        wrong = sum((person in report) != (count > 0) for person, count in enumerate(sums))
        keep, other = self.bit.channel.keep, self.bit.channel.other
        return keep ** (self.num_people - wrong) * other**wrong

    def log_likelihood(self, reports: NDArray[Any], sums: Sums) -> NDArray[np.float64]:
        """Return the log of `probability` for many answers at once, [reports]."""
        listed = np.packbits(np.asarray(sums) > 0, bitorder="little")
        wrong = np.unpackbits(np.asarray(reports) ^ listed, axis=1).sum(axis=1, dtype=np.int64)
        keep, other = float(self.bit.channel.keep), float(self.bit.channel.other)
        if other == 0:
            return np.where(wrong == 0, 0.0, -math.inf)
        return np.asarray((self.num_people - wrong) * math.log(keep) + wrong * math.log(other))

    def extreme_sums(self, relation: ListRelation) -> tuple[Sums, Sums]:
        """Return an empty list and one with a single entry, or with everybody."""
        empty = (0,) * self.num_people
        return empty, (1,) * self.num_people if relation is ListRelation.ANY_LISTS else (1, *empty[1:])
