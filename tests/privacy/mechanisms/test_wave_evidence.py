"""The class that a person's reports name most often, and its exact channel."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from veilgraph.errors import DomainError
from veilgraph.privacy.mechanisms import GRR, LongitudinalGRR, WaveEvidence
from veilgraph.privacy.mechanisms.wave_evidence import NO_REPORT, most_frequent_share


@pytest.mark.parametrize(("size", "count"), [(2, 1), (2, 2), (2, 5), (3, 3), (3, 4), (4, 4), (5, 3)])
def test_the_share_of_the_most_frequent_report_is_that_of_enumeration(size: int, count: int) -> None:
    series = LongitudinalGRR(size, 1.0, 1.0, waves=count)
    reports = np.array(list(itertools.product(range(size), repeat=count)))
    evidence, found = WaveEvidence.combine(series, reports)
    keep, other = series.wave.channel.keep, series.wave.channel.other
    chances = [keep ** int(n) * other ** (count - int(n)) for n in (reports == 0).sum(axis=1)]
    assert sum(compress(chances, found == 0), Fraction(0)) == most_frequent_share(series.wave.table, count)
    # The other classes are equally likely, so the channel is symmetric.
    assert len({sum(compress(chances, found == other), Fraction(0)) for other in range(1, size)}) <= 1
    assert evidence.people == (0,) * (count - 1) + (size**count,)


def compress(chances: list[Fraction], selected: np.ndarray) -> list[Fraction]:
    return list(itertools.compress(chances, selected))


def test_the_channel_is_that_of_the_whole_series_by_enumeration() -> None:
    series = LongitudinalGRR(3, 2.0, 1.0, waves=4)
    evidence, found = WaveEvidence.combine(series, np.array(list(series.reports())))
    chances = [series.probability(report, (0,) * 4) for report in series.reports()]
    assert sum(compress(chances, found == 0), Fraction(0)) == evidence.channel.keep
    assert sum(compress(chances, found == 1), Fraction(0)) == evidence.channel.other


def test_one_report_has_the_channel_of_both_tables_in_sequence() -> None:
    series = LongitudinalGRR(5, 2.0, 1.0, waves=6, values=2)
    first, second = series.permanent.channel, series.wave.channel
    keep = first.keep * second.keep + 4 * first.other * second.other
    assert WaveEvidence(series).channel.keep == series.channel.keep == keep
    assert series.channel.row_sum == 1


def test_more_reports_tell_more_and_never_more_than_the_permanent_answer() -> None:
    series = LongitudinalGRR(5, 2.0, 1.0, waves=12)
    # Two reports that differ are as good as one, so that odd numbers are compared.
    kept = [WaveEvidence(series, (0,) * (n - 1) + (1,)).channel.keep for n in (1, 3, 5, 7, 9, 11)]
    assert kept == sorted(set(kept))
    assert kept[-1] < GRR(5, 2.0).channel.keep


def test_the_latest_or_the_most_frequent_report_is_taken_and_the_latest_breaks_ties() -> None:
    series = LongitudinalGRR(4, 2.0, 1.0, waves=4)
    reports = np.array([[0, 0, 1, 3], [1, 2, NO_REPORT, NO_REPORT], [2, 1, 1, 2], [NO_REPORT] * 4])
    evidence, found = WaveEvidence.combine(series, reports)
    assert found.tolist() == [0, 2, 2, NO_REPORT]
    assert evidence.people == (0, 1, 0, 2)
    evidence, found = WaveEvidence.combine(series, reports, latest=True)
    assert found.tolist() == [3, 2, 2, NO_REPORT]
    assert evidence.people == (3,)


def test_people_with_different_numbers_of_reports_have_the_mean_channel() -> None:
    series = LongitudinalGRR(4, 2.0, 1.0, waves=3)
    one, three = (WaveEvidence(series, people).channel.keep for people in ((1,), (0, 0, 1)))
    assert WaveEvidence(series, (30, 0, 10)).channel.keep == Fraction(3, 4) * one + Fraction(1, 4) * three


def test_drawn_evidence_follows_its_channel() -> None:
    evidence, people = WaveEvidence(LongitudinalGRR(4, 2.0, 1.0, waves=5), (0, 0, 0, 0, 1)), 40_000
    drawn = evidence.randomize(np.full(people, 2), rng=np.random.default_rng(0))
    keep = float(evidence.channel.keep)
    # Five standard deviations of a binomial share.
    assert abs(float((drawn == 2).mean()) - keep) < 5 * (keep * (1 - keep) / people) ** 0.5


def test_classes_outside_the_domain_are_refused() -> None:
    with pytest.raises(DomainError, match=r"outside 0\.\.3"):
        WaveEvidence(LongitudinalGRR(4, 2.0, 1.0, waves=5)).check_reports(np.array([4]))
