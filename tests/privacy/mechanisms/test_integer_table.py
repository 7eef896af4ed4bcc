"""Integer tables of randomized response, and the logarithm that gives their exact epsilon."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilgraph.errors import BudgetError
from veilgraph.privacy.mechanisms.integer_table import LARGEST_DOMAIN, IntegerTable, joint_epsilon, log_ratio

domain_sizes = st.integers(2, LARGEST_DOMAIN)
epsilons = st.floats(1e-3, 10)


@settings(deadline=None)
@given(domain_size=domain_sizes, epsilon=epsilons)
def test_a_table_uses_every_word_and_has_the_requested_epsilon_or_a_millionth_less(
    domain_size: int, epsilon: float
) -> None:
    table = IntegerTable.of(domain_size=domain_size, epsilon=epsilon)
    assert table.true + (domain_size - 1) * table.other == 2**53
    assert 0 <= epsilon - table.epsilon < 1e-6


@settings(deadline=None)
@given(domain_size=domain_sizes, epsilon=epsilons)
def test_one_word_less_for_each_other_value_would_exceed_the_requested_epsilon(
    domain_size: int, epsilon: float
) -> None:
    table = IntegerTable.of(domain_size=domain_size, epsilon=epsilon)
    with localcontext(prec=60):
        assert Decimal(table.true + domain_size - 1) / (table.other - 1) > Decimal(epsilon).exp()


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, -math.inf])
def test_an_epsilon_that_is_not_above_zero_is_refused(epsilon: float) -> None:
    with pytest.raises(BudgetError, match="must be a number above 0"):
        IntegerTable.of(domain_size=2, epsilon=epsilon)


@pytest.mark.parametrize(("domain_size", "epsilon"), [(2, 1e-17), (LARGEST_DOMAIN, 1e-13)])
def test_an_epsilon_too_small_for_53_bits_is_refused(domain_size: int, epsilon: float) -> None:
    with pytest.raises(BudgetError, match=f"too small to distinguish {domain_size} values"):
        IntegerTable.of(domain_size=domain_size, epsilon=epsilon)


@pytest.mark.parametrize("domain_size", [-1, 0, 1, LARGEST_DOMAIN + 1])
def test_a_domain_that_no_table_fits_is_refused(domain_size: int) -> None:
    with pytest.raises(BudgetError, match=f"domain size is {domain_size}"):
        IntegerTable.of(domain_size=domain_size, epsilon=1.0)


@pytest.mark.parametrize("epsilon", [40.0, 1e9, 1e308])
def test_a_finite_epsilon_never_makes_a_report_impossible(epsilon: float) -> None:
    table = IntegerTable.of(domain_size=3, epsilon=epsilon)
    assert (table.true, table.other) == (2**53 - 2, 1)
    assert math.log(2**53 - 2) <= table.epsilon < 36.8


def test_an_infinite_epsilon_gives_every_word_to_the_true_value() -> None:
    table = IntegerTable.of(domain_size=3, epsilon=math.inf)
    assert (table.true, table.other, table.epsilon) == (2**53, 0, math.inf)


def test_an_epsilon_may_have_any_float_type() -> None:
    epsilon: Any = np.float32(0.5)
    assert IntegerTable.of(domain_size=2, epsilon=epsilon) == IntegerTable.of(domain_size=2, epsilon=0.5)


@settings(deadline=None)
@given(numerator=st.integers(1, 2**53), denominator=st.integers(1, 2**53))
def test_log_ratio_is_the_least_float_that_is_not_below_the_logarithm(numerator: int, denominator: int) -> None:
    bound = log_ratio(Decimal(numerator), Decimal(denominator))
    with localcontext(prec=80):
        exact = Decimal(numerator).ln() - Decimal(denominator).ln()
        assert Decimal(math.nextafter(bound, -math.inf)) < exact <= Decimal(bound)


@settings(deadline=None)
@given(epsilon=epsilons, count=st.integers(1, 60))
def test_tables_compose_by_addition_without_losing_a_bit(epsilon: float, count: int) -> None:
    table = IntegerTable.of(domain_size=2, epsilon=epsilon)
    joint = joint_epsilon([table] * count)
    assert joint == pytest.approx(count * table.epsilon, rel=1e-14)
    with localcontext(prec=60):
        assert Decimal(joint) >= count * (Decimal(table.true) / table.other).ln()
