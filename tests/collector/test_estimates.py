"""Intervals cover the truth as often as they say."""

from __future__ import annotations

import numpy as np
import pytest

from tests.collector.collection import Collection
from veilgraph.collector.charts import arrivals_chart
from veilgraph.collector.estimates import Z_95, Share, Tally, feature_marginals, label_marginal, tally

COLLECTION = Collection.ring(4)
CAMPAIGN = COLLECTION.campaign


def test_codes_are_counted_and_missing_parts_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("veilgraph.collector.estimates._PAGE", 2)
    reports = [
        COLLECTION.report("n0", features=(0, 1, 3), label=1),
        COLLECTION.report("n1", features=(2, 1, 0), label=None),
        COLLECTION.report("n2", features=None, label=0),
        COLLECTION.report("n3", features=(2, 0, 0), label=1),
    ]
    counts = tally(CAMPAIGN, reports)
    assert [count.tolist() for count in counts.features] == [[1, 0, 2], [1, 2], [2, 0, 0, 1]]
    assert counts.label.tolist() == [1, 2]


def test_95_of_100_intervals_cover_the_truth() -> None:
    """2,000 collections of 500 people drawn from a population; the share covered is within four standard errors."""
    rng = np.random.default_rng(0)
    truth, people, draws = np.array([0.3, 0.7]), 500, 2000
    mechanism = CAMPAIGN.label_mechanism
    assert mechanism is not None
    labels = rng.choice(2, p=truth, size=(draws, people))
    reported = mechanism.randomize(labels, rng=rng)
    covered = 0
    for row in reported:
        counts = Tally(features=(np.zeros(3, int),) * 3, label=np.bincount(row, minlength=2))
        marginal = label_marginal(CAMPAIGN, counts)
        assert marginal is not None
        covered += abs(marginal.shares[0].estimate - truth[0]) <= Z_95 * marginal.shares[0].error
    assert abs(covered / draws - 0.95) < 4 * np.sqrt(0.95 * 0.05 / draws)


def test_shares_of_a_feature_sum_to_one() -> None:
    rng = np.random.default_rng(0)
    counts = Tally(features=tuple(rng.integers(1, 100, size) for size in (3, 2, 4)), label=np.zeros(2, int))
    for marginal in feature_marginals(CAMPAIGN, counts):
        assert sum(share.estimate for share in marginal.shares) == pytest.approx(1)


def test_one_report_has_no_interval() -> None:
    counts = Tally(features=(np.array([1, 0, 0]),) * 3, label=np.array([1, 0]))
    assert label_marginal(CAMPAIGN, counts) is None
    assert feature_marginals(CAMPAIGN, counts) == []


def test_an_interval_is_drawn_within_what_is_possible() -> None:
    assert (Share(name="", estimate=-0.5, error=0.1).low, Share(name="", estimate=1.5, error=0.1).high) == (0, 1)


def test_a_chart_of_years_has_few_bars_and_all_reports() -> None:
    hours = [(3600 * 1000 * i, 2) for i in range(60)]
    chart = arrivals_chart(hours)
    assert chart is not None
    assert len(chart.bars) <= 120
    assert chart.line.endswith(",0")
    assert arrivals_chart([]) is None


def test_a_chart_after_the_clock_was_set_back_begins_at_the_earliest_hour() -> None:
    chart = arrivals_chart(sorted([(7200, 1), (0, 1)]))
    assert chart is not None
    assert chart.first == "1970-01-01 00:00"
