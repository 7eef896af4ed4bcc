"""Answers about groups: the difference estimator, its intervals, post-stratification, and small groups."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from veilgraph.deploy.group_shares import EMPTY, GroupShares, estimate_shares
from veilgraph.errors import RunError
from veilgraph.graph import Graph, PerturbedGraph
from veilgraph.graph.attribute_kinds import Categories
from veilgraph.models.veil.contamination import Contamination
from veilgraph.privacy.mechanisms import GRR, LabelMechanism
from veilgraph.privacy.mechanisms.registry import best_label_mechanism
from veilgraph.privacy.schema import FeatureSchema

CERTAIN = GRR(2, math.inf)


def collected(
    truth: NDArray[np.int64],
    reporting: NDArray[np.bool_],
    mechanism: LabelMechanism = CERTAIN,
    rng: np.random.Generator | None = None,
) -> PerturbedGraph:
    nodes, rng = len(truth), rng or np.random.default_rng(0)
    names = tuple(f"c{code}" for code in range(mechanism.domain_size))
    drawn = np.asarray(mechanism.randomize(truth[:, None], rng=rng)).reshape(mechanism.blank(nodes).shape)
    return PerturbedGraph(
        graph=Graph.without_edges(nodes),
        schema=FeatureSchema(classes=names),
        features=np.zeros((nodes, 0)),
        labels=drawn,
        has_features=np.zeros(nodes, dtype=np.bool_),
        has_label=reporting,
        feature_mechanism=None,
        label_mechanism=mechanism,
    )


def columns(share: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return predictions for two classes, [nodes, 2]."""
    return np.stack([1 - share, share], axis=1)


def values(found: GroupShares) -> dict[tuple[str | None, str], float]:
    return {(share.group, share.name): share.value for share in found.shares}


def test_without_noise_and_with_everybody_shares_are_those_of_the_people() -> None:
    truth = np.arange(90) % 3 % 2
    by = Categories.of("village", ["A" if node < 45 else "B" for node in range(90)])
    found = estimate_shares(collected(truth, np.ones(90, dtype=np.bool_)), by)
    assert values(found) == pytest.approx({(g, f"c{c}"): [2 / 3, 1 / 3][c] for g in (None, "A", "B") for c in (0, 1)})
    assert all(share.low == share.high for share in found.shares)


def test_groups_count_with_their_people_and_not_with_their_reports() -> None:
    """All of A have the class and all reported; nobody of B has it and few reported."""
    truth = (np.arange(200) < 100).astype(np.int64)
    reporting = np.arange(200) < 120
    by = Categories.of("village", ["A" if node < 100 else "B" for node in range(200)])
    plain, stratified = (estimate_shares(collected(truth, reporting), each) for each in (None, by))
    assert values(plain)[None, "c1"] == pytest.approx(100 / 120)
    assert values(stratified)[None, "c1"] == pytest.approx(0.5)


def test_the_estimate_of_a_group_is_the_mean_prediction_and_the_mean_of_unbiased_residuals() -> None:
    rng, mechanism = np.random.default_rng(3), GRR(2, 2.0)
    chance = rng.uniform(0.02, 0.98, 4000)
    truth, reporting = (rng.random(4000) < chance).astype(np.int64), rng.random(4000) < 0.3
    reports = collected(truth, reporting, mechanism, rng)
    by = Categories.of("half", ["A" if node < 2000 else "B" for node in range(4000)])
    found = estimate_shares(reports, by, predictions=columns(chance))
    debiased = (reports.labels - float(mechanism.channel.other)) / float(mechanism.channel.gain)
    for name, inside in (("A", np.arange(4000) < 2000), ("B", np.arange(4000) >= 2000)):
        expected = chance[inside].mean() + (debiased - chance)[inside & reporting].mean()
        assert values(found)[name, "c1"] == pytest.approx(expected)
    assert all(share.assisted for share in found.shares)
    without = estimate_shares(reports, by)
    assert all(a.high - a.low < b.high - b.low for a, b in zip(found.shares, without.shares, strict=True))


def test_a_model_that_knows_nothing_is_not_used() -> None:
    rng = np.random.default_rng(0)
    truth, reporting = rng.integers(0, 2, 1000), rng.random(1000) < 0.5
    reports = collected(truth, reporting, GRR(2, 3.0), rng)
    found = estimate_shares(reports, predictions=columns(rng.uniform(0.01, 0.99, 1000)))
    assert not any(share.assisted for share in found.shares)
    assert found.shares == estimate_shares(reports).shares


def test_there_is_no_statement_about_a_group_with_too_few_reports() -> None:
    cells = ["A"] * 300 + ["B"] * 20 + [None] * 40
    truth, by = np.arange(360) % 2, Categories.of("village", cells)
    found = estimate_shares(collected(truth, np.ones(360, dtype=np.bool_), GRR(2, 1.0)), by, level=0.9)
    # n = 1.960^2 / (4 tanh(1/2)^2 0.25^2)
    assert found.fewest == 72
    assert found.unstated == 2
    assert not {"B", EMPTY} & set(str(found.document).split("'"))
    assert {share.group for share in found.shares} == {None, "A"}
    assert found.statements == 2
    assert [share.name for share in found.told] == ["c1", "c1"]
    assert list(found.table["group"].fillna("")) == ["", "", "A", "A"]


@pytest.mark.parametrize("half_width", [0.25, 10.0])
def test_no_level_and_no_width_lead_to_a_statement_about_few_people(half_width: float) -> None:
    """The one report of a group is its person's, and without noise it is that person's answer."""
    by = Categories.of("village", ["A"] * 300 + ["B"] + ["C"] * 9)
    reports = collected(np.arange(310) % 2, np.ones(310, dtype=np.bool_))
    for level in (0.01, 0.3, 0.95):
        found = estimate_shares(reports, by, level=level, half_width=half_width)
        assert ({share.group for share in found.shares}, found.unstated) == ({None, "A"}, 2)
    small = estimate_shares(collected(np.arange(9) % 2, np.ones(9, dtype=np.bool_)), level=0.3, half_width=half_width)
    assert (small.shares, small.unstated) == ((), 0)


def test_a_statement_about_many_groups_is_wider_than_one_about_each() -> None:
    truth, cells = np.arange(1000) % 2, [str(node // 100) for node in range(1000)]
    found = estimate_shares(collected(truth, np.ones(1000, dtype=np.bool_), GRR(2, 2.0)), Categories.of("g", cells))
    assert found.statements == 11
    assert all(s.low_together < s.low < s.high < s.high_together for s in found.shares)


def test_reports_that_were_not_randomized_are_taken_out() -> None:
    """A fifth of the reports name the last class whatever is true: without noise that is exact."""
    truth = np.arange(2000) % 3
    named = np.where(np.arange(2000) % 5 == 0, 2, truth)
    reports = collected(named, np.ones(2000, dtype=np.bool_), GRR(3, math.inf))
    lies = Contamination(share=0.2, targets=(0.0, 0.0, 1.0))
    found = estimate_shares(reports, contamination=lies)
    assert [share.value for share in found.shares] == pytest.approx([1 / 3] * 3, abs=0.002)
    assert estimate_shares(reports).shares[2].low > 0.4


@pytest.mark.parametrize("level", [0.0, 1.0, 90.0])
def test_a_level_is_between_0_and_1(level: float) -> None:
    with pytest.raises(RunError, match="above 0 and below 1"):
        estimate_shares(collected(np.zeros(9, dtype=np.int64), np.ones(9, dtype=np.bool_)), level=level)


def test_without_reports_there_is_nothing_to_say() -> None:
    with pytest.raises(RunError, match="no label reports"):
        estimate_shares(collected(np.zeros(9, dtype=np.int64), np.zeros(9, dtype=np.bool_)))


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_intervals_with_a_model_hold_at_their_level(epsilon: float) -> None:
    """Over who reports and over randomization; the people are fixed, three in ten report, and groups have 60."""
    rng, mechanism = np.random.default_rng(5), best_label_mechanism(3, epsilon)
    chances = rng.dirichlet([0.3, 0.3, 0.3], 1200)
    truth = (rng.random((1200, 1)) > chances.cumsum(axis=1)).sum(axis=1).clip(0, 2)
    by = Categories.of("group", [str(node % 20) for node in range(1200)])
    held, draws = [], 100
    for _ in range(draws):
        reports = collected(truth, rng.random(1200) < 0.5, mechanism, rng)
        found = estimate_shares(reports, by, predictions=chances, level=0.9, half_width=10)
        for share in found.shares:
            inside = np.ones(1200, dtype=np.bool_) if share.group is None else np.arange(1200) % 20 == int(share.group)
            held.append(share.low <= (truth[inside] == int(share.name[1])).mean() <= share.high)
    assert (
        0.87 <= np.mean(held) <= 0.93
    )  # 6,300 intervals: a standard error of 0.4 points, of 0.7 if three count as one
