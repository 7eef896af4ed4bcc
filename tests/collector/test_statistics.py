"""Statistics of the dashboard: right, made seldom enough, and without torch."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support.blocked_imports import run_without
from tests.support.collection import Collection
from veilgraph.campaign import ReportCodes, read_codes
from veilgraph.collector.statistics import Share, StatisticsCache, compute_statistics, feature_marginals, label_marginal
from veilgraph.collector.store import ReportStore
from veilgraph.privacy.estimate import QUANTILE
from veilgraph.privacy.mechanisms import JointGRR, SubsetSelection
from veilgraph.privacy.mechanisms.feature_sampling import NOT_ASKED

COLLECTION = Collection.ring(10)
CAMPAIGN = COLLECTION.campaign


ESTIMATE_SHARES = """
from dataclasses import replace
from tests.support.collection import Collection
from veilgraph.campaign import read_codes
from veilgraph.collector.statistics import compute_statistics
ring = Collection.ring(10)
reports = [ring.report(f"n{i}") for i in range(10)]
statistics = compute_statistics(ring.campaign, ring.graph, read_codes(ring.campaign, ring.graph, reports))
shares = [sum(share.unbiased for share in marginal.shares) for marginal in (statistics.label, *statistics.features)]
five = replace(ring.campaign.schema, classes=tuple("abcde"))
sets = Collection.on(ring.graph, schema=five)
reports = [sets.report(f"n{i}", label=(i % 4, 4)) for i in range(10)]
statistics = compute_statistics(sets.campaign, sets.graph, read_codes(sets.campaign, sets.graph, reports))
shares.append(sum(share.unbiased for share in statistics.label.shares))
print(max(abs(share - 1) for share in shares) < 1e-9)
"""


def test_the_collector_does_not_load_torch() -> None:
    code = "import sys, veilgraph.collector.app, veilgraph.collector.server; print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


def test_the_dashboards_estimates_need_no_torch() -> None:
    result = run_without({"torch"}, ESTIMATE_SHARES)
    assert result.stdout.strip() == "True", result.stderr


def test_coverage_counts_nodes_by_degree_and_by_reach() -> None:
    codes = read_codes(COLLECTION.campaign, COLLECTION.graph, [COLLECTION.report("n0"), COLLECTION.report("n5")])
    statistics = compute_statistics(COLLECTION.campaign, COLLECTION.graph, codes)
    assert statistics.covered_nodes == 6  # both, and two neighbours each
    assert [(part.name, part.nodes, part.reports) for part in statistics.coverage] == [("2 to 3", 10, 2)]


def test_statistics_are_computed_again_after_new_reports_and_some_time(tmp_path: Path) -> None:
    store = ReportStore.open(f"sqlite:///{tmp_path}/reports.db")
    now = [0.0]

    def clock() -> float:
        now[0] += 0.25  # every step takes a quarter of a second
        return now[0]

    cache = StatisticsCache(COLLECTION.campaign, COLLECTION.graph, store, clock=clock)
    first = cache.get()
    assert cache.get() is first
    store.reports.put([COLLECTION.report("n0")], now=0)
    assert cache.get() is first, "they were computed again too soon"
    now[0] += 10
    assert cache.get().reports == 1
    store.close()


def codes(features: list[tuple[int, ...]], labels: list[int]) -> ReportCodes:
    """Codes of nodes that reported everything."""
    return ReportCodes(
        features=np.array(features, dtype=np.uint8).reshape(-1, 3),
        labels=np.array(labels, dtype=np.int64),
        has_features=np.ones(len(features), dtype=np.bool_),
        has_label=np.ones(len(labels), dtype=np.bool_),
        feature_mechanism=CAMPAIGN.feature_mechanism,
        label_mechanism=CAMPAIGN.label_mechanism,
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
        covered += abs(marginal.shares[0].unbiased - truth) <= QUANTILE * marginal.shares[0].error
    assert abs(covered / draws - 0.95) < 4 * np.sqrt(0.95 * 0.05 / draws)


def test_95_of_100_intervals_of_label_sets_cover_the_truth() -> None:
    """As above for five classes at epsilon_y = 1, in sets of two: every class of 2,000 collections of 500 people."""
    rng = np.random.default_rng(0)
    truth, people, draws = np.array([0.4, 0.3, 0.15, 0.1, 0.05]), 500, 2000
    schema = replace(CAMPAIGN.schema, classes=tuple("abcde"))
    campaign = Collection.on(COLLECTION.graph, schema=schema).campaign
    mechanism = campaign.label_mechanism
    assert isinstance(mechanism, SubsetSelection)
    assert mechanism.set_size == 2
    covered = np.zeros(5)
    for labels in rng.choice(5, size=(draws, people), p=truth):
        sets = mechanism.randomize(labels, rng=rng)
        reported = replace(codes([], []), labels=sets, has_label=np.ones(people, dtype=bool), label_mechanism=mechanism)
        marginal = label_marginal(campaign, reported)
        assert marginal is not None
        estimates, errors = np.array([(share.unbiased, share.error) for share in marginal.shares]).T
        assert estimates.sum() == pytest.approx(1)
        covered += abs(estimates - truth) <= QUANTILE * errors
    assert (abs(covered / draws - 0.95) < 4 * np.sqrt(0.95 * 0.05 / draws)).all()


def test_features_that_joint_grr_did_not_ask_about_are_not_counted() -> None:
    """100,000 people answer about one of three features each; the shares are within five standard errors."""
    rng, mechanism = np.random.default_rng(0), JointGRR((3, 2, 4), sampled=1, epsilon=1.0)
    campaign = replace(CAMPAIGN, asked=replace(CAMPAIGN.asked, feature_mechanism=mechanism))
    records = np.stack([rng.integers(size, size=100_000) for size in (3, 2, 4)], axis=1)
    features = mechanism.randomize(records, rng=rng)
    reported = replace(codes([], []), features=features, has_features=np.ones(100_000, dtype=bool))
    for marginal, size in zip(feature_marginals(campaign, reported), (3, 2, 4), strict=True):
        assert all(abs(share.unbiased - 1 / size) < 5 * share.error for share in marginal.shares)
    few = replace(codes([], []), features=features[:2], has_features=np.ones(2, dtype=bool))
    asked = (few.features != NOT_ASKED).sum(axis=0)
    assert len(feature_marginals(campaign, few)) == int((asked >= 2).sum())


def test_parts_that_were_left_out_are_not_counted() -> None:
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
        assert sum(share.unbiased for share in marginal.shares) == pytest.approx(1)


def test_one_report_has_no_interval() -> None:
    one = codes([(0, 0, 0)], [1])
    assert label_marginal(CAMPAIGN, one) is None
    assert feature_marginals(CAMPAIGN, one) == []


def test_a_share_that_is_shown_is_possible_and_its_interval_holds_it() -> None:
    """An unbiased -21.8 % stood beside the interval 0.0 to 21.7."""
    shown = Share(name="", unbiased=-0.218, error=0.222, reports=9).estimate
    assert (shown.value, shown.low, shown.point) == (0, 0, f"at most {100 * shown.high:.1f} %")
    assert shown.high == pytest.approx(QUANTILE * 0.222)
