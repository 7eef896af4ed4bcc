"""Randomized response as two integers, and the epsilon that they really give."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, localcontext
from functools import lru_cache

from veilgraph.errors import BudgetError
from veilgraph.privacy.epsilon import NOT_PRIVATE, check_epsilon
from veilgraph.privacy.mechanisms.random_source import WORDS

# Beyond this the rounding of the table could cost more than 1e-6 of epsilon.
LARGEST_DOMAIN = 2**16
# ln 2**53 is 36.7: from there on every epsilon has the same table.
_LARGEST_EPSILON = 100.0
_DIGITS = 60


@dataclass(frozen=True, kw_only=True)
class IntegerTable:
    r"""How many of the 2**53 words report the true value, and how many each other value.

    With w = ceil(2**53 / (e^epsilon + k - 1)) words for each of the k - 1 other values and the remaining
    2**53 - (k - 1) w for the true one, the words are used up exactly, the other values are equally likely, and
    rounding w up makes the report more private: the ratio true/other is at most e^epsilon.

    >>> table = IntegerTable.of(domain_size=2, epsilon=1.0)
    >>> table.true + table.other == 2**53
    True
    >>> 0 <= 1.0 - table.epsilon < 1e-12
    True
    """

    domain_size: int
    true: int
    other: int

    @classmethod
    @lru_cache(maxsize=1024)  # exact arithmetic takes a while, and simulations ask for the same table again and again
    def of(cls, *, domain_size: int, epsilon: float) -> IntegerTable:
        """The table for a requested epsilon, rounded towards privacy."""
        if not 2 <= domain_size <= LARGEST_DOMAIN:
            raise BudgetError(f"domain size is {domain_size}: it must be 2 to {LARGEST_DOMAIN}")
        epsilon = check_epsilon(epsilon)
        if math.isinf(epsilon):
            return cls(domain_size=domain_size, true=WORDS, other=0)
        with localcontext(prec=_DIGITS):
            share = Decimal(WORDS) / (Decimal(min(epsilon, _LARGEST_EPSILON)).exp() + domain_size - 1)
            # At least one word each: a finite epsilon never makes a report impossible.
            other = max(1, int(share.to_integral_value(rounding=ROUND_CEILING)))
        true = WORDS - (domain_size - 1) * other
        if true <= other:
            raise BudgetError(
                f"epsilon is {epsilon}: too small for {domain_size} values to be told apart; choose a larger one"
            )
        return cls(domain_size=domain_size, true=true, other=other)

    @property
    def epsilon(self) -> float:
        """ln(true / other), rounded up to the next float: never below what the integers give."""
        return joint_epsilon([self])


def joint_epsilon(tables: Sequence[IntegerTable]) -> float:
    """Epsilon of one report from each table, independently: rounded up once, after they are multiplied.

    >>> joint_epsilon([IntegerTable(domain_size=2, true=3, other=1)] * 2) >= 2 * math.log(3)
    True
    """
    true, other = (math.prod(shares) for shares in zip(*((t.true, t.other) for t in tables), strict=True))
    return NOT_PRIVATE if other == 0 else log_ratio(Decimal(true), Decimal(other))


def log_ratio(numerator: Decimal, denominator: Decimal) -> float:
    """ln(numerator / denominator), rounded up to a float.

    >>> log_ratio(Decimal(1), Decimal(1))
    0.0
    """
    with localcontext(prec=_DIGITS):
        exact = (numerator / denominator).ln()
        nearest = float(exact)
        return nearest if Decimal(nearest) >= exact else math.nextafter(nearest, math.inf)
