"""A budget has positive epsilons and samples at least one feature."""

from __future__ import annotations

import math
from functools import partial

import pytest

from veilgraph.errors import BudgetError
from veilgraph.privacy.budget import ONCE, PrivacyBudget, RoundBudget, check_features_budget, check_sampled


@pytest.mark.parametrize("epsilon", [0.0, -0.1, -math.inf, math.nan])
def test_an_epsilon_is_above_zero(epsilon: float) -> None:
    with pytest.raises(BudgetError, match=r"epsilon_x is .*: it must be a number above 0"):
        PrivacyBudget(epsilon_x=epsilon, epsilon_y=1.0, sampled=1)
    with pytest.raises(BudgetError, match=r"epsilon_y is .*: it must be a number above 0"):
        PrivacyBudget(epsilon_x=1.0, epsilon_y=epsilon, sampled=1)


def test_at_least_one_and_at_most_every_feature_is_sampled() -> None:
    assert [check_sampled(m, 3) for m in (1, 2, 3)] == [1, 2, 3]
    for sampled in (0, 4):
        with pytest.raises(BudgetError, match=f"sampled is {sampled} but there are 3 features: choose 1 to 3"):
            check_sampled(sampled, 3)
    with pytest.raises(BudgetError, match="at least 1"):
        PrivacyBudget(epsilon_x=1.0, epsilon_y=1.0, sampled=0)


def test_a_budget_is_whole_or_for_the_label_alone() -> None:
    budget = PrivacyBudget(epsilon_y=2.0)
    assert (budget.epsilon_x, budget.epsilon_y, budget.sampled, budget.collects_features) == (None, 2.0, None, False)
    assert PrivacyBudget(epsilon_x=1.0, epsilon_y=2.0, sampled=1).collects_features
    with pytest.raises(BudgetError, match="epsilon_y is missing"):
        PrivacyBudget(epsilon_x=1.0, sampled=1)
    for half in ({"epsilon_x": 1.0}, {"sampled": 1}):
        with pytest.raises(BudgetError, match="epsilon_x and sampled belong together"):
            PrivacyBudget(epsilon_y=1.0, **half)


def test_the_budget_without_privacy_samples_everything_at_infinity() -> None:
    assert PrivacyBudget.not_private(7) == PrivacyBudget(epsilon_x=math.inf, epsilon_y=math.inf, sampled=7)
    assert PrivacyBudget.not_private(0) == PrivacyBudget(epsilon_y=math.inf)


@pytest.mark.parametrize(
    ("epsilon_x", "sampled", "goes"), [(None, None, True), (1.0, 2, True), (1.0, None, False), (None, 2, False)]
)
def test_a_budget_of_features_and_their_number_are_given_together(
    epsilon_x: float | None, sampled: int | None, goes: bool
) -> None:
    if goes:
        check_features_budget(epsilon_x, sampled)
        return
    with pytest.raises(BudgetError, match="epsilon_x and sampled belong together"):
        check_features_budget(epsilon_x, sampled)


def test_a_collection_has_one_budget_or_a_curve_has_totals() -> None:
    of = partial(PrivacyBudget.of_one_collection, sampled=4)
    assert of(totals=(1.0, 2.0), epsilon_x=None, epsilon_y=None) is None
    assert of(totals=(), epsilon_x=None, epsilon_y=2.0) == PrivacyBudget(epsilon_y=2.0)
    assert of(totals=(), epsilon_x=0.5, epsilon_y=2.0) == PrivacyBudget(0.5, 2.0, 4)
    with pytest.raises(BudgetError, match="epsilon_x is given without epsilon_y"):
        of(totals=(), epsilon_x=0.5, epsilon_y=None)
    for epsilon_x, epsilon_y in ((1.0, None), (None, 1.0)):
        with pytest.raises(BudgetError, match="give either"):
            of(totals=(1.0,), epsilon_x=epsilon_x, epsilon_y=epsilon_y)
    with pytest.raises(BudgetError, match="epsilon_y is 0"):
        of(totals=(), epsilon_x=None, epsilon_y=0.0)


def test_a_round_spends_half_of_a_permanent_answer_unless_it_is_said() -> None:
    assert (ONCE.rounds, RoundBudget(rounds=3).of_label(2.0), RoundBudget(rounds=3).of_feature(3.0)) == (None, 1.0, 1.5)
    said = RoundBudget(rounds=3, round_epsilon=0.25, round_epsilon_x=0.75)
    assert (said.of_label(2.0), said.of_feature(3.0)) == (0.25, 0.75)
    for label, feature in ((1.0, None), (None, 1.0)):
        with pytest.raises(BudgetError, match="needs a number of rounds"):
            RoundBudget(round_epsilon=label, round_epsilon_x=feature)
