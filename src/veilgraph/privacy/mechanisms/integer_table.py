"""Randomized response as integer thresholds, and the exact epsilon that they have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from veilgraph.errors import BudgetError
from veilgraph.privacy.epsilon import NOT_PRIVATE, check_epsilon, round_up
from veilgraph.privacy.mechanisms.random_source import WORDS

# In larger domains the rounding of the table could change epsilon by more than 1e-6.
LARGEST_DOMAIN = 2**16
# ln 2**53 is 36.7: all larger epsilons have the same table.
LARGEST_EPSILON = 100.0
DIGITS = 60
# Above the error of a ratio's logarithm, and far below the spacing of doubles.
_MARGIN = Decimal("1e-40")


@dataclass(frozen=True, kw_only=True)
class IntegerTable:
    r"""Division of the 2**53 random words between the true value and the other values.

    Each of the k - 1 other values gets w = ceil(2**53 / (e^epsilon + k - 1)) words, and the true value gets the
    remaining 2**53 - (k - 1) w. All words are used, and the other values are equally likely. Rounding w up makes the
    report more private: the ratio true/other is at most e^epsilon.

    Attributes:
        domain_size: k, the number of values.
        true: number of words that report the true value.
        other: number of words that report each other value.

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
    @lru_cache(maxsize=1024)  # exact arithmetic is slow, and simulations use the same table many times
    def of(cls, *, domain_size: int, epsilon: float) -> IntegerTable:
        """Make the table of a requested epsilon, rounded towards privacy."""
        if not 2 <= domain_size <= LARGEST_DOMAIN:
            raise BudgetError(f"domain size is {domain_size}: it must be 2 to {LARGEST_DOMAIN}")
        epsilon = check_epsilon(epsilon)
        if math.isinf(epsilon):
            return cls(domain_size=domain_size, true=WORDS, other=0)
        with localcontext(prec=DIGITS):
            share = Decimal(WORDS) / (Decimal(min(epsilon, LARGEST_EPSILON)).exp() + domain_size - 1)
            # At least one word each: a finite epsilon never makes a report impossible.
            other = max(1, int(share.to_integral_value(rounding=ROUND_CEILING)))
        true = WORDS - (domain_size - 1) * other
        if true <= other:
            raise BudgetError(
                f"epsilon is {epsilon}: too small to distinguish {domain_size} values; choose a larger one"
            )
        return cls(domain_size=domain_size, true=true, other=other)

    @property
    def document(self) -> dict[str, int]:
        """The integers, as a campaign document states them."""
        return {"domain_size": self.domain_size, "true": self.true, "other": self.other}

    @property
    def epsilon(self) -> float:
        """ln(true / other), rounded up to a float: never below the exact value."""
        return joint_epsilon([self])


def joint_epsilon(tables: Sequence[IntegerTable]) -> float:
    """Return the epsilon of independent reports, one from each table; it is rounded up once, after the product.

    >>> joint_epsilon([IntegerTable(domain_size=2, true=3, other=1)] * 2) >= 2 * math.log(3)
    True
    """
    true, other = (math.prod(shares) for shares in zip(*((t.true, t.other) for t in tables), strict=True))
    return NOT_PRIVATE if other == 0 else log_ratio(Decimal(true), Decimal(other))


def log_ratio(numerator: Decimal, denominator: Decimal) -> float:
    """Return ln(numerator / denominator), rounded up to a float; both may carry a relative error of 1e-44.

    >>> log_ratio(Decimal(1), Decimal(1))
    0.0
    """
    if numerator == denominator:
        return 0.0
    with localcontext(prec=DIGITS):
        return round_up(Fraction((numerator / denominator).ln() + _MARGIN))
