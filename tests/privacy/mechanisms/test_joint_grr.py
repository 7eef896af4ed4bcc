"""Joint GRR: several features are randomized as one value, with the epsilon of one value."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from veilgraph.errors import BudgetError
from veilgraph.privacy.audit import worst_case_attribute_epsilon, worst_case_epsilon
from veilgraph.privacy.mechanisms import GRR, NOT_ASKED, JointGRR

EQUAL = ((2,) * 4, (3,) * 3)
UNEQUAL = ((2, 3, 4), (3, 2, 2, 2), (2, 5))


@settings(deadline=None, max_examples=25)
@given(
    domain_sizes=st.lists(st.integers(2, 3), min_size=1, max_size=4),
    share=st.floats(0, 1),
    epsilon=st.floats(0.01, 4),
)
def test_joint_grr_spends_exactly_its_budget_at_either_level(
    domain_sizes: list[int], share: float, epsilon: float
) -> None:
    sampled = 1 + round(share * (len(domain_sizes) - 1))
    mechanism = JointGRR(tuple(domain_sizes), sampled=sampled, epsilon=epsilon)
    assert (
        worst_case_epsilon(mechanism) == mechanism.privacy_loss.user_level == pytest.approx(sampled * epsilon, abs=1e-9)
    )
    for i in range(len(domain_sizes)):
        # Exactly the same number: both are computed from the integers and rounded up once.
        assert worst_case_attribute_epsilon(mechanism, i) == mechanism.privacy_loss.attribute_level[i]


@pytest.mark.parametrize("domain_sizes", EQUAL + UNEQUAL)
def test_the_channel_of_a_feature_is_the_marginal_of_an_answer(domain_sizes: tuple[int, ...]) -> None:
    for sampled in range(1, len(domain_sizes) + 1):
        mechanism = JointGRR(domain_sizes, sampled=sampled, epsilon=0.9)
        for i, size in enumerate(domain_sizes):
            for value in range(size):
                x = (0,) * i + (value,) + (0,) * (len(domain_sizes) - i - 1)
                marginal = [Fraction(0)] * (size + 1)
                for report in mechanism.reports():
                    marginal[report[i]] += mechanism.probability(report, x)  # the last one counts NOT_ASKED
                answered = 1 - marginal[NOT_ASKED]
                assert answered == mechanism.answering_rate
                assert tuple(p / answered for p in marginal[:-1]) == mechanism.channel(i).matrix[value]


@pytest.mark.parametrize(("sampled", "total"), [(1, 1.0), (4, 4.0), (11, 10.0)])
def test_the_gain_of_binary_features_is_the_formula(sampled: int, total: float) -> None:
    mechanism = JointGRR((2,) * 58, sampled=sampled, epsilon=total / sampled)
    expected = math.expm1(total) / (math.expm1(total) + 2**sampled)
    assert float(mechanism.channel(7).gain) == pytest.approx(expected, abs=1e-11)


def test_one_sampled_feature_is_grr_with_the_whole_budget() -> None:
    mechanism = JointGRR((2, 5, 3), sampled=1, epsilon=1.3)
    for i, size in enumerate((2, 5, 3)):
        assert mechanism.channel(i) == GRR(size, 1.3).channel


def variance_of_separate_answers(num_features: int, epsilon: float) -> float:
    """Return the least variance over m of m separate responses with epsilon / m each, for binary features."""
    return min(num_features / (4 * m * math.tanh(epsilon / (2 * m)) ** 2) for m in range(1, num_features + 1))


@settings(deadline=None, max_examples=50)
@given(num_features=st.integers(1, 100), epsilon=st.floats(0.05, 20))
def test_binary_features_answered_together_vary_no_more_than_answered_separately(
    num_features: int, epsilon: float
) -> None:
    joint = JointGRR.best((2,) * num_features, epsilon)
    variance = 1 / (4 * float(joint.answering_rate) * float(joint.channel(0).gain) ** 2)
    # Rounding of the table may change epsilon by a millionth; with one feature both are the same mechanism.
    assert variance <= variance_of_separate_answers(num_features, epsilon) * (1 + 1e-6)


@pytest.mark.parametrize("domain_sizes", [(2,) * 14, (2,) * 58, (2, 3, 4, 5) * 5, (2, 2, 60)])
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 10.0])
def test_the_best_number_of_features_is_the_best_of_all(domain_sizes: tuple[int, ...], epsilon: float) -> None:
    best = JointGRR.best(domain_sizes, epsilon)
    assert best.privacy_loss.user_level == pytest.approx(epsilon, abs=1e-6)

    def mean_variance(mechanism: JointGRR) -> float:
        channels = [mechanism.channel(i) for i in range(len(domain_sizes))]
        of_uniform = [(1 - 1 / c.domain_size) / c.domain_size / float(c.gain) ** 2 for c in channels]
        return float(np.mean(of_uniform)) / float(mechanism.answering_rate)

    possible = [
        JointGRR(domain_sizes, sampled=m, epsilon=epsilon / m)
        for m in range(1, len(domain_sizes) + 1)
        if math.prod(sorted(domain_sizes)[-m:]) <= 2**16
    ]
    assert mean_variance(best) == pytest.approx(min(map(mean_variance, possible)), rel=1e-12)


def test_a_report_has_m_answers_and_every_set_of_features_occurs() -> None:
    mechanism = JointGRR((2, 3, 4, 2, 3), sampled=2, epsilon=1.0)
    people = np.zeros((4000, 5), dtype=np.uint8)
    reports = mechanism.randomize(people, rng=np.random.default_rng(0))
    asked = reports != NOT_ASKED
    assert (asked.sum(axis=1) == 2).all()
    sets = {tuple(np.flatnonzero(row).tolist()) for row in asked}
    assert sets == set(itertools.combinations(range(5), 2))


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint64])
@pytest.mark.parametrize("size", [2, 128, 129, 200])
def test_codes_of_any_integer_type_and_size_survive(dtype: type, size: int) -> None:
    mechanism = JointGRR((size, 2, size), sampled=2, epsilon=math.inf)
    people: NDArray[Any] = np.array([[size - 1, 1, 0], [0, 0, size - 1]] * 50, dtype=dtype)
    reports = mechanism.randomize(people, rng=np.random.default_rng(0))
    answered = reports != NOT_ASKED
    np.testing.assert_array_equal(reports[answered], people[answered])


def test_joint_values_may_exceed_the_type_of_codes() -> None:
    mechanism = JointGRR((2,) * 16, sampled=16, epsilon=0.5)  # 2**16 joint values, from codes of one byte
    reports = mechanism.randomize(np.ones((10, 16), dtype=np.uint8), rng=np.random.default_rng(0))
    assert reports.shape == (10, 16)


def test_too_many_joint_values_are_refused() -> None:
    with pytest.raises(BudgetError, match=r"sampled is 17: .* 131072 joint values, and at most 65536 are possible"):
        JointGRR((2,) * 53, sampled=17, epsilon=1.0)


@pytest.mark.parametrize("sampled", [0, 3])
def test_an_impossible_number_of_sampled_features_is_refused(sampled: int) -> None:
    with pytest.raises(BudgetError, match=f"sampled is {sampled} but there are 2 features"):
        JointGRR((2, 2), sampled=sampled, epsilon=1.0)


def test_there_is_no_best_number_of_no_features() -> None:
    with pytest.raises(BudgetError, match="sampled is 1 but there are 0 features"):
        JointGRR.best((), 1.0)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan])
def test_an_epsilon_that_is_not_above_zero_is_refused(epsilon: float) -> None:
    with pytest.raises(BudgetError, match="must be a number above 0"):
        JointGRR((2, 2), sampled=1, epsilon=epsilon)
    with pytest.raises(BudgetError, match="must be a number above 0"):
        JointGRR.best((2, 2), epsilon)


def test_a_domain_of_one_value_is_refused() -> None:
    with pytest.raises(BudgetError, match="domain size is 1"):
        JointGRR((2, 1), sampled=1, epsilon=1.0)
