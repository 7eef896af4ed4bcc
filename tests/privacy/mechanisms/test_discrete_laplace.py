"""Discrete Laplace noise is exact: its law, its tails and its epsilon follow from one integer."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from veilgraph.errors import BudgetError
from veilgraph.privacy.mechanisms import OSRandom
from veilgraph.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from veilgraph.privacy.mechanisms.random_source import WORDS


@pytest.mark.parametrize(("epsilon", "sensitivity"), [(1.0, 1), (0.1, 5), (4.0, 60), (50.0, 3)])
def test_the_epsilon_of_a_shift_is_at_most_the_requested_one_and_hardly_less(epsilon: float, sensitivity: int) -> None:
    noise = DiscreteLaplace.of(epsilon=epsilon, sensitivity=sensitivity)
    with localcontext(prec=60):
        exact = sensitivity * (Decimal(WORDS) / noise.more).ln()
    assert Decimal(noise.epsilon(sensitivity)) >= exact
    assert epsilon - 1e-6 < noise.epsilon(sensitivity) <= epsilon


def test_tails_are_sums_of_probabilities() -> None:
    noise = DiscreteLaplace.of(epsilon=1.0, sensitivity=2)
    for start in range(-5, 6):
        assert noise.tail(start) - noise.tail(start + 1) == noise.probability(start)
    assert noise.tail(0) + noise.tail(1) == 1  # by symmetry


def test_draws_have_the_stated_law() -> None:
    noise = DiscreteLaplace.of(epsilon=1.0, sensitivity=2)
    drawn = np.clip(noise.draw(20_000, rng=np.random.default_rng(0)), -8, 8)
    law = [noise.tail(8), *(noise.probability(z) for z in range(-7, 8)), noise.tail(8)]
    assert sum(law) == 1
    expected = 20_000 * np.array(law, dtype=float)
    assert expected.min() > 5
    # A correct sampler fails for one seed in a million.
    assert chisquare(np.bincount(drawn + 8, minlength=17), expected).pvalue > 1e-6


def test_the_operating_systems_randomness_is_accepted() -> None:
    assert len(DiscreteLaplace.of(epsilon=1.0, sensitivity=60).draw(100, rng=OSRandom())) == 100


def test_without_privacy_there_is_no_noise() -> None:
    noise = DiscreteLaplace.of(epsilon=math.inf, sensitivity=4)
    assert not noise.draw(100, rng=np.random.default_rng(0)).any()
    assert noise.epsilon(4) == math.inf
    assert noise.probability(0) == Fraction(1)
    assert noise.log_probability(np.array([0, 1])).tolist() == [0.0, -math.inf]


@pytest.mark.parametrize(("epsilon", "sensitivity"), [(0.0, 1), (1.0, 0), (1e-6, 60)])
def test_noise_that_cannot_be_drawn_is_refused(epsilon: float, sensitivity: int) -> None:
    with pytest.raises(BudgetError):
        DiscreteLaplace.of(epsilon=epsilon, sensitivity=sensitivity)
