r"""L-GRR for features: the same m features of a person in every round of a series, each from permanent answers.

A device samples m of d features once, independently of all values, and reports the same ones in each round. Which ones
they are is visible and reveals nothing, so nothing has to hide it. Each sampled feature i is reported by an L-GRR of
its own, so a series of reports y about a set S of features has

.. math:: P(y \mid x) = \binom{d}{m}^{-1} \prod_{i \in S} P_i(y_i \mid x_i)

where :math:`x_i` is the history of feature i. Every report shows its set, and the histories of the features are free
of each other. So under each relation between histories, the epsilon of a record is the sum of the m largest of its
features. docs/explanation/rounds.md has the epsilons of one feature.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import CampaignError
from veilgraph.privacy.budget import check_sampled
from veilgraph.privacy.epsilon import HistoryRelation, PrivacyLoss, SeriesLoss, add_epsilons
from veilgraph.privacy.mechanisms.base import Record, Report, check_table
from veilgraph.privacy.mechanisms.channel import SymmetricChannel
from veilgraph.privacy.mechanisms.feature_sampling import NOT_ASKED, SampledAnswers, draw_subsets
from veilgraph.privacy.mechanisms.random_source import RandomIntegers
from veilgraph.privacy.mechanisms.round_evidence import RoundEvidence, people_by_reports
from veilgraph.privacy.mechanisms.wire import check_integers, read_parts, sampled_in_words
from veilgraph.privacy.plain_text import counted
from veilgraph.privacy.strict_json import expect_number, expect_whole, number_text


@dataclass(frozen=True)
class LongitudinalFeatures(SampledAnswers):
    """Randomize the same m of d features in each of W rounds, each by L-GRR.

    A record is a history: the values of all features in the first round, then those in the second, and so on. Reports
    have the same order, with `NOT_ASKED` for the features that are not sampled. For learning, `evidence` combines the
    rounds into one code for each feature, with the exact channel from the value to it.

    Args:
        domain_sizes: gamma_i, the declared number of values of each feature.
        sampled: m, the number of features that each person samples for the whole series.
        epsilon: requested epsilon of a feature's permanent answer.
        round_epsilon: requested epsilon of a round's report about the permanent answer.
        rounds: W, the number of rounds.
        values: c, the number of different values of a feature that are answered; all, where it has fewer.
        people: number of people whose 1, 2, ... reports are combined.
        latest: whether the latest report of each person is taken alone.

    Three of five binary features, in twelve rounds: a record that never changes costs at most three times 1.

    >>> monthly = LongitudinalFeatures((2,) * 5, sampled=3, epsilon=1.0, round_epsilon=0.5, rounds=12, values=2)
    >>> loss = monthly.series_loss
    >>> round(loss.unchanged, 4), round(loss.same_pattern, 4), round(loss.any_histories, 4)
    (2.9826, 5.3473, 7.95)
    >>> reports = monthly.randomize(np.zeros((4, 12 * 5), dtype=np.int64), rng=np.random.default_rng(0))
    >>> (monthly.evidence(reports.reshape(4, 12, 5)) != NOT_ASKED).sum(axis=1).tolist()
    [3, 3, 3, 3]
    """

    title: ClassVar[str] = "L-GRR"
    wire_name: ClassVar[str] = "grr"

    epsilon: float
    round_epsilon: float
    rounds: int
    values: int = 1
    people: tuple[int, ...] = (1,)
    latest: bool = False
    series: Mapping[int, RoundEvidence] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        sizes = tuple(int(size) for size in self.domain_sizes)
        check_sampled(self.sampled, len(sizes))
        object.__setattr__(self, "domain_sizes", sizes)
        object.__setattr__(self, "series", {size: self._series_of(size) for size in sorted(set(sizes))})

    def _series_of(self, size: int) -> RoundEvidence:
        answered = min(self.values, size)
        return RoundEvidence(
            size,
            self.epsilon,
            self.round_epsilon,
            self.rounds,
            answered,
            optional=True,
            people=self.people,
            latest=self.latest,
        )

    @property
    def responses(self) -> tuple[RoundEvidence, ...]:
        """L-GRR of each feature, [features]."""
        return tuple(self.series[size] for size in self.domain_sizes)

    @cached_property
    def series_loss(self) -> SeriesLoss:
        """Epsilons of the whole series under its three neighbour relations: sums of the m largest of the features."""
        sums = {relation.key: self._sum_under(relation) for relation in HistoryRelation}
        return SeriesLoss(**sums, rounds=self.rounds, values=self.values)

    def _sum_under(self, relation: HistoryRelation) -> float:
        losses = sorted((self.series[size].series_loss.under(relation) for size in self.domain_sizes), reverse=True)
        return add_epsilons(*losses[: self.sampled])

    @property
    def privacy_loss(self) -> PrivacyLoss:
        """Epsilon for any two histories; of each feature, for two histories that differ in it alone."""
        by_size = {size: each.series_loss.any_histories for size, each in self.series.items()}
        return PrivacyLoss(
            user_level=self.series_loss.any_histories,
            attribute_level=tuple(by_size[size] for size in self.domain_sizes),
            series=self.series_loss,
        )

    def channel(self, feature: int) -> SymmetricChannel:
        """Return the channel from the value of a sampled feature to its evidence, on average over the people."""
        return self.series[self.domain_sizes[feature]].channel

    @property
    def document(self) -> dict[str, Any]:
        """Part of the campaign document about the permanent answers: a table for each feature."""
        return {
            "mechanism": self.wire_name,
            "epsilon": number_text(self.epsilon),
            "sampled": self.sampled,
            "tables": [response.permanent.table.document for response in self.responses],
        }

    @classmethod
    def read_series(cls, stated: object, domain_sizes: tuple[int, ...], rounds: Mapping[str, Any]) -> Self:
        """Read the parts of a document about the features and about their rounds.

        Args:
            stated: part about the permanent answers.
            domain_sizes: gamma_i.
            rounds: part about the rounds, with the keys that all series have.
        """
        parts, epsilon = read_parts(stated, {"sampled", "tables"}, "features")
        if parts["mechanism"] != cls.wire_name:
            raise CampaignError("features.mechanism is not grr: the permanent answers of a series are by GRR")
        sampled = expect_whole(parts["sampled"], "features.sampled", 1, len(domain_sizes))
        of_round = expect_number(rounds["features"]["epsilon"], "rounds.features.epsilon")
        mechanism = cls(domain_sizes, sampled, epsilon, of_round, rounds["count"], rounds["values"])
        check_integers(mechanism, parts, "features")
        return mechanism

    @property
    def round_document(self) -> dict[str, Any]:
        """Part of the campaign document about the reports of a round."""
        tables = [response.round.table.document for response in self.responses]
        return {"epsilon": number_text(self.round_epsilon), "tables": tables}

    def method_in_words(self, question: str) -> str:
        """Say to people how a device randomizes the answers to questions."""
        rest = "the report says nothing about the rest"
        method = sampled_in_words(self, question, again=", the same ones in every round", rest=rest)
        return f"Asked in {counted(self.rounds, 'round')}. {method}"

    def combining(self, reports: NDArray[Any], *, latest: bool = False) -> LongitudinalFeatures:
        """Return the mechanism with the channels of the evidence in reports, [people, rounds, features]."""
        sent = (reports != NOT_ASKED).any(axis=2).sum(axis=1)
        return replace(self, people=people_by_reports(sent, latest=latest), latest=latest)

    def evidence(self, reports: NDArray[Any]) -> NDArray[Any]:
        """Return the code that the rounds of each person name most often, of several the latest, [people, features].

        Args:
            reports: codes of the rounds, [people, rounds, features]; `NOT_ASKED` where there is none.
        """
        found = np.full((len(reports), self.num_features), NOT_ASKED, dtype=self.code_type)
        for i, response in enumerate(self.responses):
            named = response.named(reports[:, :, i])
            found[:, i] = np.where(named.any(axis=1), named.argmax(axis=1), NOT_ASKED)
        return found

    def randomize(self, values: NDArray[Any], *, rng: RandomIntegers) -> NDArray[Any]:
        """Draw the reports of all rounds for each history, a row of `values`, [people, rounds * features]."""
        check_table(values, self.domain_sizes * self.rounds)
        people, features = len(values), self.num_features
        subsets = list(draw_subsets(people, num_features=features, sampled=self.sampled, rng=rng))
        chosen = [np.flatnonzero(subset) for subset in subsets]
        drawn = [
            (
                response.answered_histories(values[rows, i::features].astype(np.int64)),
                response.no_permanent_answers(len(rows)),
            )
            for i, (response, rows) in enumerate(zip(self.responses, chosen, strict=True))
        ]
        reports = np.full(values.shape, NOT_ASKED, dtype=self.code_type)
        for number in range(self.rounds):
            for i, (response, (answered, permanent)) in enumerate(zip(self.responses, drawn, strict=True)):
                column = number * features + i
                reports[chosen[i], column] = response.report_round(answered[:, number], permanent, rng=rng)
        return reports

    @property
    def record_values(self) -> tuple[Record, ...]:
        """Values of each feature, round by round."""
        return tuple(tuple(range(size)) for size in self.domain_sizes * self.rounds)

    def records(self) -> Iterator[Record]:
        """Iterate over all histories."""
        return itertools.product(*self.record_values)

    def reports(self) -> Iterator[Report]:
        """Iterate over all sets of sampled features and all their reports."""
        for asked in itertools.combinations(range(self.num_features), self.sampled):
            values = [range(size) if i in asked else (NOT_ASKED,) for i, size in enumerate(self.domain_sizes)]
            yield from itertools.product(*(values * self.rounds))

    def probability(self, report: Report, record: Record) -> Fraction:
        """Return the probability of the sampled set, times that of the reports of each of its features."""
        d, chance = self.num_features, Fraction(1, math.comb(self.num_features, self.sampled))
        for i, response in enumerate(self.responses):
            if report[i] != NOT_ASKED:
                chance *= response.probability(report[i::d], record[i::d])
        return chance

    def log_likelihood(self, reports: NDArray[Any], record: Record) -> NDArray[np.float64]:
        """Return the log of `probability` for many sequences of reports at once, [reports]."""
        d = self.num_features
        found = np.full(len(reports), -math.log(math.comb(d, self.sampled)))
        for i, response in enumerate(self.responses):
            asked = reports[:, i] != NOT_ASKED
            found[asked] += response.log_likelihood(reports[asked, i::d], record[i::d])
        return found

    def extreme_records(self) -> tuple[Record, Record]:
        """Return two histories in which each feature has two that are told apart best."""
        first, second = zip(*(response.extreme_records() for response in self.responses), strict=True)
        return _interleaved(first), _interleaved(second)


def _interleaved(histories: Sequence[Record]) -> Record:
    """Return the history of a record: the values of all features in the first round, then in the second, and so on."""
    return tuple(itertools.chain.from_iterable(zip(*histories, strict=True)))
