"""L-GRR: what all rounds of a series reveal, by enumeration of histories and reports."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from veilgraph.errors import BudgetError
from veilgraph.privacy.accounting import guarantee_of
from veilgraph.privacy.audit import statistical_audit
from veilgraph.privacy.epsilon import SeriesLoss
from veilgraph.privacy.mechanisms import LongitudinalGRR
from veilgraph.privacy.mechanisms.integer_table import log_ratio
from veilgraph.privacy.mechanisms.longitudinal_grr import MAX_ROUNDS

BUDGETS = ((0.1, 0.2), (0.5, 2.0), (2.0, 1.0), (0.2, 4.0), (4.0, 0.5))
SMALL = (
    *((2, rounds, 2, budget) for rounds in (2, 3, 5) for budget in BUDGETS),
    *((3, 3, values, budget) for values in (1, 2, 3) for budget in BUDGETS),
    *((3, 4, values, (2.0, 1.0)) for values in (2, 3)),
    *((4, 3, values, budget) for values in (2, 3) for budget in BUDGETS[:2]),
    (5, 2, 2, (1.0, 2.0)),
)
every_series = pytest.mark.parametrize(
    "series", [LongitudinalGRR(size, *budget, rounds, values) for size, rounds, values, budget in SMALL], ids=repr
)


def log_of(ratio: Fraction) -> float:
    """Return the logarithm of a ratio of probabilities, rounded up."""
    return log_ratio(Decimal(ratio.numerator), Decimal(ratio.denominator))


def probabilities(series: LongitudinalGRR) -> dict[tuple[int, ...], list[Fraction]]:
    """Return the exact probability of each sequence of reports, for every history."""
    reports = list(series.reports())
    return {
        tuple(map(int, history)): [series.probability(each, history) for each in reports]
        for history in series.records()
    }


def worst_ratio(rows: Iterable[list[Fraction]]) -> Fraction:
    """Return the largest ratio of the probabilities of one sequence of reports, over every two of the histories."""
    return max((max(column) / min(column) for column in zip(*rows, strict=True)), default=Fraction(1))


def repeats(history: tuple[int, ...]) -> tuple[bool, ...]:
    """Say of every two rounds whether the second one repeats the answer of the first one."""
    return tuple(first == second for first, second in itertools.combinations(history, 2))


@pytest.mark.parametrize("values", [1, 2])
@pytest.mark.parametrize(("size", "permanent", "number"), [(2, 2.0, 1.0), (2, 0.5, 3.0), (2, 4.0, 0.2)])
def test_twelve_rounds_of_an_unchanged_value_cost_exactly_what_is_stated(
    size: int, permanent: float, number: float, values: int
) -> None:
    series = LongitudinalGRR(size, permanent, number, rounds=12, values=values)
    constant = [(value,) * 12 for value in range(size)]
    # Reports are exchangeable: one sequence for each number of reports of each value.
    sequences = [tuple(sorted(each)) for each in itertools.combinations_with_replacement(range(size), 12)]
    ratios = [
        series.probability(report, first) / series.probability(report, second)
        for report in sequences
        for first, second in itertools.permutations(constant, 2)
    ]
    worst = max(ratios)
    assert series.series_loss.unchanged == log_of(worst)
    assert series.series_loss.unchanged < series.permanent.privacy_loss.user_level


@every_series
def test_every_epsilon_of_a_series_is_the_worst_case_of_its_relation(series: LongitudinalGRR) -> None:
    by_history, loss = probabilities(series), series.series_loss
    unchanged = [row for history, row in by_history.items() if len(set(history)) == 1]
    same_pattern: dict[tuple[bool, ...], list[list[Fraction]]] = {}
    for history, row in by_history.items():
        same_pattern.setdefault(repeats(history), []).append(row)
    assert loss.unchanged == log_of(worst_ratio(unchanged))
    assert loss.same_pattern == log_of(max(map(worst_ratio, same_pattern.values())))
    assert loss.any_histories == log_of(worst_ratio(by_history.values()))


def test_histories_that_change_at_the_same_rounds_cost_more_than_those_of_one_pattern() -> None:
    """Both change in every round, and only the figure for any two histories covers them."""
    series = LongitudinalGRR(7, 2.0, 1.0, rounds=12, values=3)
    first, second = (0, 1) * 6, (2, 3, 4) * 4
    assert all(before != after for history in (first, second) for before, after in itertools.pairwise(history))
    ratio = log_of(series.probability(first, first) / series.probability(first, second))
    assert repeats(first) != repeats(second)
    assert series.series_loss.same_pattern < ratio <= series.series_loss.any_histories


@pytest.mark.parametrize(("size", "rounds", "values"), [(3, 20, 3), (4, 12, 4), (5, 16, 5), (7, 24, 6)])
@pytest.mark.parametrize("optional", [False, True])
def test_no_pair_of_histories_exceeds_a_figure_that_is_not_enumerated(
    size: int, rounds: int, values: int, optional: bool
) -> None:
    rng = np.random.default_rng(5)
    series = LongitudinalGRR(size, 0.5, 0.5, rounds=rounds, values=values, optional=optional)
    histories = np.sort(rng.integers(size, size=(300, rounds)), axis=1)
    reports = series.answered_histories(histories)
    logs = np.stack([series.log_likelihood(reports, tuple(each)) for each in reports])
    assert (logs.max(axis=0) - logs.min(axis=0)).max() <= series.series_loss.any_histories


@pytest.mark.parametrize(("size", "rounds"), [(5, 12), (3, 3)])
def test_the_bound_is_attained_by_crosswise_changes(size: int, rounds: int) -> None:
    series = LongitudinalGRR(size, 2.0, 1.0, rounds=rounds, values=2)
    first, second = series.extreme_records()
    report = np.array([first])
    ratio = float((series.log_likelihood(report, first) - series.log_likelihood(report, second))[0])
    assert ratio == pytest.approx(series.series_loss.any_histories, abs=1e-9)
    assert series.series_loss.any_histories < rounds * series.round.privacy_loss.user_level


def test_values_times_epsilon_is_no_bound_for_any_two_histories() -> None:
    """The literature states c times the permanent epsilon; one pair of histories of four rounds refutes it exactly."""
    series = LongitudinalGRR(3, 0.5, 2.0, rounds=4, values=2)
    changed, constant = (0, 0, 1, 1), (2, 2, 2, 2)
    ratio = series.probability(changed, changed) / series.probability(changed, constant)
    assert ratio > Fraction(math.exp(2 * series.epsilon)) * 5
    assert log_of(ratio) <= series.series_loss.any_histories


def test_an_audit_refutes_values_times_epsilon_and_not_the_bound() -> None:
    series = LongitudinalGRR(7, 0.5, 2.0, rounds=12, values=2)
    rng = np.random.default_rng(0)
    assert statistical_audit(series, trials=20_000, rng=rng, claim=2 * series.epsilon, fresh_processes=False).refuted
    assert not statistical_audit(series, trials=20_000, rng=rng, confidence=1 - 1e-6, fresh_processes=False).refuted


def test_more_rounds_and_more_values_never_cost_less() -> None:
    def loss_of(rounds: int, values: int) -> SeriesLoss:
        return LongitudinalGRR(4, 2.0, 1.0, rounds=rounds, values=values).series_loss

    of_one_report = LongitudinalGRR(4, 2.0, 1.0, rounds=1).round.privacy_loss.user_level
    for rounds, values in itertools.product((1, 2, 5, 12, MAX_ROUNDS), (1, 2, 3)):
        loss, more_values = loss_of(rounds, values), loss_of(rounds, values + 1)
        assert loss.unchanged == more_values.unchanged
        assert values > 1 or loss.unchanged == loss.same_pattern == loss.any_histories
        assert loss.same_pattern <= more_values.same_pattern
        assert loss.any_histories <= more_values.any_histories
        assert loss.any_histories <= rounds * of_one_report
        if rounds < MAX_ROUNDS:
            longer = loss_of(rounds + 1, values)
            assert loss.unchanged < longer.unchanged
            assert loss.any_histories < longer.any_histories


@pytest.mark.parametrize("history", [(0, 0, 1), (0, 1, 2), (2, 0, 2)])
def test_reports_of_a_changing_history_are_distributed_as_probability_says(history: tuple[int, ...]) -> None:
    series, draws = LongitudinalGRR(3, 1.0, 1.0, rounds=3, values=2), 20_000
    drawn = series.randomize(np.tile(history, (draws, 1)), rng=np.random.default_rng(1))
    numbers = np.ravel_multi_index(tuple(drawn.T), (3, 3, 3))
    expected = [draws * float(series.probability(report, history)) for report in series.reports()]
    assert chisquare(np.bincount(numbers, minlength=27), expected).pvalue > 1e-6


def test_a_value_beyond_the_limit_counts_as_no_change() -> None:
    series = LongitudinalGRR(4, 1.0, 1.0, rounds=5, values=2)
    beyond, within = np.array([[3, 0, 2, 3, 1]]), np.array([[3, 0, 0, 3, 3]])
    np.testing.assert_array_equal(series.answered_histories(beyond), within)
    same = (series.randomize(each, rng=np.random.default_rng(4)) for each in (beyond, within))
    np.testing.assert_array_equal(next(same), next(same))


def test_a_guarantee_of_a_series_names_every_relation() -> None:
    series = LongitudinalGRR(7, 2.0, 1.0, rounds=12, values=2)
    guarantee = guarantee_of(None, series)
    words = " ".join(guarantee.in_words())
    for relation in (
        "any two histories",
        "two values that never change",
        "two histories in which answers repeat in the same rounds",
    ):
        assert relation in words.lower()
    assert "any two records" not in words
    assert "wave" not in words
    assert guarantee.total_user_level == series.series_loss.any_histories
    stated = guarantee.as_dict()["series"]
    assert isinstance(stated, dict)
    assert (stated["rounds"], stated["values"]) == (12, 2)
    assert set(stated["label"]) == {"unchanged", "same_pattern", "any_histories"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rounds": 0}, f"rounds is 0: a series has 1 to {MAX_ROUNDS} rounds"),
        ({"rounds": MAX_ROUNDS + 1}, "a series has 1 to"),
        ({"values": 0}, "values is 0: choose 1 to 3 of 3 values"),
        ({"values": 4}, "values is 4: choose 1 to 3 of 3 values"),
        ({"epsilon": math.inf}, "epsilon is infinite"),
        ({"round_epsilon": math.inf}, "round_epsilon is infinite"),
        ({"round_epsilon": 0.0}, "it must be a number above 0"),
    ],
)
def test_a_series_that_cannot_be_is_refused(arguments: dict[str, float], message: str) -> None:
    given = {"domain_size": 3, "epsilon": 1.0, "round_epsilon": 1.0, "rounds": 4} | arguments
    with pytest.raises(BudgetError, match=message):
        LongitudinalGRR(**given)  # type: ignore[arg-type]
