r"""Epsilon, the neighbour relation that gives it a meaning, and how it is written.

A mechanism has the level epsilon under a neighbour relation if no report is more than ``exp(epsilon)`` times as likely
with one record as with a neighbouring one:

.. math:: \max_{o,\; x \sim x'} \ln \frac{P(o \mid x)}{P(o \mid x')} \le \epsilon

An epsilon without its relation says nothing. The two relations of this package are far apart: of 53 binary features,
10 are sampled with a budget of 1 each, and GRR-FS has 10 at user level and 0.28 at attribute level.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from veilgraph.errors import BudgetError

NOT_PRIVATE = math.inf
"""The epsilon of a report that can reveal its record completely."""


class NeighbourRelation(Enum):
    """Pairs of records that an epsilon protects from each other.

    >>> print(NeighbourRelation.USER_LEVEL)
    user level (any two records)
    """

    USER_LEVEL = "any two records"
    ATTRIBUTE_LEVEL = "two records that differ in one feature"

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


@dataclass(frozen=True, kw_only=True)
class PrivacyLoss:
    """Worst-case privacy loss of one mechanism: its exact epsilon under each neighbour relation.

    Mechanisms compute it from the integers that their randomizer compares.

    Attributes:
        user_level: epsilon for any two records.
        attribute_level: epsilon of each feature, for two records that differ in this feature only.
    """

    user_level: float
    attribute_level: tuple[float, ...]

    def under(self, relation: NeighbourRelation) -> float:
        """Return the epsilon under a relation, the largest one over all features.

        >>> PrivacyLoss(user_level=2.0, attribute_level=(0.5, 1.0)).under(NeighbourRelation.ATTRIBUTE_LEVEL)
        1.0
        """
        return self.user_level if relation is NeighbourRelation.USER_LEVEL else max(self.attribute_level)


def check_epsilon(epsilon: float, name: str = "epsilon") -> float:
    """Return `epsilon` if it is positive; infinity is allowed and means "not private".

    >>> check_epsilon(0.5)
    0.5
    >>> check_epsilon(0.0, "epsilon_x")
    Traceback (most recent call last):
    veilgraph.errors.BudgetError: epsilon_x is 0.0: it must be a number above 0 (infinity means not private)
    """
    if not epsilon > 0:
        raise BudgetError(f"{name} is {epsilon}: it must be a number above 0 (infinity means not private)")
    return float(epsilon)


def describe_epsilon(relation: NeighbourRelation, *epsilons: float) -> str:
    """Write an epsilon, or the range of several, with its neighbour relation.

    >>> describe_epsilon(NeighbourRelation.ATTRIBUTE_LEVEL, 0.28, 0.25)
    'Attribute level, two records that differ in one feature: epsilon = 0.2500 to 0.2800'
    """
    ends = dict.fromkeys(show_epsilon(end) for end in (min(epsilons), max(epsilons)))
    return f"{relation.title.capitalize()}, {relation.value}: epsilon = {' to '.join(ends)}"


def show_epsilon(epsilon: float) -> str:
    """Write the digits of an epsilon where the relation is written beside it, such as in a table's heading.

    Four decimals, rounded up: a printed guarantee is not below the computed one, to a billionth.

    >>> show_epsilon(0.28111), show_epsilon(math.inf)
    ('0.2812', 'not private')
    """
    if math.isinf(epsilon):
        return "not private"
    # A number within a billionth of a round one is written as the round one: 9.999999999 is shown as 10.
    return f"{math.ceil(epsilon * 1e4 - 1e-5) / 1e4:.4f}"


def json_epsilon(epsilon: float) -> float | str:
    """Return the epsilon for JSON, which has no infinity: "not private" stands for it."""
    return "not private" if math.isinf(epsilon) else epsilon
