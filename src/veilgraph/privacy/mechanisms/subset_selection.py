"""Subset selection: a report names a set of classes, which holds the true one more often than any other."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import BudgetError
from veilgraph.privacy.epsilon import NOT_PRIVATE, check_epsilon
from veilgraph.privacy.mechanisms.base import OneValue, Record, Report, check_codes, check_shape
from veilgraph.privacy.mechanisms.channel import SymmetricChannel
from veilgraph.privacy.mechanisms.feature_sampling import draw_subsets
from veilgraph.privacy.mechanisms.integer_table import DIGITS, LARGEST_EPSILON, IntegerTable, log_ratio
from veilgraph.privacy.mechanisms.random_source import WORDS, RandomIntegers
from veilgraph.privacy.mechanisms.wire import SetReports, chance_text


@dataclass(frozen=True, kw_only=True)
class SubsetTable:
    r"""Division of the 2**53 random words between sets that hold the true class and sets that do not.

    `inside` is the largest number of words for which the ratio of two probabilities is at most e^epsilon:
    floor(2**53 w e^epsilon / (w e^epsilon + k - w)). All words are used.

    Attributes:
        domain_size: k, the number of classes.
        size: w, the number of classes in a set.
        inside: number of words for which the set holds the true class.
        outside: number of words for which it does not.

    >>> table = SubsetTable.of(domain_size=18, size=6, epsilon=1.0)
    >>> table.inside + table.outside == 2**53, 0 <= 1.0 - table.epsilon < 1e-12
    (True, True)
    """

    domain_size: int
    size: int
    inside: int
    outside: int

    @classmethod
    @lru_cache(maxsize=1024)  # exact arithmetic is slow, and simulations use the same table many times
    def of(cls, *, domain_size: int, size: int, epsilon: float) -> SubsetTable:
        """Make the table of a requested epsilon, rounded towards privacy."""
        # Sets of one class are GRR, and have its integers.
        grr = IntegerTable.of(domain_size=domain_size, epsilon=epsilon)
        if not 1 <= size < domain_size:
            raise BudgetError(f"size is {size}: a set names 1 to {domain_size - 1} of {domain_size} classes")
        if size == 1:
            return cls(domain_size=domain_size, size=1, inside=grr.true, outside=WORDS - grr.true)
        with localcontext(prec=DIGITS):
            odds = size * Decimal(min(epsilon, LARGEST_EPSILON)).exp() / (domain_size - size)
            inside = int((WORDS * odds / (1 + odds)).to_integral_value(rounding=ROUND_FLOOR))
        # At least one word: a finite epsilon never makes a report impossible.
        inside = min(inside, WORDS - 1)
        if inside * (domain_size - size) <= (WORDS - inside) * size:
            raise BudgetError(
                f"epsilon is {epsilon}: too small to distinguish {domain_size} classes; choose a larger one"
            )
        return cls(domain_size=domain_size, size=size, inside=inside, outside=WORDS - inside)

    @property
    def document(self) -> dict[str, int]:
        """The integers, as a campaign document states them."""
        return {
            "domain_size": self.domain_size,
            "size": self.size,
            "inside": self.inside,
            "outside": self.outside,
        }

    @property
    def epsilon(self) -> float:
        """ln(inside (k - w) / (outside w)), rounded up to a float: never below the exact value."""
        if self.outside == 0:
            return NOT_PRIVATE
        return log_ratio(Decimal(self.inside * (self.domain_size - self.size)), Decimal(self.outside * self.size))


@dataclass(frozen=True)
class SubsetSelection(OneValue, SetReports):
    r"""Report a set S of w out of k classes (Wang et al. 2016; Ye and Barg 2018).

    .. math:: P(S \mid x) = \frac{e^\epsilon}{Z} \text{ if } x \in S, \quad \frac{1}{Z} \text{ otherwise}, \qquad
        Z = e^\epsilon \binom{k-1}{w-1} + \binom{k-1}{w}

    A set holds the true class with probability w e^epsilon / (w e^epsilon + k - w). The other classes of the set are
    uniform. With w = 1 this is GRR. At a small epsilon and with many classes, larger sets carry far more information.

    A random word against `table.inside` decides whether the set holds the true class. Then the other classes are
    visited in ascending order. With `left` of them left and `missing` to choose, an integer below `left` is drawn,
    and the class is chosen if the integer is below `missing`.

    Many reports are an array of bit masks, [people, ceil(k / 64)]: class c is bit c % 64 of word c // 64.

    Args:
        domain_size: k, the declared number of classes.
        epsilon: the requested budget; infinity needs sets of one class.
        size: w, the number of classes in a set. None chooses `best_size`.

    >>> country = SubsetSelection(domain_size=18, epsilon=1.0)
    >>> country.size, round(float(country.channel.keep), 3), round(float(country.channel.other), 3)
    (6, 0.576, 0.319)
    >>> round(country.privacy_loss.user_level, 9)
    1.0
    >>> masks = country.randomize(np.array([3, 17]), rng=np.random.default_rng(0))
    >>> [len(codes) for codes in country.decode(masks)]
    [6, 6]
    """

    wire_name: ClassVar[str] = "subset_selection"

    domain_size: int
    epsilon: float
    size: int | None = None
    table: SubsetTable = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        size = best_size(self.domain_size, self.epsilon) if self.size is None else self.size
        object.__setattr__(self, "size", size)
        if math.isinf(self.epsilon) and size != 1:
            raise BudgetError(f"size is {size}: without privacy a report names one class")
        table = SubsetTable.of(domain_size=self.domain_size, size=size, epsilon=self.epsilon)
        object.__setattr__(self, "table", table)

    @cached_property
    def channel(self) -> SymmetricChannel:
        r"""Probability that a report names class y, given the true class x.

        .. math:: P(x \in S \mid x) = p, \qquad P(y \in S \mid x) = \frac{p (w - 1) + (1 - p) w}{k - 1}
        """
        keep = Fraction(self.table.inside, WORDS)
        return SymmetricChannel(
            domain_size=self.domain_size, keep=keep, other=(self.set_size - keep) / (self.domain_size - 1)
        )

    @cached_property
    def likelihood(self) -> SymmetricChannel:
        """Probability of a report given a class that it names (keep) or does not name (other), up to one factor.

        The factor is the number of sets that hold a given class. With w = 1 it is 1.
        """
        keep = Fraction(self.table.inside, WORDS)
        other = Fraction(self.table.outside * self.set_size, WORDS * (self.domain_size - self.set_size))
        return SymmetricChannel(domain_size=self.domain_size, keep=keep, other=other)

    def randomize(self, values: NDArray[Any], *, rng: RandomIntegers) -> NDArray[Any]:
        """Draw one set for each class of `values` [people], as bit masks [people, words]."""
        if values.ndim > 1:
            check_shape(values, self.num_features)
        check_codes(values, self.domain_size)
        truths = values.reshape(-1).astype(np.int64)
        inside = rng.integers(0, WORDS, size=len(truths)) < self.table.inside
        named = np.zeros((len(truths), self.domain_size), dtype=np.bool_)
        people = np.arange(len(truths))
        named[people, truths] = inside
        others = draw_subsets(
            len(truths), num_features=self.domain_size - 1, sampled=self.set_size - inside.astype(np.int64), rng=rng
        )
        for position, taken in enumerate(others):
            # The position counts the classes other than the true one.
            named[people, position + (position >= truths)] |= taken
        return self._masks(named)

    def method_in_words(self, question: str) -> str:
        """Say to people how a device randomizes the answer to a question."""
        named = f"{self.set_size} of {self.domain_size} answers"
        return f"A report names {named} to {question}, the true one among them with {chance_text(self.channel)}."

    def reports(self) -> Iterator[Report]:
        """Iterate over all sets of w classes."""
        return itertools.combinations(range(self.domain_size), self.set_size)

    def probability(self, report: Report, record: Record) -> Fraction:
        """Return the probability of a set: that of its kind, divided by the number of sets of the kind."""
        others = self.domain_size - 1
        if record[0] in report:
            return Fraction(self.table.inside, WORDS * math.comb(others, self.set_size - 1))
        return Fraction(self.table.outside, WORDS * math.comb(others, self.set_size))

    def log_likelihood(self, reports: NDArray[Any], record: Record) -> NDArray[np.float64]:
        """Return the log of `probability` for bit masks, [reports]."""
        constant = _log_comb(self.domain_size - 1, self.set_size - 1)
        log_keep = math.log(self.likelihood.keep)
        log_other = math.log(self.likelihood.other) if self.likelihood.other else -math.inf
        return np.where(self.named(reports)[:, int(record[0])], log_keep, log_other) - constant


@lru_cache(maxsize=1024)
def best_size(domain_size: int, epsilon: float) -> int:
    r"""Return the set size w with the greatest mutual information between class and report, classes being uniform.

    .. math:: I(w) = \frac{w e^\epsilon \ln \frac{k e^\epsilon}{D} + (k - w) \ln \frac{k}{D}}{D},
        \qquad D = w e^\epsilon + k - w

    With many classes it is about :math:`k\, (\epsilon e^\epsilon - e^\epsilon + 1) / (e^\epsilon - 1)^2`.

    >>> [best_size(18, epsilon) for epsilon in (4.0, 2.0, 1.0, 0.5)], best_size(2, 0.1)
    ([1, 4, 6, 8], 1)
    """
    epsilon = min(check_epsilon(epsilon), LARGEST_EPSILON)
    sizes = np.arange(1, max(domain_size, 2), dtype=np.float64)
    # Shares of the sets that hold the true class and of the others; D / e^epsilon does not overflow.
    rest = (domain_size - sizes) * math.exp(-epsilon)
    total = sizes + rest
    information = np.log(domain_size / total) - rest / total * epsilon
    # Sizes that differ by rounding alone are equally good: take the smallest.
    return int(sizes[information >= information.max() - 1e-12 * max(1.0, abs(information.max()))][0])


def _log_comb(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
