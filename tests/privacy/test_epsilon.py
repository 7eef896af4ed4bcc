"""An epsilon is positive, is never printed too small, and names its neighbour relation."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilgraph.privacy.epsilon import NeighbourRelation, PrivacyLoss, check_epsilon, describe_epsilon, show_epsilon


@pytest.mark.parametrize("epsilon", [1e-300, 1, math.inf])
def test_any_positive_epsilon_and_infinity_are_accepted(epsilon: float) -> None:
    assert check_epsilon(epsilon) == epsilon


@given(epsilon=st.floats(0, 1e4))
def test_an_epsilon_is_shown_rounded_up_to_four_decimals(epsilon: float) -> None:
    # An epsilon that exceeds a round number by less than a billionth is shown as this number.
    assert -1.1e-9 <= float(show_epsilon(epsilon)) - epsilon < 1.1e-4


@pytest.mark.parametrize(
    ("epsilon", "shown"),
    [(0.28101, "0.2811"), (1.0, "1.0000"), (0.9999999999999997, "1.0000"), (0.0, "0.0000"), (math.inf, "not private")],
)
def test_a_shown_epsilon_is_not_below_the_computed_one(epsilon: float, shown: str) -> None:
    assert show_epsilon(epsilon) == shown


@pytest.mark.parametrize("relation", NeighbourRelation)
def test_a_described_epsilon_names_its_relation(relation: NeighbourRelation) -> None:
    described = describe_epsilon(relation, 0.5)
    assert described.lower().startswith(f"{relation.title}, {relation.value}: ")
    assert described.endswith("epsilon = 0.5000")


def test_a_described_range_has_two_ends_unless_they_are_equal() -> None:
    assert describe_epsilon(NeighbourRelation.USER_LEVEL, 0.5, 2.0, 1.0).endswith("epsilon = 0.5000 to 2.0000")
    assert describe_epsilon(NeighbourRelation.USER_LEVEL, 1.0, 1.0).endswith("epsilon = 1.0000")


def test_a_privacy_loss_is_the_largest_epsilon_under_its_relation() -> None:
    loss = PrivacyLoss(user_level=3.0, attribute_level=(0.25, 0.5))
    assert loss.under(NeighbourRelation.USER_LEVEL) == 3.0
    assert loss.under(NeighbourRelation.ATTRIBUTE_LEVEL) == 0.5
