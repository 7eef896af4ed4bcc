"""The multi-bit mechanism."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilgraph.errors import BudgetError, DomainError
from veilgraph.privacy.audit import statistical_audit
from veilgraph.privacy.mechanisms import MultiBit

LOWER, UPPER = (-2.0, 0.0, 10.0), (2.0, 1.0, 20.0)


@settings(deadline=None)
@given(positions=st.tuples(*[st.floats(0, 1)] * 3), epsilon=st.floats(0.01, 5))
def test_the_probability_of_plus_one_rises_linearly_between_the_ends(
    positions: tuple[float, float, float], epsilon: float
) -> None:
    mechanism = MultiBit(LOWER, UPPER, sampled=1, epsilon=epsilon)
    record = tuple(min(low + t * (high - low), high) for t, low, high in zip(positions, LOWER, UPPER, strict=True))
    for i, t in enumerate(positions):
        report = (0,) * i + (1,) + (0,) * (2 - i)
        formula = 1 / (math.exp(epsilon) + 1) + t * math.tanh(epsilon / 2)
        assert float(mechanism.probability(report, record)) == pytest.approx(formula / 3, abs=1e-14)


@settings(deadline=None)
@given(
    x=st.tuples(*[st.floats(low, high) for low, high in zip(LOWER, UPPER, strict=True)]),
    other=st.tuples(*[st.floats(low, high) for low, high in zip(LOWER, UPPER, strict=True)]),
    epsilon=st.floats(0.01, 5),
)
def test_no_two_records_within_the_ranges_are_further_apart_than_the_corners(
    x: tuple[float, ...], other: tuple[float, ...], epsilon: float
) -> None:
    mechanism = MultiBit(LOWER, UPPER, sampled=2, epsilon=epsilon)
    corners = (mechanism.table.true / mechanism.table.other) ** 2
    for report in mechanism.reports():
        ratio = mechanism.probability(report, x) / mechanism.probability(report, other)
        assert float(ratio) <= corners * (1 + 1e-12)


def test_every_report_has_as_many_bits_as_features_were_sampled() -> None:
    mechanism = MultiBit((0.0,) * 20, (1.0,) * 20, sampled=7, epsilon=1.0)
    reports = mechanism.randomize(np.full((500, 20), 0.5), rng=np.random.default_rng(0))
    assert set(np.unique(reports)) == {-1, 0, 1}
    assert (abs(reports).sum(axis=1) == 7).all()


def test_a_value_inside_the_range_has_its_own_probability() -> None:
    mechanism = MultiBit(LOWER, UPPER, sampled=3, epsilon=1.0)
    record, people = (-1.0, 0.9, 15.0), 40_000
    chances = 1 / (math.e + 1) + np.array([0.25, 0.9, 0.5]) * math.tanh(0.5)
    reports = mechanism.randomize(np.tile(record, (people, 1)), rng=np.random.default_rng(0))
    # Five standard errors of a binomial share.
    assert (abs((reports > 0).mean(axis=0) - chances) < 5 * np.sqrt(chances * (1 - chances) / people)).all()


def test_an_infinite_epsilon_reports_the_side_of_every_sampled_corner() -> None:
    mechanism = MultiBit(LOWER, UPPER, sampled=3, epsilon=math.inf)
    corners = np.array(list(mechanism.records()))
    reports = mechanism.randomize(corners, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(reports, np.where(corners == UPPER, 1, -1))
    assert mechanism.privacy_loss.user_level == math.inf


def test_the_sign_channel_and_the_answering_rate_are_the_marginal_of_a_feature() -> None:
    mechanism = MultiBit((0.0,) * 4, (1.0,) * 4, sampled=2, epsilon=1.0)
    rate, channel = mechanism.answering_rate, mechanism.channel(0)
    for end, signs in zip((0.0, 1.0), channel.matrix, strict=True):
        for bit, chance in zip((-1, 1, 0), (*(rate * sign for sign in signs), 1 - rate), strict=True):
            reports = [report for report in mechanism.reports() if report[0] == bit]
            assert sum(mechanism.probability(report, (end,) * 4) for report in reports) == chance


def test_the_ends_of_a_range_may_be_integers() -> None:
    mechanism = MultiBit((-1, -1), (1, 1), sampled=1, epsilon=1.0)
    assert mechanism == MultiBit((-1.0, -1.0), (1.0, 1.0), sampled=1, epsilon=1.0)
    assert not statistical_audit(mechanism, trials=2000, rng=np.random.default_rng(0), fresh_processes=False).refuted


@pytest.mark.parametrize(
    ("low", "high"), [(1.0, 1.0), (2.0, 1.0), (0.0, math.inf), (-math.inf, 0.0), (math.nan, 1.0), (-1e308, 1e308)]
)
def test_an_empty_or_infinite_range_is_refused(low: float, high: float) -> None:
    with pytest.raises(BudgetError, match=r"feature 1: range .* is empty or infinite"):
        MultiBit((0.0, low), (1.0, high), sampled=1, epsilon=1.0)


def test_ranges_need_both_ends() -> None:
    with pytest.raises(BudgetError, match="2 lower ends but 1 upper ends"):
        MultiBit((0.0, 0.0), (1.0,), sampled=1, epsilon=1.0)


@pytest.mark.parametrize("sampled", [0, 3])
def test_an_impossible_number_of_sampled_features_is_refused(sampled: int) -> None:
    with pytest.raises(BudgetError, match=f"sampled is {sampled} but there are 2 features"):
        MultiBit((0.0, 0.0), (1.0, 1.0), sampled=sampled, epsilon=1.0)


def test_a_missing_value_is_refused() -> None:
    people = np.full((4, 3), [0.0, 0.5, 15.0])
    people[2, 1] = math.nan
    with pytest.raises(DomainError, match=r"feature 1, row 2: outside the declared range 0\.0\.\.1\.0"):
        MultiBit(LOWER, UPPER, sampled=1, epsilon=1.0).randomize(people, rng=np.random.default_rng(0))
