"""Evidence from the waves of a series: one class for each person, with the exact channel from their value to it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.privacy.epsilon import PrivacyLoss
from veilgraph.privacy.mechanisms.base import Record, Report
from veilgraph.privacy.mechanisms.channel import SymmetricChannel
from veilgraph.privacy.mechanisms.integer_table import IntegerTable
from veilgraph.privacy.mechanisms.longitudinal_grr import LongitudinalGRR
from veilgraph.privacy.mechanisms.random_source import WORDS, RandomIntegers

NO_REPORT = -1
"""Code of a wave in which a person sent no report."""


@dataclass(frozen=True)
class WaveEvidence:
    r"""The class that a person's reports name most often, as a label mechanism that methods learn from.

    Of classes that are named equally often it is the most recent one. Reports of one permanent answer are
    exchangeable, so this breaks ties uniformly. n reports name the permanent answer most often with a probability
    :math:`p_n` that is computed exactly. The channel from the value is that of the permanent answer, followed by one
    with :math:`p_n`; over all people it is the mean of their channels.

    One report of each person is the evidence of the latest wave, and assumes nothing. Several assume that the value
    did not change between them; with a value that changed, they name most likely the one that was held longest.

    Args:
        series: the mechanism of the waves.
        people: number of people with 1, 2, ... reports.

    >>> series = LongitudinalGRR(7, epsilon=2.0, wave_epsilon=1.0, waves=12, values=2)
    >>> [round(float(WaveEvidence(series, (0,) * n + (1,)).channel.keep), 3) for n in (0, 2, 11)]
    [0.223, 0.244, 0.368]
    """

    series: LongitudinalGRR
    people: tuple[int, ...] = (1,)

    @classmethod
    def combine(
        cls, series: LongitudinalGRR, reports: NDArray[np.int64], *, latest: bool = False
    ) -> tuple[WaveEvidence, NDArray[np.int64]]:
        """Return the evidence, and the class of each person, [people]; `NO_REPORT` for a person without a report.

        Args:
            series: the mechanism of the waves.
            reports: reported codes, [people, waves], with `NO_REPORT` where there is none.
            latest: use the last report of each person alone.
        """
        sent = reports != NO_REPORT
        last = np.where(sent, np.arange(1, reports.shape[1] + 1), 0)
        if latest:
            kept = last == last.max(axis=1, keepdims=True)
            reports, sent = np.where(kept, reports, NO_REPORT), sent & kept
        named = reports[:, :, None] == np.arange(series.domain_size)
        # The time of the latest report of a class breaks ties between counts.
        recency = (named * last[:, :, None]).max(axis=1, initial=0)
        scores = named.sum(axis=1) * (reports.shape[1] + 1) + recency
        numbers = np.bincount(sent.sum(axis=1), minlength=2)
        counts = tuple(np.trim_zeros(numbers[1:], "b").tolist()) or (0,)
        return cls(series, counts), np.where(sent.any(axis=1), scores.argmax(axis=1), NO_REPORT)

    @property
    def domain_size(self) -> int:
        """Number of classes, k."""
        return self.series.domain_size

    @property
    def epsilon(self) -> float:
        """Requested epsilon of a permanent answer, which all waves of an unchanged value do not exceed."""
        return self.series.epsilon

    @property
    def num_features(self) -> int:
        """1: the evidence is about one value."""
        return 1

    @property
    def set_size(self) -> int:
        """1: the evidence names one class."""
        return 1

    @property
    def privacy_loss(self) -> PrivacyLoss:
        """Epsilon of the whole series for any two histories."""
        loss = self.series.series_loss.any_histories
        return PrivacyLoss(user_level=loss, attribute_level=(loss,))

    @cached_property
    def channel(self) -> SymmetricChannel:
        """Probability of the class given the value, on average over the people."""
        total = max(sum(self.people), 1)
        shares = [Fraction(count, total) for count in self.people] if sum(self.people) else [Fraction(1)]
        table = self.series.wave.table
        keep = sum((share * most_frequent_share(table, n) for n, share in enumerate(shares, 1) if share), Fraction(0))
        return self.series.permanent_channel(keep)

    @property
    def likelihood(self) -> SymmetricChannel:
        """Probability of the evidence given the class that it names (keep) or another one (other): the channel."""
        return self.channel

    def named(self, reports: NDArray[Any]) -> NDArray[np.bool_]:
        """Return one-hot classes, [people, classes]."""
        return self.series.wave.named(reports)

    def blank(self, count: int) -> NDArray[Any]:
        """Return an array of codes for `count` people."""
        return self.series.wave.blank(count)

    def check_reports(self, reports: NDArray[Any]) -> None:
        """Refuse classes that are not codes of the domain."""
        self.series.wave.check_reports(reports)

    def randomize(self, values: NDArray[Any], *, rng: RandomIntegers) -> NDArray[Any]:
        """Draw the class of each person whose value does not change, [people]; all have the same number of reports."""
        count = len(self.people)
        series = LongitudinalGRR(self.domain_size, self.epsilon, self.series.wave_epsilon, waves=count)
        histories = np.repeat(values.reshape(-1, 1), count, axis=1)
        return self.combine(series, series.randomize(histories, rng=rng).astype(np.int64))[1]

    def records(self) -> Iterator[Record]:
        """Iterate over all values."""
        return ((v,) for v in range(self.domain_size))

    def reports(self) -> Iterator[Report]:
        """Iterate over all classes."""
        return ((v,) for v in range(self.domain_size))

    def probability(self, report: Report, record: Record) -> Fraction:
        """Return the channel's probability of a class given an unchanged value."""
        return self.channel.keep if report == record else self.channel.other

    def log_likelihood(self, reports: NDArray[Any], record: Record) -> NDArray[np.float64]:
        """Return the log of `probability`, [people]."""
        same = np.asarray(reports).reshape(len(reports), -1)[:, 0] == record[0]
        return np.where(same, math.log(self.channel.keep), math.log(self.channel.other))

    def extreme_records(self) -> tuple[Record, Record]:
        """Return two different values."""
        return (0,), (1,)


@lru_cache(maxsize=1024)
def most_frequent_share(table: IntegerTable, count: int) -> Fraction:
    r"""Return p_n: the probability that of n reports of one permanent answer most name it, ties being broken evenly.

    .. math:: p_n = \sum_m \binom{n}{m} p^m q^{n-m} \sum_t \frac{1}{t + 1} \binom{k-1}{t} \frac{(n - m)!}{(m!)^t}
        [x^{n - m - tm}] \Big( \sum_{i < m} \frac{x^i}{i!} \Big)^{k - 1 - t}

    m counts the reports that name it, t the other classes that are named equally often, all others less often.

    >>> table = IntegerTable(domain_size=2, true=3 * 2**51, other=2**51)
    >>> most_frequent_share(table, 1), most_frequent_share(table, 3)  # 3/4; (3/4)^3 + 3 (3/4)^2 (1/4)
    (Fraction(3, 4), Fraction(27, 32))
    """
    keep, other = Fraction(table.true, WORDS), Fraction(table.other, WORDS)
    others, share = table.domain_size - 1, Fraction(0)
    for named in range(1, count + 1):
        rest = count - named
        fewer = [Fraction(1, math.factorial(i)) for i in range(min(named, rest + 1))]
        ways = Fraction(0)
        for ties in range(min(others, rest // named) + 1):
            left = rest - ties * named
            arranged = _power(fewer, others - ties, left)[left]
            ties_ways = Fraction(math.comb(others, ties) * math.factorial(rest), math.factorial(named) ** ties)
            ways += ties_ways * arranged / (ties + 1)
        share += math.comb(count, named) * keep**named * other**rest * ways
    return share


def _power(series: list[Fraction], exponent: int, degree: int) -> list[Fraction]:
    """Return the coefficients 0..degree of a power series raised to a whole exponent, by repeated squaring."""
    result, base = [Fraction(1)] + [Fraction(0)] * degree, series[: degree + 1]
    while exponent:
        if exponent % 2:
            result = _product(result, base, degree)
        base, exponent = _product(base, base, degree), exponent // 2
    return result


def _product(first: list[Fraction], second: list[Fraction], degree: int) -> list[Fraction]:
    found = [Fraction(0)] * (degree + 1)
    for i, a in enumerate(first):
        for j, b in enumerate(second[: degree + 1 - i]):
            found[i + j] += a * b
    return found
