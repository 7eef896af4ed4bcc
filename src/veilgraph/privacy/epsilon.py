r"""Epsilon, the neighbour relation that gives it a meaning, and how it is written.

A mechanism has the level epsilon under a neighbour relation if no report is more than ``exp(epsilon)`` times as likely
with one record as with a neighbouring one:

.. math:: \max_{o,\; x \sim x'} \ln \frac{P(o \mid x)}{P(o \mid x')} \le \epsilon

An epsilon without its relation says nothing. The two relations of this package are far apart: of 53 binary features,
10 are sampled with a budget of 1 each, and GRR-FS has 10 at user level and 0.28 at attribute level.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from enum import Enum
from fractions import Fraction
from numbers import Real

from veilgraph.errors import BudgetError

NOT_PRIVATE = math.inf
"""The epsilon of a report that can reveal its record completely."""

# Enough digits to write any double with four decimals.
_ANY_DOUBLE = Context(prec=400)


class Relation(Enum):
    """Pairs that an epsilon protects from each other, in words; its kinds are the classes below."""

    @property
    def key(self) -> str:
        """Name in JSON, such as `user_level`."""
        return self.name.lower()

    @property
    def title(self) -> str:
        """Name in sentences, such as "user level"."""
        return self.key.replace("_", " ")

    def __str__(self) -> str:
        return f"{self.title} ({self.value})"


class NeighbourRelation(Relation):
    """Pairs of records that an epsilon protects from each other.

    >>> print(NeighbourRelation.USER_LEVEL)
    user level (any two records)
    """

    USER_LEVEL = "any two records"
    ATTRIBUTE_LEVEL = "two records that differ in one feature"


class HistoryRelation(Relation):
    """Pairs of histories that an epsilon of a series protects from each other; a history is a value for each round.

    Only the last relation protects the fact and the time of a change.

    >>> print(HistoryRelation.UNCHANGED)
    unchanged (two values that never change)
    """

    UNCHANGED = "two values that never change"
    SAME_PATTERN = "two histories in which answers repeat in the same rounds"
    ANY_HISTORIES = "any two histories"


class ListRelation(Relation):
    """Pairs of neighbour lists that an epsilon protects from each other.

    A relationship stands in two lists. What both ends report about it reveals at most twice as much as one of them.

    >>> print(ListRelation.ONE_ENTRY)
    one entry (two neighbour lists, one with a neighbour more)
    """

    ANY_LISTS = "two neighbour lists of any length"
    ONE_ENTRY = "two neighbour lists, one with a neighbour more"
    ONE_RELATIONSHIP = "which both ends report, or neither"


@dataclass(frozen=True, kw_only=True)
class PrivacyLoss:
    """Worst-case privacy loss of one mechanism: its exact epsilon under each neighbour relation.

    Mechanisms compute it from the integers that their randomizer compares.

    Attributes:
        user_level: epsilon for any two records.
        attribute_level: epsilon of each feature, for two records that differ in this feature only.
        series: loss of all rounds under the relations between histories; None where everything is asked once.
        theorem_1: figure that the paper's Theorem 1 states for the features. It is not a guarantee.
    """

    user_level: float
    attribute_level: tuple[float, ...]
    series: SeriesLoss | None = None
    theorem_1: float | None = None

    def under(self, relation: NeighbourRelation) -> float:
        """Return the epsilon under a relation, the largest one over all features.

        >>> PrivacyLoss(user_level=2.0, attribute_level=(0.5, 1.0)).under(NeighbourRelation.ATTRIBUTE_LEVEL)
        1.0
        """
        return self.user_level if relation is NeighbourRelation.USER_LEVEL else max(self.attribute_level)


@dataclass(frozen=True, kw_only=True)
class SeriesLoss:
    """Worst-case privacy loss of all rounds of a series together, under three relations between histories.

    A history is a person's value in each round. The fact and the time of a change are protected by the last alone.

    Attributes:
        unchanged: epsilon for two values that never change; exact.
        same_pattern: epsilon for two histories in which answers repeat in the same rounds; exact.
        any_histories: epsilon for any two histories; never too low, and exact where that is feasible.
        rounds: number of rounds.
        values: number of different values of each question that are answered.
    """

    unchanged: float
    same_pattern: float
    any_histories: float
    rounds: int
    values: int

    def under(self, relation: HistoryRelation) -> float:
        """Return the epsilon under a relation."""
        return float(getattr(self, relation.key))


@dataclass(frozen=True, kw_only=True)
class ListLoss:
    """Worst-case privacy loss of answers about a neighbour list, under three relations between lists.

    Attributes:
        any_lists: epsilon for any two lists of any length; infinite if whole lists are not protected.
        one_entry: epsilon for two lists, one of which has an entry more.
    """

    any_lists: float
    one_entry: float

    @property
    def one_relationship(self) -> float:
        """Epsilon for a relationship that both ends report: twice that of one entry, rounded up."""
        return add_epsilons(self.one_entry, self.one_entry)

    def under(self, relation: ListRelation) -> float:
        """Return the epsilon under a relation."""
        return float(getattr(self, relation.key))

    @classmethod
    def sum_of(cls, losses: Iterable[ListLoss]) -> ListLoss:
        """Add up the answers of several waves. An answer may depend on all that was published before it.

        >>> wave = ListLoss(any_lists=NOT_PRIVATE, one_entry=1.5)
        >>> ListLoss.sum_of([wave, wave]).one_relationship
        6.0
        """
        parts = tuple(losses)
        return cls(
            any_lists=add_epsilons(*(part.any_lists for part in parts)),
            one_entry=add_epsilons(*(part.one_entry for part in parts)),
        )

    @classmethod
    def largest_of(cls, losses: Iterable[ListLoss]) -> ListLoss:
        """Return the largest epsilon under each relation: what one of several answers costs at most.

        >>> few, many = ListLoss(any_lists=NOT_PRIVATE, one_entry=1.0), ListLoss(any_lists=4.0, one_entry=4.0)
        >>> ListLoss.largest_of([few, many])
        ListLoss(any_lists=inf, one_entry=4.0)
        """
        parts = tuple(losses)
        return cls(
            any_lists=max(part.any_lists for part in parts),
            one_entry=max(part.one_entry for part in parts),
        )


def check_epsilon(epsilon: float, name: str = "epsilon") -> float:
    """Return `epsilon` if it is positive; infinity is allowed and means "not private".

    >>> check_epsilon(0.5)
    0.5
    >>> check_epsilon(0.0, "epsilon_x")
    Traceback (most recent call last):
    veilgraph.errors.BudgetError: epsilon_x is 0.0: it must be a number above 0 (infinity means not private)
    """
    if not isinstance(epsilon, Real) or not epsilon > 0:
        raise BudgetError(f"{name} is {epsilon!r}: it must be a number above 0 (infinity means not private)")
    return float(epsilon)


def round_up(exact: Fraction) -> float:
    """Return the least float that is not below `exact`.

    >>> round_up(Fraction(1, 2)), round_up(Fraction(1, 3))
    (0.5, 0.33333333333333337)
    """
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def add_epsilons(*epsilons: float) -> float:
    """Return the sum of epsilons, rounded up: it is never below the exact sum.

    >>> add_epsilons(0.1, 0.2), add_epsilons(0.1, 0.0), add_epsilons(1.0, math.inf)
    (0.30000000000000004, 0.1, inf)
    """
    if any(map(math.isinf, epsilons)):
        return NOT_PRIVATE
    return round_up(sum(map(Fraction, epsilons), Fraction(0)))


def state_epsilon(epsilon: float) -> float:
    """Return the least float whose decimal text is not below `epsilon`, for documents that people read.

    The shortest text of a double can be below it: 0.1 is 0.1000000000000000055... as a double.

    >>> state_epsilon(1.0), state_epsilon(0.3), state_epsilon(0.1)
    (1.0, 0.3, 0.10000000000000002)
    """
    stated = float(epsilon)
    while Decimal(repr(stated)) < Decimal(epsilon):
        stated = math.nextafter(stated, math.inf)
    return stated


def describe_epsilon(relation: Relation, *epsilons: float, pairs: str | None = None) -> str:
    """Write an epsilon, or the range of several, with its neighbour relation.

    Args:
        relation: the relation.
        epsilons: one epsilon or several.
        pairs: the pairs in words, where a record is more than one answer; default: those of the relation.

    >>> describe_epsilon(NeighbourRelation.ATTRIBUTE_LEVEL, 0.28, 0.25)
    'Attribute level, two records that differ in one feature: epsilon = 0.2500 to 0.2800'
    """
    ends = dict.fromkeys(show_epsilon(end) for end in (min(epsilons), max(epsilons)))
    return f"{relation.title.capitalize()}, {pairs or relation.value}: epsilon = {' to '.join(ends)}"


def show_epsilon(epsilon: float) -> str:
    """Write the digits of an epsilon where the relation is written beside it, such as in a table's heading.

    Four decimals, rounded up: what is printed is never below what `repr` shows. Guarantees go through `state_epsilon`
    first, so that it is not below the double either.

    >>> show_epsilon(0.28111), show_epsilon(1.0000000000000002), show_epsilon(math.inf)
    ('0.2812', '1.0001', 'not private')
    """
    if math.isinf(epsilon):
        return "not private"
    return f"{Decimal(repr(float(epsilon))).quantize(Decimal('0.0001'), ROUND_CEILING, _ANY_DOUBLE):f}"


def short_epsilon(epsilon: float | str) -> str:
    """Write an epsilon without trailing zeros, rounded up to four decimals; "not private" is text already.

    >>> short_epsilon(10.999999999999996), short_epsilon(0.28111), short_epsilon("not private")
    ('11', '0.2812', 'not private')
    """
    if isinstance(epsilon, str):
        return epsilon
    text = show_epsilon(epsilon)
    return text.rstrip("0").rstrip(".") if "." in text else text


def show_certainty(epsilon: float) -> str:
    r"""Write how often in 100 a guess between two records is right at most, if it was right 50 times before.

    :math:`100 / (1 + e^{-\epsilon})`, rounded up: to whole numbers, above 99 to one decimal. 100 stands for near
    certainty, above 99.9. The participant's page writes the same figures.

    >>> [show_certainty(epsilon) for epsilon in (0.0, 1.0, 2.0, 4.5, 4.8, 7.0)]
    ['50', '74', '89', '99', '99.2', '100']
    """
    if math.isinf(epsilon):
        return "100"
    with localcontext(prec=60):
        chance = 100 / (1 + (-Decimal(repr(float(epsilon)))).exp())
        rounded = chance.quantize(Decimal(1), ROUND_CEILING)
        if rounded > 99:
            rounded = chance.quantize(Decimal("0.1"), ROUND_CEILING)
    return f"{rounded:f}" if rounded < 100 else "100"


def json_epsilon(epsilon: float) -> float | str:
    """Return the epsilon for JSON, which has no infinity: "not private" stands for it."""
    return "not private" if math.isinf(epsilon) else epsilon
