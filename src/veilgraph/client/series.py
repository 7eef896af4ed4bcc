"""A series: the same questions in rounds, by L-GRR from permanent answers, and what all rounds cost together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, localcontext
from functools import cache, lru_cache
from itertools import combinations, product
from math import comb, prod
from operator import sub
from typing import NamedTuple

from veilgraph.client.mechanisms import SampledFeatures, Table, are_chosen_codes, read_table
from veilgraph.client.reading import check_epsilon, longer_text, read_list, read_object
from veilgraph.client.refusals import CampaignError
from veilgraph.client.words import WORDS, Codes, ReportedFeatures, Word, uniform_below

MAX_ROUNDS = 36
_MAX_KINDS_OF_SERIES = 16
_MOST_DIVISIONS = 4_000


class Memory(NamedTuple):
    """What a device remembers of a series. It is private: permanent answers are kept by value."""

    answers: Mapping[int, int] = {}
    """Permanent answer of each value of the label that was answered."""
    current: int = -1
    """The value that was answered last."""
    reports: Mapping[int, int] = {}
    """Report of each round that was answered."""
    features: Mapping[int, Memory] = {}
    """The same for each feature that was chosen; a value that equals the domain size stands for one left out."""

    @property
    def rounds(self) -> set[int]:
        """Numbers of the rounds that were answered."""
        return set(self.reports).union(*(feature.reports for feature in self.features.values()))


class Series(NamedTuple):
    """A question in several rounds (L-GRR): a permanent answer for each value, and in each round a report about it."""

    permanent: Table
    round: Table
    rounds: int
    values: int
    optional: bool
    """Whether the answer may be left out, which counts as one more value."""

    @property
    def terms(self) -> tuple[Sequence[Decimal], ...]:
        """Terms 1 + s ((p2 / q2)**n - 1) for n = 0 to W; s is p1, q1, or the chance of an answer that is left out."""
        with localcontext(prec=60):
            shares = (Decimal(self.permanent.true) / WORDS, Decimal(self.permanent.other) / WORDS)
            odds = Decimal(self.round.true) / self.round.other
            return tuple(
                [1 + share * (odds**n - 1) for n in range(self.rounds + 1)]
                for share in (*shares, 1 / Decimal(self.permanent.domain_size))
            )

    @property
    def longest(self) -> int:
        """A report that no other one is longer than, as text."""
        return self.round.longest

    @property
    def costs(self) -> Mapping[str, Decimal]:
        """Epsilons of all rounds, by the relation between two histories."""
        return _series_costs(self)

    @property
    def user_level(self) -> Decimal:
        """Epsilon at user level: any two histories."""
        return self.costs["any_histories"]

    def answer(self, memory: Memory, value: int | None, number: int, word: Word) -> Memory:
        """Return the memory of a question with the report of a round about a value, or about none."""
        answers, left_out = dict(memory.answers), self.permanent.domain_size
        code = left_out if value is None else value
        if code not in answers and len(answers) >= self.values:
            code = memory.current
        if code not in answers:
            answers[code] = uniform_below(left_out, word) if code == left_out else self.permanent.report(code, word)
        return Memory(answers, code, {**memory.reports, number: self.round.report(answers[code], word)})

    def fits(self, reported: object) -> bool:
        """Return whether something read back is a report of a round."""
        return self.round.fits(reported)


@lru_cache(maxsize=256)
def _series_costs(series: Series) -> Mapping[str, Decimal]:
    """Return the epsilons of a question by relation.

    With x = (p2 / q2)**n - 1 for n equal reports, a value costs ln((1 + p1 x) / (1 + q1 x)).
    """
    rounds, groups = series.rounds, min(series.values, series.rounds)
    with localcontext(prec=60):
        single = [(own / other).ln() for own, other in zip(*series.terms[:2], strict=True)]
        return {
            "unchanged": single[rounds],
            "same_pattern": max(sum(single[n] for n in sizes) for sizes in _partitions(rounds, groups)),
            "any_histories": _any_histories(series, groups) if groups > 1 else single[rounds],
        }


def _any_histories(series: Series, groups: int) -> Decimal:
    """Return the largest log-ratio of the probabilities of all reports under any two histories.

    Sizes are the numbers of equal reports. The likeliest history gives the most frequent reports a value each; the
    least likely one divides all of them among values that they do not name, as long as there are any.
    """
    own, other, _ = series.terms
    size = series.permanent.domain_size

    def most(sizes: tuple[int, ...]) -> Decimal:
        named = prod((own[n] for n in sizes[:groups]), start=Decimal(1))
        if len(sizes) <= groups:
            return named
        named_sum = sum((own[n] for n in sizes[:groups]), Decimal(0))
        mean = (named_sum + sum(other[n] - 1 for n in sizes[groups:])) / groups
        agreeing = (Decimal(series.round.true) / series.round.other) ** sum(sizes[:groups])
        return min(named * prod((other[n] for n in sizes[groups:]), start=Decimal(1)), mean**groups, agreeing)

    bounds = []
    for sizes in _partitions(series.rounds, size):
        above = most(sizes)
        bounds.append((above / _unnamed(other, sizes, groups), above, sizes))
    largest = Decimal(1)
    for bound, above, sizes in sorted(bounds, reverse=True):
        if bound <= largest:
            break
        largest = max(largest, above / _least(series, sizes, groups))
    return largest.ln()


def _unnamed(other: Sequence[Decimal], sizes: Sequence[int], groups: int) -> Decimal:
    """Return the least probability of reports about `groups` values that no report names: they share evenly."""
    return prod(
        (sum((other[(n + i) // groups] for n in sizes), Decimal(1 - len(sizes))) for i in range(groups)),
        start=Decimal(1),
    )


def _least(series: Series, sizes: tuple[int, ...], groups: int) -> Decimal:
    """Return the least probability of reports: values that they name take a part, the unnamed ones the rest."""
    own, other, uniform = series.terms
    unnamed = min(series.permanent.domain_size - len(sizes), groups)
    parts = groups - max(unnamed, 1)
    if prod(comb(n + parts, parts) for n in sizes) > _MOST_DIVISIONS:
        return _unnamed(other, sizes, groups)
    # The number of equal reports of each value that may be a value of the history; None is an answer left out.
    columns: list[int | None] = [*([None] if series.optional else []), *range(len(sizes))]

    @cache
    def probability(value: int | None, counts: tuple[int, ...]) -> Decimal:
        terms = (uniform if value is None else own if i == value else other for i in range(len(counts)))
        return sum((term[n] for term, n in zip(terms, counts, strict=True)), Decimal(1 - len(counts)))

    @cache
    def least(values: tuple[int | None, ...], rest: tuple[int, ...]) -> Decimal:
        if not values:
            return _unnamed(other, rest, unnamed)
        if not unnamed and len(values) == 1:
            return probability(values[0], rest)
        return min(
            probability(values[0], taken) * least(values[1:], tuple(map(sub, rest, taken)))
            for taken in product(*(range(n + 1) for n in rest))
        )

    return min(least(values, sizes) for values in combinations(columns, groups - unnamed))


def _partitions(total: int, most: int, largest: int = MAX_ROUNDS) -> Iterator[tuple[int, ...]]:
    """Yield the falling sequences of at most `most` whole numbers that sum to `total`."""
    if total == 0:
        yield ()
    elif most > 0:
        for first in range(min(total, largest), 0, -1):
            for rest in _partitions(total - first, most - 1, first):
                yield first, *rest


class SeriesFeatures(NamedTuple):
    """Features in several rounds: the same `sampled` features in each, every one by a series of its own."""

    series: tuple[Series, ...]
    sampled: int

    @property
    def sizes(self) -> Codes:
        """Number of values of each feature."""
        return tuple(feature.permanent.domain_size for feature in self.series)

    @property
    def longest(self) -> ReportedFeatures:
        """What no report is longer than, as text: the longer of the last code and None for each feature."""
        return tuple(longer_text(feature.longest, None) for feature in self.series)

    def fits(self, reported: object) -> bool:
        """Return whether something read back is a report of a round."""
        return are_chosen_codes(reported, self.sizes, self.sampled)

    @property
    def costs(self) -> dict[str, Decimal]:
        """Epsilons of all rounds by relation: the sum over the `sampled` most revealing features."""
        with localcontext(prec=60):
            by_relation = {key: [feature.costs[key] for feature in self.series] for key in self.series[0].costs}
            return {key: sum(sorted(costs)[-self.sampled :], Decimal(0)) for key, costs in by_relation.items()}

    @property
    def user_level(self) -> Decimal:
        """Epsilon at user level: any two histories."""
        return self.costs["any_histories"]

    @property
    def attribute_levels(self) -> list[Decimal]:
        """Epsilon of each feature, for two histories that differ in it alone."""
        return [feature.user_level for feature in self.series]


def read_series_features(stated: object, permanent: SampledFeatures, count: int, values: int) -> SeriesFeatures:
    """Read the tables of the rounds of all features."""
    parts = read_object(stated, "epsilon tables", "rounds.features")
    check_epsilon(parts["epsilon"], "rounds.features.epsilon")
    entries = read_list(parts["tables"], "rounds.features.tables")
    if len(entries) != len(permanent.tables):
        raise CampaignError("rounds.features: there is not one table for each feature")
    series = tuple(
        Series(table, read_table(entry, table.domain_size), count, min(values, table.domain_size), optional=True)
        for entry, table in zip(entries, permanent.tables, strict=True)
    )
    if len(set(series)) > _MAX_KINDS_OF_SERIES:  # the costs of each take a moment
        raise CampaignError(f"the features of a series have more than {_MAX_KINDS_OF_SERIES} different tables")
    return SeriesFeatures(series, permanent.sampled)
