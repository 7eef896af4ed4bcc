"""Discrete Laplace noise from integers, with the exact epsilon that it has."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import BudgetError
from veilgraph.privacy.epsilon import NOT_PRIVATE, check_epsilon
from veilgraph.privacy.mechanisms.integer_table import DIGITS, LARGEST_EPSILON, log_ratio
from veilgraph.privacy.mechanisms.random_source import WORDS, RandomIntegers

_MOST_STEPS = 2**16
"""Largest expected number of words for one geometric variable: a device draws them in milliseconds."""


@dataclass(frozen=True, kw_only=True)
class DiscreteLaplace:
    r"""The difference of two geometric variables (Ghosh, Roughgarden and Sundararajan 2009).

    .. math:: P(Z = z) = \frac{1 - \theta}{1 + \theta}\, \theta^{|z|}, \qquad \theta = \text{more} / 2^{53}

    A geometric variable counts random words below `more` until one is not. So the distribution is exact, no table has
    to end, and no floating-point number decides. Rounding `more` up makes the noise larger: theta >= e^(-epsilon/s).

    Attributes:
        more: number of the 2**53 words for which a geometric variable goes on.

    >>> noise = DiscreteLaplace.of(epsilon=1.0, sensitivity=60)
    >>> 0 <= 1.0 - noise.epsilon(60) < 1e-10
    True
    """

    more: int

    @classmethod
    @lru_cache(maxsize=1024)  # exact arithmetic is slow, and simulations use the same noise many times
    def of(cls, *, epsilon: float, sensitivity: int) -> DiscreteLaplace:
        """Make the noise for a requested epsilon and sums that differ by `sensitivity` in L1, rounded to privacy."""
        epsilon = check_epsilon(epsilon)
        if sensitivity < 1:
            raise BudgetError(f"sensitivity is {sensitivity}: give a whole number, at least 1")
        if math.isinf(epsilon):
            return cls(more=0)
        if sensitivity / epsilon > _MOST_STEPS:
            raise BudgetError(
                f"epsilon is {epsilon}: too small for integer noise at a sensitivity of {sensitivity}; "
                f"choose at least {sensitivity / _MOST_STEPS:.2g}"
            )
        with localcontext(prec=DIGITS):
            exact = WORDS * (-Decimal(min(epsilon, LARGEST_EPSILON)) / sensitivity).exp()
            return cls(more=int(exact.to_integral_value(rounding=ROUND_CEILING)))

    def epsilon(self, distance: int) -> float:
        """Return the epsilon of sums that differ by `distance` in L1: -distance ln(theta), rounded up to a float."""
        if self.more == 0 and distance:
            return NOT_PRIVATE
        return log_ratio(Decimal(WORDS**distance), Decimal(self.more**distance))

    @property
    def theta(self) -> Fraction:
        """Ratio of the probabilities of neighbouring integers, as seen from 0."""
        return Fraction(self.more, WORDS)

    def draw(self, count: int, *, rng: RandomIntegers) -> NDArray[np.int64]:
        """Draw independent noise, [count]."""
        pairs = self._geometric(2 * count, rng)
        return pairs[:count] - pairs[count:]

    def _geometric(self, count: int, rng: RandomIntegers) -> NDArray[np.int64]:
        """Count words below `more` until one is not, [count]."""
        drawn, going = np.zeros(count, dtype=np.int64), np.arange(count)
        while len(going := going[rng.integers(0, WORDS, size=len(going)) < self.more]):
            drawn[going] += 1
        return drawn

    def probability(self, value: int) -> Fraction:
        """Return the exact probability of an integer."""
        return (1 - self.theta) / (1 + self.theta) * self.theta ** abs(value)

    def tail(self, value: int) -> Fraction:
        """Return the exact probability of `value` or more, where `value` may be below 0.

        >>> DiscreteLaplace(more=2**52).tail(1), DiscreteLaplace(more=2**52).tail(0)
        (Fraction(1, 3), Fraction(2, 3))
        """
        if value > 0:
            return self.theta**value / (1 + self.theta)
        return 1 - self.theta ** (1 - value) / (1 + self.theta)

    def log_probability(self, values: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the logarithm of `probability` for many integers at once."""
        if self.more == 0:
            return np.where(values == 0, 0.0, -np.inf)
        theta = float(self.theta)
        return np.asarray(math.log1p(-theta) - math.log1p(theta) + np.abs(values) * math.log(theta))
