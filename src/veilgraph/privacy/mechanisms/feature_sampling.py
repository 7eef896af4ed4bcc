"""Sampling m out of d features: what all such reports share, drawing subsets, and averages over all subsets."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from veilgraph.privacy.mechanisms.base import Record
from veilgraph.privacy.mechanisms.channel import SymmetricChannel
from veilgraph.privacy.mechanisms.random_source import RandomIntegers
from veilgraph.privacy.mechanisms.wire import check_features, code_schema

NOT_ASKED = -1
"""Code in a report of a feature that was not sampled."""


class FeatureReports(ABC):
    """What learning asks of feature reports, as most mechanisms answer it: codes, one response to each feature."""

    domain_sizes: tuple[int, ...]

    @property
    def num_features(self) -> int:
        """Number of features, d."""
        return len(self.domain_sizes)

    def answered(self, reports: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which features each report has an answer about, [people, features]."""
        return np.asarray(reports != NOT_ASKED)

    def codes(self, reports: NDArray[Any], domain_sizes: Sequence[int]) -> NDArray[Any]:
        """Return the reports: they are codes of the schema already."""
        return reports

    def response_channels(
        self, people: NDArray[np.int64], features: NDArray[np.int64], count: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return 1 and 0 for each person, [people]: a response is to one feature."""
        return np.ones(count), np.zeros(count)

    @property
    def coupling(self) -> Hashable:
        """The mechanism: at another epsilon it reads other random words."""
        return self

    @property
    def record_values(self) -> tuple[Record, ...]:
        """Values of each feature."""
        return tuple(tuple(range(size)) for size in self.domain_sizes)

    def records(self) -> Iterator[Record]:
        """Iterate over all records."""
        return itertools.product(*self.record_values)

    def extreme_records(self) -> tuple[Record, Record]:
        """Return two records that differ in every feature, so that every sampled set distinguishes them."""
        return (0,) * self.num_features, (1,) * self.num_features

    @abstractmethod
    def channel(self, feature: int) -> SymmetricChannel:
        """Return the channel from a feature's value to its report."""

    @abstractmethod
    def randomize(self, values: NDArray[Any], *, rng: RandomIntegers) -> NDArray[Any]:
        """Draw one report for each row of `values`, [people, features]."""

    def randomize_coupled(
        self, others: Sequence[Any], values: NDArray[Any], *, rng: RandomIntegers
    ) -> list[NDArray[Any]]:
        """Draw the reports of this mechanism, which cannot be coupled with others."""
        return [self.randomize(values, rng=rng)]


class AllAnswers(FeatureReports):
    """What reports share that hold a code for each of d features."""

    shows_sampled: ClassVar[bool] = False

    @property
    def answering_rate(self) -> Fraction:
        """1: every feature has an answer, since unsampled ones are answered by uniform values."""
        return Fraction(1)

    @property
    def num_answered(self) -> int:
        """Number of features that a report answers, d."""
        return self.num_features

    @property
    def code_type(self) -> type[np.uint8] | type[np.uint16]:
        """Type of the codes in reports: a byte unless a domain is too large for it."""
        return np.uint8 if max(self.domain_sizes) <= 2**8 else np.uint16

    @property
    def report_schema(self) -> dict[str, Any]:
        """JSON schema of a report: a code for each feature."""
        codes = [code_schema(size) for size in self.domain_sizes]
        return {"type": "array", "prefixItems": codes, "minItems": len(codes), "maxItems": len(codes)}

    @property
    def longest_report(self) -> list[int]:
        """JSON values that no report is longer than."""
        return [size - 1 for size in self.domain_sizes]

    def check_report(self, value: object, names: Sequence[str]) -> tuple[int | None, ...]:
        """Return JSON values as a report; refuse everything that is not a code of each feature."""
        return check_features(value, self.domain_sizes, self.num_features, names)


@dataclass(frozen=True)
class SampledAnswers(FeatureReports):
    """What mechanisms share whose reports hold m of d features and `NOT_ASKED` for the others."""

    shows_sampled: ClassVar[bool] = True

    domain_sizes: tuple[int, ...]
    sampled: int

    def picked_channel(self, feature: int) -> SymmetricChannel:
        """Return the channel of a sampled feature, averaged over the features sampled with it."""
        return self.channel(feature)

    @property
    def code_type(self) -> type[np.int8] | type[np.int32]:
        """Type of the codes in reports: a byte unless a domain is too large for it."""
        return np.int8 if max(self.domain_sizes) <= 2**7 else np.int32

    @property
    def num_answered(self) -> int:
        """Number of features that a report answers, m."""
        return self.sampled

    @property
    def report_schema(self) -> dict[str, Any]:
        """JSON schema of a report: a code for each sampled feature, null for all others."""
        codes = [{"anyOf": [code_schema(size), {"type": "null"}]} for size in self.domain_sizes]
        return {"type": "array", "prefixItems": codes, "minItems": len(codes), "maxItems": len(codes)}

    @property
    def longest_report(self) -> list[int | None]:
        """JSON values that no report is longer than; null has four characters."""
        return [size - 1 if size > 1000 else None for size in self.domain_sizes]

    def check_report(self, value: object, names: Sequence[str]) -> tuple[int | None, ...]:
        """Return JSON values as a report; refuse everything that does not hold m codes."""
        return check_features(value, self.domain_sizes, self.sampled, names)

    @property
    def answering_rate(self) -> Fraction:
        """m / d, the share of people who answer about a given feature."""
        return Fraction(self.sampled, self.num_features)


def draw_subsets(
    num_people: int, *, num_features: int, sampled: int | NDArray[np.int64], rng: RandomIntegers
) -> Iterator[NDArray[np.bool_]]:
    """Draw a uniform subset of `sampled` features for each person, and yield for each feature who samples it.

    Feature i is taken with probability (m - taken so far) / (d - i), decided by an integer below d - i. No
    permutation of the features is kept in memory.

    Args:
        num_people: number of subsets.
        num_features: d.
        sampled: m, or a number for each person, [people].
        rng: source of randomness.

    Yields:
        A mask for each feature, [people].

    >>> rng = np.random.default_rng(0)
    >>> sum(mask.astype(int) for mask in draw_subsets(5, num_features=7, sampled=3, rng=rng)).tolist()
    [3, 3, 3, 3, 3]
    """
    to_sample = np.full(num_people, sampled)
    for left in range(num_features, 0, -1):
        taken = rng.integers(0, left, size=num_people) < to_sample
        to_sample -= taken
        yield taken


def mean_over_subsets(factors: Sequence[Any], sampled: int, *, one: Any) -> Any:
    r"""Return the mean of \prod_{i in S} factors[i] over all subsets S of `sampled` indices, in d * m steps.

    It equals e_m(factors) / C(d, m), where e_m is the elementary symmetric polynomial. It is computed as a device
    samples: feature by feature, with probability (m - taken) / (d - i) for feature i. All terms are positive, so the
    result is as accurate as its number type.

    Args:
        factors: one factor per feature: Fraction (exact), Decimal, or float arrays with one entry per report.
        sampled: m, the size of the subsets.
        one: the number 1 in the type of the factors.

    >>> from fractions import Fraction
    >>> mean_over_subsets([Fraction(2), Fraction(3), Fraction(5)], 2, one=Fraction(1))  # (6 + 10 + 15) / 3
    Fraction(31, 3)
    """
    num_features = len(factors)
    means: list[Any] = [one] + [one * 0] * sampled
    for i, factor in enumerate(factors):
        left = num_features - i
        # From many taken to few, so that each feature is used at most once.
        for taken in _reachable(i, sampled, num_features):
            skip = means[taken] * (one * (left - (sampled - taken)) / left)
            take = means[taken - 1] * factor * (one * (sampled - taken + 1) / left) if taken else one * 0
            means[taken] = skip + take
    return means[sampled]


def split_means(factors: Sequence[Any], sampled: int, count: int, *, one: Any) -> Iterator[tuple[Any, Any]]:
    r"""Yield (a, b) for each of the first `count` features: `mean_over_subsets` is a + b * factor for any factor.

    a is the part of the subsets without the feature, b that of the subsets with it. One pass from the last feature to
    the first gives the means of what follows, one from the first feature gives the means of what precedes. Both take
    d * m steps together, whatever the factors and `count` are. All terms are positive.

    Args:
        factors: one factor per feature.
        sampled: m, the size of the subsets.
        count: number of features to split by, the first ones.
        one: the number 1 in the type of the factors.

    >>> from fractions import Fraction
    >>> list(split_means([Fraction(2), Fraction(3), Fraction(5)], 2, 1, one=Fraction(1)))  # 15 / 3 + (3 + 5) / 3 * 2
    [(Fraction(5, 1), Fraction(8, 3))]
    """
    num_features = len(factors)
    following = [{sampled: one}]  # for the last feature first, by the number of features taken up to it
    for i in range(num_features - 1, 0, -1):
        rest = {
            before: sum(share * (factors[i] if more else one) * following[-1][before + more] for more, share in shares)
            for before, shares in _choices(i, sampled, num_features, one)
        }
        if i > count:
            following.pop()
        following.append(rest)
    preceding = {0: one}
    for i in range(count):
        rest, extended, split = following.pop(), dict[int, Any](), [one * 0, one * 0]
        for before, shares in _choices(i, sampled, num_features, one):
            for more, share in shares:
                mean = preceding[before] * share
                split[more] += mean * rest[before + more]
                extended[before + more] = extended.get(before + more, one * 0) + mean * (factors[i] if more else one)
        preceding = extended
        yield split[0], split[1]


def _choices(i: int, sampled: int, num_features: int, one: Any) -> Iterator[tuple[int, list[tuple[int, Any]]]]:
    """Yield each possible number of features taken before i, with the shares of skipping (0) and taking (1) it."""
    left = num_features - i
    for taken in range(max(0, sampled - left), min(i, sampled) + 1):
        missing = sampled - taken
        shares = ((0, left - missing), (1, missing))
        yield taken, [(more, one * share / left) for more, share in shares if share]


def _reachable(i: int, sampled: int, num_features: int) -> Iterable[int]:
    """Return the possible numbers of taken features among 0..i, in falling order."""
    return range(min(i + 1, sampled), max(0, sampled - (num_features - i - 1)) - 1, -1)


def joint_sizes(domain_sizes: Iterable[int], sampled: int) -> dict[int, int]:
    """Count the subsets of `sampled` features by their number of joint values, without listing the subsets.

    >>> joint_sizes([2, 2, 3], 2)  # one subset has 2 * 2 joint values, two have 2 * 3
    {4: 1, 6: 2}
    """
    sets: Counter[tuple[int, int]] = Counter({(0, 1): 1})
    for size, features in Counter(domain_sizes).items():
        extended: Counter[tuple[int, int]] = Counter()
        for (taken, joint), count in sets.items():
            for more in range(min(features, sampled - taken) + 1):
                extended[taken + more, joint * size**more] += count * math.comb(features, more)
        sets = extended
    return {joint: count for (taken, joint), count in sorted(sets.items()) if taken == sampled}
