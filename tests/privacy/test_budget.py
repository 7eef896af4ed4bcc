"""A budget has positive epsilons and samples at least one feature."""

from __future__ import annotations

import math

import pytest

from veilgraph.errors import BudgetError
from veilgraph.privacy.budget import PrivacyBudget, check_sampled


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


def test_a_budget_without_features_is_for_the_label_alone() -> None:
    budget = PrivacyBudget(epsilon_y=2.0)
    assert (budget.epsilon_x, budget.epsilon_y, budget.sampled, budget.collects_features) == (None, 2.0, None, False)
    assert PrivacyBudget(epsilon_x=1.0, epsilon_y=2.0, sampled=1).collects_features


def test_half_a_budget_is_refused() -> None:
    with pytest.raises(BudgetError, match="epsilon_y is nan"):
        PrivacyBudget(epsilon_x=1.0, sampled=1)
    for half in ({"epsilon_x": 1.0}, {"sampled": 1}):
        with pytest.raises(BudgetError, match="epsilon_x and sampled belong together"):
            PrivacyBudget(epsilon_y=1.0, **half)


def test_the_budget_without_privacy_samples_everything_at_infinity() -> None:
    assert PrivacyBudget.not_private(7) == PrivacyBudget(epsilon_x=math.inf, epsilon_y=math.inf, sampled=7)
    assert PrivacyBudget.not_private(0) == PrivacyBudget(epsilon_y=math.inf)
