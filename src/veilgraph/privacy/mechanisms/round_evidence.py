"""Evidence in the rounds of a series: one class for each person, with the exact channel from their value to it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import DomainError
from veilgraph.privacy.mechanisms.channel import SymmetricChannel
from veilgraph.privacy.mechanisms.grr import GRR
from veilgraph.privacy.mechanisms.integer_table import IntegerTable
from veilgraph.privacy.mechanisms.longitudinal_grr import LongitudinalGRR
from veilgraph.privacy.mechanisms.random_source import WORDS
from veilgraph.privacy.mechanisms.wire import CodeReports, chance_text, find_form
from veilgraph.privacy.plain_text import counted
from veilgraph.privacy.strict_json import expect_number, number_text

NO_REPORT = -1
"""Code of a round in which a person sent no report."""


@dataclass(frozen=True)
class RoundEvidence(CodeReports, LongitudinalGRR):
    r"""Rounds as a label mechanism that methods learn from: the class that a person's reports name most often.

    Of classes that are named equally often it is the most recent one. Reports of one permanent answer are
    exchangeable, so this breaks ties uniformly. n reports name the permanent answer most often with a probability
    :math:`p_n` that is computed exactly. The channel from the value is that of the permanent answer, followed by one
    with :math:`p_n`; over all people it is the mean of their channels.

    The latest report alone assumes nothing. Several assume that the value did not change between them; with a value
    that changed, they name most likely the one that was held longest.

    Reports are rows of codes, [people, rounds], with `NO_REPORT` for a round without one.

    Args:
        domain_size: k, the declared number of values.
        epsilon: requested epsilon of a permanent answer.
        round_epsilon: requested epsilon of a round's report about the permanent answer.
        rounds: W, the number of rounds.
        values: c, the number of different values of a person that are answered.
        people: number of people whose 1, 2, ... reports are combined.
        latest: whether the latest report of each person is taken alone.

    >>> monthly = LongitudinalGRR(7, epsilon=2.0, round_epsilon=1.0, rounds=12, values=2)
    >>> reports = monthly.randomize(np.zeros((100, 12), dtype=np.int64), rng=np.random.default_rng(0))
    >>> evidence = [RoundEvidence.of(monthly, reports, latest=latest) for latest in (True, False)]
    >>> [round(float(each.channel.keep), 3) for each in evidence]
    [0.223, 0.368]
    """

    wire_name: ClassVar[str] = "grr"

    people: tuple[int, ...] = (1,)
    latest: bool = False

    @property
    def document(self) -> dict[str, Any]:
        """Part of the campaign document about the permanent answer."""
        return self.permanent.document

    @classmethod
    def read_series(cls, stated: object, domain_size: int, rounds: Mapping[str, Any]) -> Self:
        """Read the parts of a document about the label and about its rounds.

        Args:
            stated: part about the permanent answer.
            domain_size: k.
            rounds: part about the rounds, with the keys that all series have.
        """
        permanent = find_form(stated, {GRR.wire_name: GRR}, "label").read(stated, "label", domain_size)
        of_round = expect_number(rounds["epsilon"], "rounds.epsilon")
        return cls(domain_size, permanent.epsilon, of_round, rounds["count"], rounds["values"])

    @property
    def round_document(self) -> dict[str, Any]:
        """Part of the campaign document about the report of a round."""
        return {"epsilon": number_text(self.round_epsilon), "table": self.round.table.document}

    def decode(self, rows: NDArray[Any]) -> list[list[int]]:
        """Return the codes of the rounds of each person, with `NO_REPORT` for a round without one."""
        return list(rows.tolist())

    def method_in_words(self, question: str) -> str:
        """Say to people how a device randomizes the answer to a question."""
        return (
            f"Asked in {counted(self.rounds, 'round')}. A report has the true answer to {question} with "
            f"{chance_text(self.channel)}, and another one otherwise."
        )

    @classmethod
    def of(cls, series: LongitudinalGRR, reports: NDArray[Any], *, latest: bool = False) -> RoundEvidence:
        """Return the evidence in reports, [people, rounds]; rows without a report are ignored."""
        sent = (reports != NO_REPORT).sum(axis=1)
        return cls(
            series.domain_size,
            series.epsilon,
            series.round_epsilon,
            series.rounds,
            series.values,
            people=people_by_reports(sent, latest=latest),
            latest=latest,
        )

    @cached_property
    def channel(self) -> SymmetricChannel:
        """Probability of the class given the value, on average over the people."""
        total, table = sum(self.people), self.round.table
        shares = ((n, Fraction(count, total)) for n, count in enumerate(self.people, start=1) if count)
        return self.permanent_channel(sum((share * most_frequent_share(table, n) for n, share in shares), Fraction(0)))

    @property
    def likelihood(self) -> SymmetricChannel:
        """Probability of the evidence given the class that it names (keep) or another one (other): the channel."""
        return self.channel

    def named(self, reports: NDArray[Any]) -> NDArray[np.bool_]:
        """Return one-hot classes, [people, classes]; no class where there is no report.

        >>> evidence = RoundEvidence(3, 1.0, 1.0, rounds=3)
        >>> evidence.named(np.array([[2, 2, 0], [0, 1, NO_REPORT]])).astype(int).tolist()
        [[0, 0, 1], [0, 1, 0]]
        """
        sent = reports != NO_REPORT
        times = np.where(sent, np.arange(1, reports.shape[1] + 1), 0)
        if self.latest:
            sent = sent & (times == times.max(axis=1, initial=0)[:, None])
        hits = sent[:, :, None] & (reports[:, :, None] == np.arange(self.domain_size))
        # The time of the latest report of a class decides between equal counts.
        scores = hits.sum(axis=1) * (reports.shape[1] + 1) + (hits * times[:, :, None]).max(axis=1, initial=0)
        best = scores.argmax(axis=1)[:, None] == np.arange(self.domain_size)
        return np.asarray(best & sent.any(axis=1)[:, None])

    def blank(self, count: int) -> NDArray[Any]:
        """Return rows for the reports of `count` people, without a report yet."""
        return np.full((count, self.rounds), NO_REPORT, dtype=np.int64)

    def check_reports(self, reports: NDArray[Any]) -> None:
        """Refuse rows that are not reports of the rounds, or are empty.

        >>> RoundEvidence(3, 1.0, 1.0, rounds=2).check_reports(np.array([[0, 3]]))
        Traceback (most recent call last):
        veilgraph.errors.DomainError: a reported label is outside 0..2
        """
        if reports.ndim != 2 or reports.shape[1] != self.rounds or not np.issubdtype(reports.dtype, np.integer):
            raise DomainError(
                f"label reports have shape {reports.shape} and type {reports.dtype}: expected codes of "
                f"{self.rounds} rounds"
            )
        if (reports == NO_REPORT).all(axis=1).any():
            raise DomainError("a row of label reports is empty: it needs a report of at least one round")
        if ((reports < NO_REPORT) | (reports >= self.domain_size)).any():
            raise DomainError(f"a reported label is outside 0..{self.domain_size - 1}")


def people_by_reports(sent: NDArray[np.integer[Any]], *, latest: bool) -> tuple[int, ...]:
    """Return the number of people whose 1, 2, ... reports are combined, from the number that each person sent.

    >>> people_by_reports(np.array([3, 0, 1, 3]), latest=False), people_by_reports(np.array([3, 0, 1, 3]), latest=True)
    ((1, 0, 2), (3,))
    """
    counts = np.bincount(np.minimum(sent, 1) if latest else sent)[1:]
    return tuple(counts.tolist()) or (1,)


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
