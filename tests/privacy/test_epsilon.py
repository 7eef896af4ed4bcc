"""An epsilon is positive, is never printed too small, and names its neighbour relation."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilgraph.privacy.epsilon import (
    NeighbourRelation,
    PrivacyLoss,
    add_epsilons,
    check_epsilon,
    describe_epsilon,
    round_up,
    show_epsilon,
    state_epsilon,
)


@pytest.mark.parametrize("epsilon", [1e-300, 1, math.inf])
def test_any_positive_epsilon_and_infinity_are_accepted(epsilon: float) -> None:
    assert check_epsilon(epsilon) == epsilon


@given(epsilon=st.one_of(st.floats(0, 1e4), st.floats(0, 1e300)))
def test_an_epsilon_is_shown_rounded_up_to_four_decimals(epsilon: float) -> None:
    assert 0 <= Fraction(show_epsilon(epsilon)) - Fraction(repr(epsilon)) < Fraction(1, 10**4)


@pytest.mark.parametrize(
    ("epsilon", "shown"),
    [
        (0.1 + 0.2, "0.3001"),
        (1 + 1e-15, "1.0001"),
        (5e-324, "0.0001"),
        (0.28101, "0.2811"),
        (1.0, "1.0000"),
        (0.9999999999999997, "1.0000"),
        (0.0, "0.0000"),
        (math.inf, "not private"),
    ],
)
def test_a_shown_epsilon_is_not_below_the_computed_one(epsilon: float, shown: str) -> None:
    assert show_epsilon(epsilon) == shown


@given(exact=st.fractions(0, 10**6))
def test_rounding_up_gives_the_least_float_that_is_not_below(exact: Fraction) -> None:
    assert Fraction(math.nextafter(round_up(exact), -math.inf)) < exact <= Fraction(round_up(exact))


@given(exact=st.lists(st.fractions(0, 10**6), max_size=6))
def test_a_sum_of_epsilons_is_never_below_the_exact_sum(exact: list[Fraction]) -> None:
    total = add_epsilons(*map(round_up, exact))
    assert Fraction(total) >= sum(exact)
    assert total == pytest.approx(float(sum(exact)), rel=1e-15)


@given(epsilon=st.floats(0, 1e6))
def test_a_stated_epsilon_is_not_below_as_a_number_or_as_text(epsilon: float) -> None:
    stated = state_epsilon(epsilon)
    assert Fraction(stated) >= Fraction(epsilon)
    assert Fraction(repr(stated)) >= Fraction(epsilon)
    assert Fraction(show_epsilon(stated)) >= Fraction(epsilon)
    assert stated <= math.nextafter(epsilon, math.inf)


@given(epsilon=st.floats(0, 1e6))
def test_adding_nothing_changes_nothing(epsilon: float) -> None:
    assert add_epsilons(epsilon, 0.0) == add_epsilons(epsilon) == epsilon


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
