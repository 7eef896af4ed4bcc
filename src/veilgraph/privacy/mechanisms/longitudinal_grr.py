r"""Longitudinal GRR (L-GRR): the same question in several rounds, answered from permanent randomized answers.

A device keeps a permanent answer B(v) for each value v, drawn by GRR when v first occurs. The report of a round is GRR
of the permanent answer of the present value (Arcolezi et al. 2022). With p1, q1 of the permanent answer, p2, q2 of a
round's report and :math:`\rho = p_2 / q_2`, n reports of one value v have

.. math:: P(y \mid v) = q_2^n \Big( q_1 \sum_b \rho^{n_b} + (p_1 - q_1) \rho^{n_v} \Big)

where :math:`n_b` counts the reports of b. docs/explanation/rounds.md derives the three epsilons from it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import BudgetError
from veilgraph.privacy.epsilon import PrivacyLoss, SeriesLoss
from veilgraph.privacy.mechanisms.base import Record, Report, check_codes, check_shape
from veilgraph.privacy.mechanisms.channel import SymmetricChannel
from veilgraph.privacy.mechanisms.grr import GRR
from veilgraph.privacy.mechanisms.random_source import RandomIntegers
from veilgraph.privacy.mechanisms.series_loss import series_loss

MAX_ROUNDS = 36
"""Most rounds of a series: with more, the bound over any two histories takes a device too long to check."""

_NOT_DRAWN = -1


@dataclass(frozen=True)
class LongitudinalGRR:
    r"""Randomize one value in each of W rounds, through permanent answers for at most c different values.

    A record is a history: the value in each round. A value beyond the c-th different one counts as no change, so that
    the device goes on with the permanent answer of the round before. It never refuses and never falls silent, which
    would reveal a change.

    Args:
        domain_size: k, the declared number of values.
        epsilon: requested epsilon of a permanent answer: what a value reveals at most that never changes.
        round_epsilon: requested epsilon of a round's report about the permanent answer.
        rounds: W, the number of rounds.
        values: c, the number of different values of a person that are answered.
        optional: whether the answer may be left out in any round, which counts as one more value.

    >>> monthly = LongitudinalGRR(domain_size=7, epsilon=2.0, round_epsilon=1.0, rounds=12, values=2)
    >>> loss = monthly.series_loss
    >>> round(loss.unchanged, 4), round(loss.same_pattern, 4), round(loss.any_histories, 4)
    (1.9999, 3.9435, 8.1185)
    >>> histories = np.array([[0] * 12, [0] * 6 + [3] * 6])
    >>> monthly.randomize(histories, rng=np.random.default_rng(0)).shape
    (2, 12)
    """

    domain_size: int
    epsilon: float
    round_epsilon: float
    rounds: int
    values: int = 1
    optional: bool = False
    permanent: GRR = field(init=False, repr=False, compare=False)
    round: GRR = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 1 <= self.rounds <= MAX_ROUNDS:
            raise BudgetError(f"rounds is {self.rounds}: a series has 1 to {MAX_ROUNDS} rounds")
        if not 1 <= self.values <= self.domain_size:
            raise BudgetError(f"values is {self.values}: choose 1 to {self.domain_size} of {self.domain_size} values")
        for name, epsilon in (("epsilon", self.epsilon), ("round_epsilon", self.round_epsilon)):
            if math.isinf(epsilon):
                raise BudgetError(f"{name} is infinite: the answers of a series are never collected without privacy")
        object.__setattr__(self, "permanent", GRR(self.domain_size, self.epsilon))
        object.__setattr__(self, "round", GRR(self.domain_size, self.round_epsilon))

    @property
    def num_features(self) -> int:
        """Number of rounds, W: a record is a history."""
        return self.rounds

    @cached_property
    def series_loss(self) -> SeriesLoss:
        """Epsilons of the whole series under its three neighbour relations."""
        return series_loss(self.permanent.table, self.round.table, self.rounds, self.values, self.optional)

    @property
    def privacy_loss(self) -> PrivacyLoss:
        """Epsilon of the whole series for any two histories.

        With one value the first round decides all reports. With more, two histories that differ in one round may differ
        as much as any others.
        """
        loss = self.series_loss.any_histories
        later = 0.0 if self.values == 1 else loss
        levels = (loss,) + (later,) * (self.rounds - 1)
        return PrivacyLoss(user_level=loss, attribute_level=levels, series=self.series_loss)

    @cached_property
    def channel(self) -> SymmetricChannel:
        """Channel of the report of one round: both tables in sequence."""
        return self.permanent_channel(self.round.channel.keep)

    def permanent_channel(self, keep: Fraction) -> SymmetricChannel:
        """Return the channel from a value to a statistic that names its permanent answer with probability `keep`."""
        first, other = self.permanent.channel, (1 - keep) / (self.domain_size - 1)
        kept = first.keep * keep + (1 - first.keep) * other
        return SymmetricChannel(
            domain_size=self.domain_size, keep=kept, other=(1 - kept) / Fraction(self.domain_size - 1)
        )

    def answered_histories(self, histories: NDArray[Any]) -> NDArray[Any]:
        """Return the values that are answered [people, rounds]: a value beyond the c-th counts as no change.

        >>> LongitudinalGRR(4, 1.0, 1.0, rounds=5, values=2).answered_histories(np.array([[3, 0, 2, 3, 1]])).tolist()
        [[3, 0, 0, 3, 3]]
        """
        people, answered = np.arange(len(histories)), np.empty_like(histories)
        known = np.zeros((len(histories), self.domain_size), dtype=np.bool_)
        for number in range(self.rounds):
            current = histories[:, number]
            if number:
                room = known[people, current] | (known.sum(axis=1) < self.values)
                current = np.where(room, current, answered[:, number - 1])
            known[people, current] = True
            answered[:, number] = current
        return answered

    def randomize(self, values: NDArray[Any], *, rng: RandomIntegers) -> NDArray[Any]:
        """Draw the reports of all rounds [people, rounds] for each history, a row of `values`."""
        check_shape(values, self.rounds)
        check_codes(values, self.domain_size)
        answered, reports = self.answered_histories(values), np.empty_like(values)
        permanent = self.no_permanent_answers(len(values))
        for number in range(self.rounds):
            reports[:, number] = self.report_round(answered[:, number].astype(np.int64), permanent, rng=rng)
        return reports

    def no_permanent_answers(self, people: int) -> NDArray[np.int64]:
        """Return an array for the permanent answers of people, [people, values], none of which is drawn yet."""
        return np.full((people, self.domain_size), _NOT_DRAWN, dtype=np.int64)

    def report_round(
        self, current: NDArray[np.int64], permanent: NDArray[np.int64], *, rng: RandomIntegers
    ) -> NDArray[np.int64]:
        """Draw the reports of one round, [people]; permanent answers of values that are new are drawn into `permanent`.

        Args:
            current: values that are answered, [people].
            permanent: permanent answers so far, [people, values].
            rng: source of randomness.
        """
        people = np.arange(len(current))
        new = np.flatnonzero(permanent[people, current] == _NOT_DRAWN)
        permanent[new, current[new]] = self.permanent.randomize(current[new], rng=rng)
        return self.round.randomize(permanent[people, current], rng=rng)

    @property
    def record_values(self) -> tuple[Record, ...]:
        """Values of each round."""
        return (tuple(range(self.domain_size)),) * self.rounds

    def records(self) -> Iterator[Record]:
        """Iterate over all histories."""
        return itertools.product(*self.record_values)

    def reports(self) -> Iterator[Report]:
        """Iterate over all sequences of reports; they are the same tuples as the histories."""
        return itertools.product(range(self.domain_size), repeat=self.rounds)

    def probability(self, report: Report, record: Record) -> Fraction:
        """Return the product over the answered values: the mean over a value's permanent answer."""
        (answered,) = self.answered_histories(np.array([record], dtype=np.int64)).tolist()
        chance = Fraction(1)
        for value in dict.fromkeys(answered):
            said = [reported for reported, current in zip(report, answered, strict=True) if current == value]
            chance *= self._chance_of_value(value, tuple(said.count(b) for b in range(self.domain_size)))
        return chance

    def _chance_of_value(self, value: int, counts: tuple[int, ...]) -> Fraction:
        """Return the probability of the reports of one value, given how often they name each."""
        first, second, total = self.permanent.channel, self.round.channel, sum(counts)
        return sum(
            (
                (first.keep if b == value else first.other) * second.keep**count * second.other ** (total - count)
                for b, count in enumerate(counts)
            ),
            Fraction(0),
        )

    def log_likelihood(self, reports: NDArray[Any], record: Record) -> NDArray[np.float64]:
        """Return the log of `probability` for many sequences of reports at once, [reports]."""
        (answered,) = self.answered_histories(np.array([record], dtype=np.int64))
        named = self.round.named(np.asarray(reports).reshape(-1)).reshape(-1, self.rounds, self.domain_size)
        log_odds = math.log(self.round.channel.keep) - math.log(self.round.channel.other)
        found = np.full(len(reports), self.rounds * math.log(self.round.channel.other))
        for value in np.unique(answered).tolist():
            log_weights = np.full(self.domain_size, math.log(self.permanent.channel.other))
            log_weights[value] = math.log(self.permanent.channel.keep)
            found += np.logaddexp.reduce(log_odds * named[:, answered == value].sum(axis=1) + log_weights, axis=1)
        return found

    def extreme_records(self) -> tuple[Record, Record]:
        """Return two histories that are told apart best, of those that are constant, change together, or crosswise.

        Crosswise: each of two values of one history meets each of two values of the other in equally many rounds. In a
        long series with two answered values this is the worst, if the domain is larger than 3 and 4 divides W.
        """
        constant = (0,) * self.rounds, (1,) * self.rounds
        if self.values == 1:
            return constant
        block = -(-self.rounds // 2)
        blocks = tuple(int(number >= block) for number in range(self.rounds))
        halves = [int(2 * (number % block) >= block) for number in range(self.rounds)]
        others = (2, 1) if self.domain_size == 3 else (2 % self.domain_size, 3 % self.domain_size)
        together = blocks, tuple(1 - value for value in blocks)
        crosswise = blocks, tuple(others[half] for half in halves)
        return max(constant, together, crosswise, key=self._log_ratio)

    def _log_ratio(self, pair: tuple[Record, Record]) -> float:
        """Return the log-likelihood ratio of two histories for the report that equals the first."""
        report = np.array([pair[0]])
        return float((self.log_likelihood(report, pair[0]) - self.log_likelihood(report, pair[1]))[0])
