"""L-GRR: what all waves of a series reveal, by enumeration of histories and reports."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from veilgraph.errors import BudgetError
from veilgraph.privacy.accounting import guarantee_of
from veilgraph.privacy.audit import statistical_audit
from veilgraph.privacy.mechanisms import LongitudinalGRR
from veilgraph.privacy.mechanisms.integer_table import log_ratio
from veilgraph.privacy.mechanisms.longitudinal_grr import MAX_WAVES

SERIES = (
    LongitudinalGRR(2, 2.0, 1.0, waves=5, values=2),
    LongitudinalGRR(3, 2.0, 1.0, waves=4, values=2),
    LongitudinalGRR(3, 0.2, 3.0, waves=4, values=2),
    LongitudinalGRR(3, 2.0, 1.0, waves=4, values=3),
    LongitudinalGRR(4, 2.0, 1.0, waves=4, values=2),
    LongitudinalGRR(4, 0.5, 0.5, waves=3, values=3),
    LongitudinalGRR(5, 1.0, 2.0, waves=3, values=2),
)
every_series = pytest.mark.parametrize("series", SERIES, ids=repr)


def log_probabilities(series: LongitudinalGRR) -> tuple[list[tuple[int, ...]], np.ndarray]:
    """Return all histories, and the log-probability of each sequence of reports (column) given each (row)."""
    reports = np.array(list(series.reports()))
    histories = [tuple(map(int, history)) for history in series.records()]
    return histories, np.stack([series.log_likelihood(reports, history) for history in histories])


def pattern(history: tuple[int, ...]) -> tuple[int, ...]:
    """Return which waves have equal values: the number of each wave's value, in order of first occurrence."""
    order = {value: number for number, value in reversed(list(enumerate(dict.fromkeys(history))))}
    return tuple(order[value] for value in history)


@pytest.mark.parametrize("values", [1, 2])
@pytest.mark.parametrize(("size", "permanent", "wave"), [(2, 2.0, 1.0), (2, 0.5, 3.0), (2, 4.0, 0.2)])
def test_twelve_waves_of_an_unchanged_value_cost_exactly_what_is_stated(
    size: int, permanent: float, wave: float, values: int
) -> None:
    series = LongitudinalGRR(size, permanent, wave, waves=12, values=values)
    constant = [(value,) * 12 for value in range(size)]
    # Reports are exchangeable: one sequence for each number of reports of each value.
    sequences = [tuple(sorted(each)) for each in itertools.combinations_with_replacement(range(size), 12)]
    ratios = [
        series.probability(report, first) / series.probability(report, second)
        for report in sequences
        for first, second in itertools.permutations(constant, 2)
    ]
    worst = max(ratios)
    assert series.series_loss.unchanged == log_ratio(Decimal(worst.numerator), Decimal(worst.denominator))
    assert series.series_loss.unchanged < series.permanent.privacy_loss.user_level


@every_series
def test_the_cost_of_unchanged_values_is_the_worst_case_over_constant_histories(series: LongitudinalGRR) -> None:
    histories, logs = log_probabilities(series)
    constant = logs[[len(set(history)) == 1 for history in histories]]
    worst = float((constant.max(axis=0) - constant.min(axis=0)).max())
    assert worst == pytest.approx(series.series_loss.unchanged, abs=1e-12)


@every_series
def test_the_cost_of_changes_at_the_same_waves_is_their_worst_case(series: LongitudinalGRR) -> None:
    histories, logs = log_probabilities(series)
    groups: dict[tuple[int, ...], list[int]] = {}
    for row, history in enumerate(histories):
        if len(set(history)) <= series.values:
            groups.setdefault(pattern(history), []).append(row)
    worst = max(float((logs[rows].max(axis=0) - logs[rows].min(axis=0)).max()) for rows in groups.values())
    assert worst == pytest.approx(series.series_loss.same_changes, abs=1e-12)


@every_series
def test_any_two_histories_cost_at_most_the_bound_and_hardly_less(series: LongitudinalGRR) -> None:
    _, logs = log_probabilities(series)
    worst = float((logs.max(axis=0) - logs.min(axis=0)).max())
    loss = series.series_loss
    assert loss.unchanged <= loss.same_changes <= loss.any_histories + 1e-12
    assert worst <= loss.any_histories + 1e-12
    # In a domain of two values there are no further ones for the other history: the bound does not use that.
    assert worst > (0.75 if series.domain_size == 2 else 0.93) * loss.any_histories


def test_the_bound_is_attained_by_crosswise_changes() -> None:
    series = LongitudinalGRR(5, 2.0, 1.0, waves=12, values=2)
    first, second = series.extreme_records()
    report = np.array([first])
    ratio = float((series.log_likelihood(report, first) - series.log_likelihood(report, second))[0])
    assert ratio == pytest.approx(series.series_loss.any_histories, abs=1e-9)
    assert series.series_loss.any_histories < 12 * series.wave.privacy_loss.user_level


def test_values_times_epsilon_is_no_bound_for_any_two_histories() -> None:
    """The literature states c times the permanent epsilon; one pair of histories of four waves refutes it exactly."""
    series = LongitudinalGRR(3, 0.5, 2.0, waves=4, values=2)
    changed, constant = (0, 0, 1, 1), (2, 2, 2, 2)
    ratio = series.probability(changed, changed) / series.probability(changed, constant)
    assert ratio > Fraction(math.exp(2 * series.epsilon)) * 5
    assert log_ratio(Decimal(ratio.numerator), Decimal(ratio.denominator)) <= series.series_loss.any_histories


def test_an_audit_refutes_values_times_epsilon_and_not_the_bound() -> None:
    series = LongitudinalGRR(7, 0.5, 2.0, waves=12, values=2)
    rng = np.random.default_rng(0)
    assert statistical_audit(series, trials=20_000, rng=rng, claim=2 * series.epsilon).refuted
    assert not statistical_audit(series, trials=20_000, rng=rng, confidence=1 - 1e-6).refuted


@pytest.mark.parametrize("waves", [1, 2, 5, 12, MAX_WAVES])
@pytest.mark.parametrize("values", [1, 2, 3])
def test_more_waves_and_more_values_never_cost_less(waves: int, values: int) -> None:
    loss = LongitudinalGRR(4, 2.0, 1.0, waves=waves, values=values).series_loss
    more_values = LongitudinalGRR(4, 2.0, 1.0, waves=waves, values=values + 1).series_loss
    assert loss.unchanged == more_values.unchanged
    assert loss.same_changes <= more_values.same_changes
    assert loss.any_histories <= more_values.any_histories
    assert loss.any_histories <= waves * LongitudinalGRR(4, 2.0, 1.0, waves=1).wave.privacy_loss.user_level
    if waves < MAX_WAVES:
        longer = LongitudinalGRR(4, 2.0, 1.0, waves=waves + 1, values=values).series_loss
        assert loss.unchanged < longer.unchanged
        assert loss.any_histories < longer.any_histories


def test_with_one_value_all_relations_coincide() -> None:
    loss = LongitudinalGRR(7, 2.0, 1.0, waves=12).series_loss
    assert loss.unchanged == loss.same_changes == loss.any_histories


@pytest.mark.parametrize("history", [(0, 0, 1), (0, 1, 2), (2, 0, 2)])
def test_reports_of_a_changing_history_are_distributed_as_probability_says(history: tuple[int, ...]) -> None:
    series, draws = LongitudinalGRR(3, 1.0, 1.0, waves=3, values=2), 20_000
    drawn = series.randomize(np.tile(history, (draws, 1)), rng=np.random.default_rng(1))
    numbers = np.ravel_multi_index(tuple(drawn.T), (3, 3, 3))
    expected = [draws * float(series.probability(report, history)) for report in series.reports()]
    assert chisquare(np.bincount(numbers, minlength=27), expected).pvalue > 1e-6


def test_a_value_beyond_the_limit_counts_as_no_change() -> None:
    series = LongitudinalGRR(4, 1.0, 1.0, waves=5, values=2)
    beyond, within = np.array([[3, 0, 2, 3, 1]]), np.array([[3, 0, 0, 3, 3]])
    np.testing.assert_array_equal(series.answered_histories(beyond), within)
    same = (series.randomize(each, rng=np.random.default_rng(4)) for each in (beyond, within))
    np.testing.assert_array_equal(next(same), next(same))


def test_a_guarantee_of_a_series_names_every_relation() -> None:
    series = LongitudinalGRR(7, 2.0, 1.0, waves=12, values=2)
    guarantee = guarantee_of(None, series)
    words = " ".join(guarantee.in_words())
    for relation in (
        "any two histories",
        "two values that never change",
        "two histories that change at the same waves",
    ):
        assert relation in words.lower()
    assert "any two records" not in words
    assert guarantee.total_user_level == series.series_loss.any_histories
    stated = guarantee.as_dict()["series"]
    assert isinstance(stated, dict)
    assert (stated["waves"], stated["values"]) == (12, 2)
    assert set(stated["label"]) == {"unchanged", "same_changes", "any_histories"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"waves": 0}, f"waves is 0: a series has 1 to {MAX_WAVES} waves"),
        ({"waves": MAX_WAVES + 1}, "a series has 1 to"),
        ({"values": 0}, "values is 0: choose 1 to 3 of 3 values"),
        ({"values": 4}, "values is 4: choose 1 to 3 of 3 values"),
        ({"epsilon": math.inf}, "epsilon is infinite"),
        ({"wave_epsilon": math.inf}, "wave_epsilon is infinite"),
        ({"wave_epsilon": 0.0}, "it must be a number above 0"),
    ],
)
def test_a_series_that_cannot_be_is_refused(arguments: dict[str, float], message: str) -> None:
    given = {"domain_size": 3, "epsilon": 1.0, "wave_epsilon": 1.0, "waves": 4} | arguments
    with pytest.raises(BudgetError, match=message):
        LongitudinalGRR(**given)  # type: ignore[arg-type]
