"""Features in rounds: what all rounds of a record reveal, by enumeration, and the evidence that they give."""

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
from veilgraph.privacy.epsilon import HistoryRelation
from veilgraph.privacy.mechanisms import GRRFS, NOT_ASKED, LongitudinalFeatures, LongitudinalGRR, RoundEvidence
from veilgraph.privacy.mechanisms.integer_table import log_ratio

SMALL = (
    LongitudinalFeatures((2, 2), 1, 1.0, 2.0, rounds=3, values=2),
    LongitudinalFeatures((2, 2), 2, 0.5, 1.0, rounds=2, values=2),
    LongitudinalFeatures((3, 2), 1, 2.0, 1.0, rounds=2, values=2),
    LongitudinalFeatures((2, 3), 2, 0.5, 3.0, rounds=2, values=3),
)
every_series = pytest.mark.parametrize("series", SMALL, ids=repr)


def enumerated(series: LongitudinalFeatures) -> tuple[np.ndarray, np.ndarray]:
    """Return all histories [histories, rounds, features], and the log-probability of each report given each."""
    records, reports = list(series.records()), np.array(list(series.reports()))
    logs = np.stack([series.log_likelihood(reports, record) for record in records])
    return np.array(records).reshape(len(records), series.rounds, -1), logs


def pattern(history: np.ndarray) -> tuple[tuple[int, ...], ...]:
    """Return which rounds of each feature have equal values."""
    return tuple(tuple(column.tolist().index(value) for value in column.tolist()) for column in history.T)


def spread(logs: np.ndarray) -> float:
    return float((logs.max(axis=0) - logs.min(axis=0)).max())


@every_series
def test_the_epsilons_of_a_record_are_those_of_its_worst_sampled_features(series: LongitudinalFeatures) -> None:
    histories, logs = enumerated(series)
    loss = series.series_loss
    constant = (histories == histories[:, :1]).all(axis=(1, 2))
    assert spread(logs[constant]) == pytest.approx(loss.unchanged, abs=1e-12)
    groups: dict[tuple[tuple[int, ...], ...], list[int]] = {}
    for row, history in enumerate(histories):
        if all(len(set(column)) <= series.values for column in history.T.tolist()):
            groups.setdefault(pattern(history), []).append(row)
    assert max(spread(logs[rows]) for rows in groups.values()) == pytest.approx(loss.same_pattern, abs=1e-12)
    assert spread(logs) <= loss.any_histories + 1e-12


@every_series
def test_two_histories_that_differ_in_one_feature_cost_at_most_its_level(series: LongitudinalFeatures) -> None:
    histories, logs = enumerated(series)
    for feature, level in enumerate(series.privacy_loss.attribute_level):
        families: dict[bytes, list[int]] = {}
        for row, history in enumerate(np.delete(histories, feature, axis=2)):
            families.setdefault(history.tobytes(), []).append(row)
        assert max(spread(logs[rows]) for rows in families.values()) <= level + 1e-12


def left_out_probabilities(series: LongitudinalGRR) -> dict[tuple[int | None, ...], list[Fraction]]:
    """Return the exact probability of each report, for all histories in which answers may be left out.

    What is left out is a value of its own, and its permanent answer is uniform.
    """
    first, second, size = series.permanent.channel, series.round.channel, series.domain_size

    def chance(value: int | None, said: list[int]) -> Fraction:
        weights = [
            Fraction(1, size) if value is None else first.keep if b == value else first.other for b in range(size)
        ]
        return sum(
            (
                weight * math.prod(second.keep if r == b else second.other for r in said)
                for b, weight in enumerate(weights)
            ),
            Fraction(0),
        )

    return {
        history: [
            math.prod(
                (
                    chance(value, [r for r, current in zip(report, history, strict=True) if current == value])
                    for value in set(history)
                ),
                start=Fraction(1),
            )
            for report in series.reports()
        ]
        for history in itertools.product([None, *range(size)], repeat=series.rounds)
        if len(set(history)) <= series.values
    }


def worst_epsilon(rows: Iterable[list[Fraction]]) -> float:
    worst = max(max(column) / min(column) for column in zip(*rows, strict=True))
    return log_ratio(Decimal(worst.numerator), Decimal(worst.denominator))


@pytest.mark.parametrize(
    "series",
    [
        LongitudinalGRR(2, 2.0, 1.0, rounds=4, values=2, optional=True),
        LongitudinalGRR(2, 0.2, 0.2, rounds=3, values=2, optional=True),
        LongitudinalGRR(3, 0.5, 2.0, rounds=3, values=2, optional=True),
        LongitudinalGRR(3, 1.0, 1.0, rounds=4, values=2, optional=True),
        LongitudinalGRR(3, 2.0, 1.0, rounds=3, values=3, optional=True),
        LongitudinalGRR(2, 1.0, 3.0, rounds=5, values=1, optional=True),
    ],
    ids=repr,
)
def test_the_epsilons_count_an_answer_that_is_left_out_in_any_rounds(series: LongitudinalGRR) -> None:
    by_history, loss = left_out_probabilities(series), series.series_loss
    groups: dict[tuple[int, ...], list[list[Fraction]]] = {}
    for history, row in by_history.items():
        groups.setdefault(tuple(history.index(value) for value in history), []).append(row)
    assert worst_epsilon(by_history.values()) == loss.any_histories
    assert max(map(worst_epsilon, groups.values())) == loss.same_pattern
    assert worst_epsilon(groups[(0,) * series.rounds]) == loss.unchanged


def test_leaving_out_an_answer_can_cost_more_than_any_answer() -> None:
    """With two values that are both answered, no history has a value free that the reports do not name."""
    answered, optional = (LongitudinalGRR(2, 0.2, 0.2, rounds=3, values=2, optional=each) for each in (False, True))
    assert answered.series_loss.any_histories < optional.series_loss.any_histories
    features = LongitudinalFeatures((2,), 1, 0.2, 0.2, rounds=3, values=2)
    assert features.series_loss == optional.series_loss


def test_the_same_features_are_reported_in_every_round_and_each_set_is_equally_likely() -> None:
    series, people = LongitudinalFeatures((2, 3, 2, 2), 2, 1.0, 1.0, rounds=3, values=2), 6000
    rng = np.random.default_rng(0)
    histories = rng.integers(0, 2, size=(people, 12))
    asked = series.randomize(histories, rng=rng).reshape(people, 3, 4) != NOT_ASKED
    assert (asked == asked[:, :1]).all()
    assert (asked.sum(axis=2) == 2).all()
    _, counts = np.unique(asked[:, 0], axis=0, return_counts=True)
    assert len(counts) == 6
    assert chisquare(counts).pvalue > 1e-6


@pytest.mark.parametrize("latest", [True, False])
def test_the_channel_of_the_evidence_is_how_often_it_is_true(latest: bool) -> None:
    """People who sent one to six reports; the tolerance is five standard deviations."""
    series, people = LongitudinalFeatures((4, 2), 1, 2.0, 1.0, rounds=6, values=2), 20_000
    rng = np.random.default_rng(0)
    truth = np.stack([rng.integers(0, size, people) for size in series.domain_sizes], axis=1)
    reports = series.randomize(np.tile(truth, 6), rng=rng).reshape(people, 6, 2)
    reports[np.arange(6)[None] >= rng.integers(1, 7, people)[:, None]] = NOT_ASKED
    combined = series.combining(reports, latest=latest)
    codes = combined.evidence(reports)
    assert sum(combined.people) == people
    for i in range(2):
        asked, keep = codes[:, i] != NOT_ASKED, float(combined.channel(i).keep)
        error = math.sqrt(keep * (1 - keep) / asked.sum())
        assert (codes[asked, i] == truth[asked, i]).mean() == pytest.approx(keep, abs=5 * error)
    single = RoundEvidence.of(series.series[4], reports[:, :, 0], latest=latest)
    named = single.named(reports[:, :, 0])
    np.testing.assert_array_equal(np.where(named.any(axis=1), named.argmax(axis=1), NOT_ASKED), codes[:, 0])


def test_an_audit_refutes_a_sum_that_leaves_changes_out_and_not_the_bound() -> None:
    series = LongitudinalFeatures((4,) * 6, 2, 0.5, 2.0, rounds=8, values=2)
    rng = np.random.default_rng(0)
    assert statistical_audit(
        series, trials=20_000, rng=rng, claim=series.series_loss.same_pattern, fresh_processes=False
    ).refuted
    assert not statistical_audit(series, trials=20_000, rng=rng, confidence=1 - 1e-6, fresh_processes=False).refuted


def test_a_guarantee_of_features_and_label_in_rounds_adds_up_under_every_relation() -> None:
    features = LongitudinalFeatures((2, 3, 2), 2, 1.0, 0.5, rounds=12, values=2)
    label = LongitudinalGRR(7, 2.0, 1.0, rounds=12, values=2)
    guarantee = guarantee_of(features, label)
    for relation in HistoryRelation:
        both = features.series_loss.under(relation) + label.series_loss.under(relation)
        assert guarantee.epsilon(relation) == pytest.approx(both, abs=1e-12)
    assert guarantee.total_user_level == guarantee.epsilon(HistoryRelation.ANY_HISTORIES)
    words = " ".join(guarantee.in_words())
    assert "Two records that never change" in words
    assert "two histories that differ in one feature" in words
    assert "records that differ" not in words


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"values": 0}, "values is 0"),
        ({"sampled": 3}, "sampled"),
        ({"rounds": 99}, "a series has 1 to"),
        ({"epsilon": math.inf}, "epsilon is infinite"),
    ],
)
def test_a_series_that_cannot_be_is_refused(arguments: dict[str, float], message: str) -> None:
    given = {"domain_sizes": (2, 3), "sampled": 1, "epsilon": 1.0, "round_epsilon": 1.0, "rounds": 4} | arguments
    with pytest.raises(BudgetError, match=message):
        LongitudinalFeatures(**given)  # type: ignore[arg-type]


def test_a_record_of_which_a_part_is_asked_once_is_no_series() -> None:
    label = LongitudinalGRR(7, 2.0, 1.0, rounds=12, values=2)
    for features in (GRRFS((2, 2), 1, 1.0), LongitudinalFeatures((2, 2), 1, 1.0, 1.0, rounds=3)):
        with pytest.raises(BudgetError, match="in the same rounds"):
            guarantee_of(features, label)
