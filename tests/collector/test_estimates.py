"""Intervals cover the truth as often as they say."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.collection import Collection
from veilgraph.campaign.assemble import Codes, read_codes
from veilgraph.collector.dashboard import arrivals_chart
from veilgraph.collector.statistics import Z_95, Share, feature_marginals, label_marginal

COLLECTION = Collection.ring(4)
CAMPAIGN = COLLECTION.campaign


def codes(features: list[tuple[int, ...]], labels: list[int]) -> Codes:
    """Codes of nodes that reported everything."""
    return Codes(
        features=np.array(features, dtype=np.uint8).reshape(-1, 3),
        labels=np.array(labels, dtype=np.int64),
        has_features=np.ones(len(features), dtype=np.bool_),
        has_label=np.ones(len(labels), dtype=np.bool_),
    )


def test_95_of_100_intervals_cover_the_truth() -> None:
    """2,000 collections of 500 people drawn from a population; the share covered is within four standard errors."""
    rng = np.random.default_rng(0)
    truth, people, draws = 0.3, 500, 2000
    mechanism = CAMPAIGN.label_mechanism
    assert mechanism is not None
    labels = (rng.random((draws, people)) >= truth).astype(np.int64)
    covered = 0
    for row in mechanism.randomize(labels, rng=rng):
        marginal = label_marginal(CAMPAIGN, codes([], row))
        assert marginal is not None
        covered += abs(marginal.shares[0].estimate - truth) <= Z_95 * marginal.shares[0].error
    assert abs(covered / draws - 0.95) < 4 * np.sqrt(0.95 * 0.05 / draws)


def test_what_was_left_out_is_not_counted() -> None:
    reports = [
        COLLECTION.report("n0", features=(0, 1, 3), label=1),
        COLLECTION.report("n1", features=(2, 1, 0), label=None),
        COLLECTION.report("n2", features=None, label=0),
    ]
    with_all = read_codes(CAMPAIGN, COLLECTION.graph, reports)
    assert label_marginal(CAMPAIGN, with_all) == label_marginal(CAMPAIGN, codes([], [1, 0]))
    assert feature_marginals(CAMPAIGN, with_all) == feature_marginals(CAMPAIGN, codes([(0, 1, 3), (2, 1, 0)], []))


def test_shares_of_a_feature_sum_to_one() -> None:
    marginals = feature_marginals(CAMPAIGN, codes([(0, 1, 3), (2, 1, 0), (2, 0, 0)], []))
    assert [len(marginal.shares) for marginal in marginals] == [3, 2, 4]
    for marginal in marginals:
        assert sum(share.estimate for share in marginal.shares) == pytest.approx(1)


def test_one_report_has_no_interval() -> None:
    one = codes([(0, 0, 0)], [1])
    assert label_marginal(CAMPAIGN, one) is None
    assert feature_marginals(CAMPAIGN, one) == []


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
