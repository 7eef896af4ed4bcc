"""Audits: exact on small domains, statistical against mechanisms that leak more than they claim."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from veilgraph.errors import BudgetError
from veilgraph.privacy.audit import (
    statistical_audit,
    statistical_turns_audit,
    worst_case_attribute_epsilon,
    worst_case_epsilon,
)
from veilgraph.privacy.epsilon import ListRelation
from veilgraph.privacy.mechanisms import GRR, GRRFS, Mechanism, MultiBit, NeighbourhoodClass, RandomIntegers
from veilgraph.privacy.mechanisms.base import Record, Report


class GenerousGRR(GRR):
    """A GRR that claims its epsilon and spends twice as much."""

    def randomize(self, values: NDArray[Any], *, rng: RandomIntegers) -> NDArray[Any]:
        """Randomize with twice the budget."""
        return GRR(self.domain_size, 2 * self.epsilon).randomize(values, rng=rng)


class ForgetfulGRRFS(GRRFS):
    """A GRR-FS that reports its last feature unrandomized: one mistake in a correct implementation."""

    def randomize(self, values: NDArray[Any], *, rng: RandomIntegers) -> NDArray[Any]:
        """Randomize all features except the last."""
        reports = super().randomize(values, rng=rng)
        reports[:, -1] = values[:, -1]
        return reports


class GenerousAnswer(NeighbourhoodClass):
    """An answer about neighbours that claims its epsilon and spends twice as much."""

    def randomize(self, sums: NDArray[Any], *, rng: RandomIntegers) -> NDArray[Any]:
        """Randomize with twice the budget."""
        return NeighbourhoodClass(self.num_classes, 2 * self.epsilon, self.size).randomize(sums, rng=rng)


class LopsidedGRR(GRR):
    """A GRR whose report 0 reveals the record: no other value can give it."""

    def probability(self, report: Report, record: Record) -> Fraction:
        """Move the probability of report 0 to report 1, for all records except 0."""
        chance, moved = super().probability(report, record), super().probability((0,), record)
        shift = {0: -moved, 1: moved}.get(report[0], Fraction(0))
        return chance if record == (0,) else chance + shift


class WordyGRR(GRR):
    """A GRR that lists a report that it never gives."""

    def reports(self) -> Iterator[Report]:
        """Iterate over all values and one more."""
        return ((value,) for value in range(self.domain_size + 1))

    def probability(self, report: Report, record: Record) -> Fraction:
        """Return 0 for the additional report."""
        return Fraction(0) if report == (self.domain_size,) else super().probability(report, record)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_the_lower_bound_lies_below_the_true_epsilon_as_often_as_it_says(epsilon: float) -> None:
    mechanism, seeds = GRR(3, epsilon), 20
    bounds = [
        statistical_audit(mechanism, trials=20_000, rng=np.random.default_rng(seed)).lower_bound
        for seed in range(seeds)
    ]
    # Each bound errs with probability 1% at most; more than `allowed` errors among 20 have probability below 1e-6.
    allowed = binom.isf(1e-6, seeds, 0.01)
    assert sum(bound > mechanism.privacy_loss.user_level for bound in bounds) <= allowed


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_the_lower_bound_comes_close_to_the_true_epsilon(epsilon: float) -> None:
    result = statistical_audit(GRR(2, epsilon), trials=200_000, rng=np.random.default_rng(0))
    # Three quarters of the trials give a binomial share R; sd of its log-odds = 1 / sqrt(n R (1 - R)). The bound lies
    # 2.4 of them below the estimate, and the estimate within 5 of the truth.
    share = 1 / (1 + math.exp(-epsilon))
    error = 1 / math.sqrt(150_000 * share * (1 - share))
    assert epsilon - (5 + 2.4) * error < result.lower_bound


@pytest.mark.parametrize(
    "mechanism",
    [
        pytest.param(GenerousGRR(2, 1.0), id="twice-the-budget"),
        pytest.param(GenerousGRR(40, 0.5), id="twice-the-budget-of-40-values"),
        pytest.param(ForgetfulGRRFS((2,) * 53, sampled=10, epsilon=0.01), id="one-feature-forgotten"),
    ],
)
def test_a_mechanism_that_leaks_more_than_it_claims_is_refuted(mechanism: Mechanism) -> None:
    assert statistical_audit(mechanism, trials=100_000, rng=np.random.default_rng(0)).refuted


def test_enumeration_finds_a_report_that_gives_a_record_away() -> None:
    assert worst_case_epsilon(LopsidedGRR(3, 1.0)) == math.inf
    assert worst_case_attribute_epsilon(LopsidedGRR(3, 1.0), 0) == math.inf


def test_a_report_that_no_record_leads_to_reveals_nothing() -> None:
    assert worst_case_epsilon(WordyGRR(3, 1.0)) == worst_case_epsilon(GRR(3, 1.0))


def test_enumeration_compares_only_records_that_differ_in_the_feature() -> None:
    mechanism = GRRFS((2, 2, 2), sampled=2, epsilon=1.0)
    assert worst_case_attribute_epsilon(mechanism, 1) < worst_case_epsilon(mechanism)
    assert worst_case_epsilon(GRR(2, 1.0)) == worst_case_attribute_epsilon(GRR(2, 1.0), 0)


@pytest.mark.parametrize(
    "mechanism",
    [
        GRR(3, math.inf),
        GRRFS((2, 3, 4), sampled=1, epsilon=math.inf),
        MultiBit((0.0, 0.0), (1.0, 1.0), sampled=1, epsilon=math.inf),
    ],
    ids=repr,
)
def test_a_mechanism_that_is_not_private_is_refuted(mechanism: Mechanism) -> None:
    result = statistical_audit(mechanism, trials=20_000, rng=np.random.default_rng(0), claim=4.0)
    assert result.refuted
    assert not statistical_audit(mechanism, trials=20_000, rng=np.random.default_rng(0)).refuted


def test_more_confidence_means_a_lower_bound() -> None:
    bounds = [
        statistical_audit(GRR(2, 1.0), trials=20_000, rng=np.random.default_rng(0), confidence=confidence).lower_bound
        for confidence in (0.5, 0.9, 0.99, 0.999999)
    ]
    assert bounds == sorted(set(bounds), reverse=True)


def test_a_result_names_the_claim_the_confidence_and_the_trials() -> None:
    drawn: list[int] = []
    result = statistical_audit(
        GRR(2, 1.0), trials=120_001, rng=np.random.default_rng(0), claim=0.9, confidence=0.95, progress=drawn.append
    )
    assert (result.claim, result.confidence, result.trials) == (0.9, 0.95, 120_001)
    assert sum(drawn) == 120_001
    assert len(drawn) > 2
    assert result.refuted == (result.lower_bound > 0.9)


def test_a_seed_determines_an_audit() -> None:
    first, again = (statistical_audit(GRR(2, 1.0), trials=2000, rng=np.random.default_rng(3)) for _ in range(2))
    assert first == again


@pytest.mark.parametrize("trials", [-1, 0, 999])
def test_too_few_trials_are_refused(trials: int) -> None:
    with pytest.raises(BudgetError, match=f"trials is {trials}: an audit needs at least 1000"):
        statistical_audit(GRR(2, 1.0), trials=trials, rng=np.random.default_rng(0))


@pytest.mark.parametrize("claim", [-0.1, math.nan])
def test_a_claim_below_zero_is_refused(claim: float) -> None:
    with pytest.raises(BudgetError, match=r"claim is .*: it must be a number of at least 0"):
        statistical_audit(GRR(2, 1.0), trials=1000, rng=np.random.default_rng(0), claim=claim)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 99, math.nan])
def test_a_confidence_that_is_no_probability_is_refused(confidence: float) -> None:
    with pytest.raises(BudgetError, match=r"confidence is .*: it must lie between 0 and 1"):
        statistical_audit(GRR(2, 1.0), trials=1000, rng=np.random.default_rng(0), confidence=confidence)


@pytest.mark.parametrize("relation", ListRelation)
def test_in_turns_the_claim_is_that_of_the_dearest_wave_and_each_wave_is_tested_against_it(
    relation: ListRelation,
) -> None:
    # The second wave claims 1.5, spends 3, and breaks the claim of the series, 2 for one end. The sum of all would
    # be 5.5: it says nothing about a person who answers one wave.
    waves = [NeighbourhoodClass(3, 2.0), GenerousAnswer(3, 1.5, 1), NeighbourhoodClass(3, 2.0)]
    drawn: list[int] = []
    found = statistical_turns_audit(
        waves,
        relation,
        trials=40_000,
        rng=np.random.default_rng(0),
        confidence=1 - 1e-6,
        progress=drawn.append,
    )
    ends = 2 if relation is ListRelation.ONE_RELATIONSHIP else 1
    assert {numbers: each.refuted for numbers, each in found.items()} == {(1, 3): False, (2,): True}
    assert [each.claim for each in found.values()] == pytest.approx([2 * ends] * 2, abs=1e-6)
    assert {each.relation for each in found.values()} == {relation}
    assert sum(drawn) == 80_000  # waves that ask alike are drawn once


def test_a_claim_about_waves_in_turns_that_is_too_low_is_refuted() -> None:
    waves = [NeighbourhoodClass(4, 1.0), NeighbourhoodClass(4, 3.0)]
    found = statistical_turns_audit(
        waves, ListRelation.ANY_LISTS, trials=20_000, rng=np.random.default_rng(0), claim=2.0, confidence=1 - 1e-6
    )
    assert [each.refuted for each in found.values()] == [False, True]
