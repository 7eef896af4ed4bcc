"""A neighbour list by randomized response: for every person, whether they are in the list."""

from __future__ import annotations

import base64
import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import BudgetError, CampaignError, DomainError, ReportError
from veilgraph.privacy.epsilon import NOT_PRIVATE, ListLoss, ListRelation
from veilgraph.privacy.mechanisms.base import Report
from veilgraph.privacy.mechanisms.grr import GRR
from veilgraph.privacy.mechanisms.neighbourhood import Sums, check_sums
from veilgraph.privacy.mechanisms.random_source import RandomIntegers
from veilgraph.privacy.mechanisms.wire import chance_text, check_integers, read_parts
from veilgraph.privacy.strict_json import expect_whole, number_text

MOST_PEOPLE = 50_000
"""Largest number of people: a server holds a bit for every two of them, 312 MB."""

_BLOCK = 2**24
"""Random words that are drawn at once."""
_BASE64 = re.compile(r"[A-Za-z0-9_-]*")


@dataclass(frozen=True)
class RandomizedNeighbourList:
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

    @property
    def _bytes(self) -> int:
        return -(-self.num_people // 8)

    @property
    def _letters(self) -> int:
        return -(-4 * self._bytes // 3)

    def randomize(self, sums: NDArray[Any], *, rng: RandomIntegers) -> NDArray[Any]:
        """Draw one answer for each list [lists, people]; return bits, [lists, bytes]."""
        check_sums(sums, self.num_people)
        drawn, step = self.blank(len(sums)), max(1, _BLOCK // self.num_people)
        for start in range(0, len(sums), step):
            listed = (sums[start : start + step] > 0).astype(np.int8)
            drawn[start : start + step] = np.packbits(self.bit.randomize(listed, rng=rng), axis=1, bitorder="little")
        return drawn

    def decode(self, rows: NDArray[np.uint8]) -> list[str]:
        """Return the text of each answer."""
        return [base64.urlsafe_b64encode(row.tobytes()).decode().rstrip("=") for row in rows]

    def encode(self, reports: Sequence[str] | NDArray[Any]) -> NDArray[np.uint8]:
        """Return the answers that have these texts, [answers, bytes]: the inverse of `decode`; refuse any other text.

        >>> RandomizedNeighbourList(3, 1.0).encode(["Bg", "AA"]).tolist()
        [[6], [0]]
        >>> RandomizedNeighbourList(3, 1.0).encode(["CA"])
        Traceback (most recent call last):
        veilgraph.errors.DomainError: a neighbour list names somebody who is not among the 3 people
        """
        if not all(len(text) == self._letters and _BASE64.fullmatch(text) for text in reports):
            raise DomainError(f"a neighbour list is not text of {self._letters} characters, base64url without padding")
        content = b"".join(base64.urlsafe_b64decode(text + "=" * (-self._letters % 4)) for text in reports)
        rows = np.frombuffer(content, dtype=np.uint8).reshape(len(reports), self._bytes)
        self.check_reports(rows)
        if self.decode(rows) != list(reports):
            raise DomainError("a neighbour list is text that no answer has: its last character has spare bits")
        return rows

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
    def report_schema(self) -> dict[str, Any]:
        """JSON schema of an answer: its text."""
        return {
            "type": "string",
            "description": "a bit for each person, as the bytes of the campaign format in base64url without padding",
            "pattern": "^[A-Za-z0-9_-]*$",
            "minLength": self._letters,
            "maxLength": self._letters,
        }

    @property
    def longest_report(self) -> str:
        """JSON values that no answer is longer than; all have one length."""
        return "A" * self._letters

    def check_report(self, value: object, where: str) -> str:
        """Return JSON values as an answer; refuse everything that is not the text of one."""
        try:
            self.encode([text := value if isinstance(value, str) else ""])
        except DomainError as error:
            raise ReportError(f"{where}: {error}") from None
        return text

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

    def blank(self, count: int) -> NDArray[np.uint8]:
        """Return an array for `count` answers that name nobody."""
        return np.zeros((count, self._bytes), dtype=np.uint8)

    def check_reports(self, reports: NDArray[Any]) -> None:
        """Refuse answers that are not a bit for each person.

        >>> RandomizedNeighbourList(3, 1.0).check_reports(np.array([[8]], dtype=np.uint8))
        Traceback (most recent call last):
        veilgraph.errors.DomainError: a neighbour list names somebody who is not among the 3 people
        """
        if reports.ndim != 2 or reports.shape[1] != self._bytes or reports.dtype != np.uint8:
            raise DomainError(
                f"neighbour lists have shape {reports.shape} and type {reports.dtype}: expected a bit for each of "
                f"{self.num_people} people"
            )
        spare = 8 * self._bytes - self.num_people
        if spare and (reports[:, -1] >> (8 - spare)).any():
            raise DomainError(f"a neighbour list names somebody who is not among the {self.num_people} people")
