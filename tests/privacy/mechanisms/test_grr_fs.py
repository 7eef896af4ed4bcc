"""GRR with feature sampling: its exact epsilon under each neighbour relation."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom

from veilgraph.errors import BudgetError
from veilgraph.privacy.audit import worst_case_attribute_epsilon, worst_case_epsilon
from veilgraph.privacy.mechanisms import GRRFS
from veilgraph.privacy.mechanisms.grr_fs import theorem_1_figure

UNEQUAL = ((2, 3, 4), (3, 2, 2, 2), (2, 5))
EQUAL = ((2,) * 4, (3,) * 3)


@settings(deadline=None, max_examples=25)
@given(
    domain_sizes=st.lists(st.integers(2, 3), min_size=1, max_size=4),
    share=st.floats(0, 1),
    epsilon=st.floats(0.01, 4),
)
def test_grr_fs_spends_exactly_its_budget(domain_sizes: list[int], share: float, epsilon: float) -> None:
    sampled = 1 + round(share * (len(domain_sizes) - 1))
    mechanism = GRRFS(tuple(domain_sizes), sampled=sampled, epsilon=epsilon)
    assert worst_case_epsilon(mechanism) == pytest.approx(sampled * epsilon, abs=1e-9)


@pytest.mark.parametrize(
    ("domain_sizes", "sampled", "exact", "figure"),
    [((2,) * 4, 2, 2.0, 1.4338), ((2,) * 5, 3, 3.0, 2.5218), ((2, 3, 4), 2, 2.0, 1.6600)],
)
def test_enumeration_refutes_theorem_1(
    domain_sizes: tuple[int, ...], sampled: int, exact: float, figure: float
) -> None:
    claimed = theorem_1_figure(1.0, sampled=sampled, num_features=len(domain_sizes))
    assert claimed == pytest.approx(figure, abs=5e-5)
    assert worst_case_epsilon(GRRFS(domain_sizes, sampled=sampled, epsilon=1.0)) == pytest.approx(exact, abs=1e-9)
    assert claimed < exact


def elementary_symmetric(numbers: list[float], degree: int) -> float:
    return math.fsum(math.prod(chosen) for chosen in itertools.combinations(numbers, degree))


@pytest.mark.parametrize("domain_sizes", EQUAL + UNEQUAL)
@pytest.mark.parametrize("epsilon", [0.2, 1.0])
def test_the_attribute_level_is_a_ratio_of_elementary_symmetric_polynomials(
    domain_sizes: tuple[int, ...], epsilon: float
) -> None:
    for sampled in range(1, len(domain_sizes) + 1):
        mechanism = GRRFS(domain_sizes, sampled=sampled, epsilon=epsilon)
        for k, size in enumerate(domain_sizes):
            others = [g / (math.exp(epsilon) + g - 1) for i, g in enumerate(domain_sizes) if i != k]
            e_m, e_below = (elementary_symmetric(others, degree) for degree in (sampled, sampled - 1))
            miss = size / (math.exp(epsilon) + size - 1)
            exact = math.log((e_m + math.exp(epsilon) * miss * e_below) / (e_m + miss * e_below))
            assert mechanism.privacy_loss.attribute_level[k] == pytest.approx(exact, abs=1e-9)
            assert worst_case_attribute_epsilon(mechanism, k) == pytest.approx(exact, abs=1e-9)


def test_unequal_domains_amplify_less_than_the_sampling_rate_suggests() -> None:
    by_sampling_rate = math.log1p(math.expm1(1.0) / 3)
    assert by_sampling_rate == pytest.approx(0.4528, abs=5e-5)
    assert max(GRRFS((2, 3, 4), sampled=1, epsilon=1.0).privacy_loss.attribute_level) == pytest.approx(0.4957, abs=5e-5)
    for level in GRRFS((3, 3, 3), sampled=1, epsilon=1.0).privacy_loss.attribute_level:
        assert level == pytest.approx(by_sampling_rate, abs=1e-9)


@pytest.mark.parametrize(("size", "features", "sampled"), [(2, 4, 1), (2, 4, 2), (2, 5, 3), (3, 3, 2)])
def test_records_that_differ_in_s_features_are_as_far_apart_as_the_sample_hits_them(
    size: int, features: int, sampled: int
) -> None:
    epsilon = 0.8
    mechanism = GRRFS((size,) * features, sampled=sampled, epsilon=epsilon)
    x = (0,) * features
    for differing in range(1, features + 1):
        other = (1,) * differing + (0,) * (features - differing)
        worst = max(
            math.log(mechanism.probability(o, x) / mechanism.probability(o, other)) for o in mechanism.reports()
        )
        hits = np.arange(sampled + 1)
        chances = hypergeom.pmf(hits, features, differing, sampled)
        assert worst == pytest.approx(math.log(chances @ np.exp(epsilon * hits)), abs=1e-9)


@pytest.mark.parametrize("domain_sizes", EQUAL + UNEQUAL)
def test_probability_is_the_mean_over_every_choice_of_sampled_features(domain_sizes: tuple[int, ...]) -> None:
    for sampled in range(1, len(domain_sizes) + 1):
        mechanism = GRRFS(domain_sizes, sampled=sampled, epsilon=0.9)
        choices = list(itertools.combinations(range(len(domain_sizes)), sampled))
        x = tuple(size - 1 for size in domain_sizes)
        for report in mechanism.reports():
            total = Fraction(0)
            for choice in choices:
                total += math.prod(
                    mechanism.responses[i].probability((report[i],), (x[i],)) if i in choice else Fraction(1, size)
                    for i, size in enumerate(domain_sizes)
                )
            assert mechanism.probability(report, x) == total / len(choices)


@pytest.mark.parametrize("domain_sizes", EQUAL + UNEQUAL)
def test_the_channel_of_a_feature_is_the_marginal_of_the_whole_report(domain_sizes: tuple[int, ...]) -> None:
    mechanism = GRRFS(domain_sizes, sampled=2, epsilon=0.9)
    for i, size in enumerate(domain_sizes):
        for value in range(size):
            x = (0,) * i + (value,) + (0,) * (len(domain_sizes) - i - 1)
            marginal = [Fraction(0)] * size
            for report in mechanism.reports():
                marginal[report[i]] += mechanism.probability(report, x)
            assert tuple(marginal) == mechanism.channel(i).matrix[value]


def test_an_infinite_epsilon_is_not_private_under_either_relation() -> None:
    mechanism = GRRFS((2, 3, 4), sampled=2, epsilon=math.inf)
    assert mechanism.privacy_loss.user_level == math.inf
    assert [worst_case_attribute_epsilon(mechanism, i) for i in range(3)] == [math.inf] * 3
    assert mechanism.privacy_loss.attribute_level == (math.inf,) * 3


@pytest.mark.parametrize("sampled", [0, -1, 4])
def test_an_impossible_number_of_sampled_features_is_refused(sampled: int) -> None:
    with pytest.raises(BudgetError, match=f"sampled is {sampled} but there are 3 features: choose 1 to 3"):
        GRRFS((2, 3, 4), sampled=sampled, epsilon=1.0)


def test_equal_parameters_make_equal_mechanisms() -> None:
    assert GRRFS((2, 3), 1, 0.5) == GRRFS(tuple(np.array([2, 3])), 1, 0.5)
    assert GRRFS((2, 3), 1, 0.5) != GRRFS((3, 2), 1, 0.5)
