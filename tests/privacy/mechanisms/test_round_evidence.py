"""The class that a person's reports name most often, and its exact channel."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from veilgraph.errors import DomainError
from veilgraph.privacy.mechanisms import GRR, LongitudinalGRR, OSRandom, RoundEvidence
from veilgraph.privacy.mechanisms.round_evidence import NO_REPORT, most_frequent_share


@pytest.mark.parametrize(("size", "count"), [(2, 1), (2, 2), (2, 5), (3, 3), (3, 4), (4, 4), (5, 3)])
def test_the_share_of_the_most_frequent_report_is_that_of_enumeration(size: int, count: int) -> None:
    series = LongitudinalGRR(size, 1.0, 1.0, rounds=count)
    reports = np.array(list(itertools.product(range(size), repeat=count)))
    evidence = RoundEvidence.of(series, reports)
    found = evidence.named(reports).argmax(axis=1)
    keep, other = series.round.channel.keep, series.round.channel.other
    chances = [keep ** int(n) * other ** (count - int(n)) for n in (reports == 0).sum(axis=1)]
    assert sum(compress(chances, found == 0), Fraction(0)) == most_frequent_share(series.round.table, count)
    # The other classes are equally likely, so the channel is symmetric.
    assert len({sum(compress(chances, found == other), Fraction(0)) for other in range(1, size)}) <= 1
    assert evidence.people == (0,) * (count - 1) + (size**count,)


def compress(chances: list[Fraction], selected: np.ndarray) -> list[Fraction]:
    return list(itertools.compress(chances, selected))


def test_the_channel_is_that_of_the_whole_series_by_enumeration() -> None:
    series = LongitudinalGRR(3, 2.0, 1.0, rounds=4)
    reports = np.array(list(series.reports()))
    evidence = RoundEvidence.of(series, reports)
    found = evidence.named(reports).argmax(axis=1)
    chances = [series.probability(report, (0,) * 4) for report in series.reports()]
    assert sum(compress(chances, found == 0), Fraction(0)) == evidence.channel.keep
    assert sum(compress(chances, found == 1), Fraction(0)) == evidence.channel.other


def test_one_report_has_the_channel_of_both_tables_in_sequence() -> None:
    series = LongitudinalGRR(5, 2.0, 1.0, rounds=6, values=2)
    first, second = series.permanent.channel, series.round.channel
    keep = first.keep * second.keep + 4 * first.other * second.other
    one = RoundEvidence.of(series, series.randomize(np.zeros((9, 6), dtype=np.int64), rng=OSRandom()), latest=True)
    assert one.channel.keep == series.channel.keep == keep
    assert series.channel.row_sum == 1


def evidence_of(rounds: int, people: tuple[int, ...]) -> RoundEvidence:
    return RoundEvidence(5, 2.0, 1.0, rounds=rounds, people=people)


def test_more_reports_tell_more_and_never_more_than_the_permanent_answer() -> None:
    # Two reports that differ are as good as one, so that odd numbers are compared.
    kept = [evidence_of(12, (0,) * (n - 1) + (1,)).channel.keep for n in (1, 3, 5, 7, 9, 11)]
    assert kept == sorted(set(kept))
    assert kept[-1] < GRR(5, 2.0).channel.keep


def test_the_latest_or_the_most_frequent_report_is_taken_and_the_latest_breaks_ties() -> None:
    series = LongitudinalGRR(4, 2.0, 1.0, rounds=4)
    reports = np.array([[0, 0, 1, 3], [1, 2, NO_REPORT, NO_REPORT], [2, 1, 1, 2], [NO_REPORT] * 4])
    every = RoundEvidence.of(series, reports)
    assert classes(every.named(reports)) == [[0], [2], [2], []]
    assert every.people == (0, 1, 0, 2)
    latest = RoundEvidence.of(series, reports, latest=True)
    assert classes(latest.named(reports)) == [[3], [2], [2], []]
    assert latest.people == (3,)
    assert classes(every.named(every.blank(2))) == [[], []]


def classes(named: NDArray[np.bool_]) -> list[list[int]]:
    return [np.flatnonzero(row).tolist() for row in named]


def test_people_with_different_numbers_of_reports_have_the_mean_channel() -> None:
    one, three = (evidence_of(3, people).channel.keep for people in ((1,), (0, 0, 1)))
    assert evidence_of(3, (30, 0, 10)).channel.keep == Fraction(3, 4) * one + Fraction(1, 4) * three


def test_evidence_of_drawn_reports_follows_its_channel() -> None:
    series, people = LongitudinalGRR(4, 2.0, 1.0, rounds=5), 40_000
    reports = series.randomize(np.full((people, 5), 2), rng=np.random.default_rng(0))
    evidence = RoundEvidence.of(series, reports)
    keep = float(evidence.channel.keep)
    # Five standard deviations of a binomial share.
    assert abs(float(evidence.named(reports)[:, 2].mean()) - keep) < 5 * (keep * (1 - keep) / people) ** 0.5


@pytest.mark.parametrize(
    ("reports", "message"),
    [
        ([[4, 0]], r"outside 0\.\.3"),
        ([[-2, 0]], r"outside 0\.\.3"),
        ([[NO_REPORT, NO_REPORT]], "is empty"),
        ([[0, 0, 0]], "codes of 2 rounds"),
        ([0, 1], "codes of 2 rounds"),
    ],
)
def test_rows_that_are_not_reports_of_the_rounds_are_refused(reports: list[Any], message: str) -> None:
    with pytest.raises(DomainError, match=message):
        RoundEvidence(4, 2.0, 1.0, rounds=2).check_reports(np.array(reports))


def test_the_parts_of_a_document_are_read_as_they_were_written() -> None:
    series = RoundEvidence(3, 2.0, 1.0, rounds=4, values=2)
    rounds = {**series.round_document, "count": 4, "values": 2}
    assert RoundEvidence.read_series(series.document, 3, rounds) == series
