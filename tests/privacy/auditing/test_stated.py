"""Exact tests of sampled reports against stated probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from veilgraph.privacy.auditing.sources import MechanismSource
from veilgraph.privacy.auditing.stated import MOST_REPORTS, StatedCheck, binomial_p_values, values_p_value
from veilgraph.privacy.mechanisms import GRR, GRRFS, Mechanism, RandomIntegers


@pytest.mark.parametrize("chance", [0.001, 0.3, 0.99])
def test_p_values_are_at_most_as_small_as_they_say(chance: float) -> None:
    counts = np.arange(201)
    p_values = binomial_p_values(counts, np.full(201, 200), np.full(201, chance))
    for level in (0.1, 0.01, 0.0001):
        assert binom.pmf(counts, 200, chance)[p_values <= level].sum() <= level


def test_a_report_that_is_impossible_has_the_p_value_0() -> None:
    assert binomial_p_values(np.array([1, 0]), np.array([10, 10]), np.array([0.0, 0.0])).tolist() == [0.0, 1.0]


def p_value_of(mechanism: Mechanism, stated: Mechanism, seed: int, trials: int = 2000) -> float:
    """Return the p-value of draws of one mechanism against the probabilities of another one."""
    rng = np.random.default_rng(seed)
    source, other = (MechanismSource.of(each, 8, np.random.default_rng(0)) for each in (mechanism, stated))
    check = StatedCheck(source.num_records)
    for part in range(2):
        numbers = rng.integers(0, source.num_records, size=trials)
        drawn = source.draw(numbers, rng=rng)
        drawn = type(drawn)(drawn.columns, drawn.blocks, other)
        if part == 0:
            check.learn(drawn)
        else:
            check.count(drawn, numbers, are_of_all=True)
    return check.p_value


FEW, MANY = GRR(5, 1.0), GRRFS((2,) * 16, sampled=8, epsilon=1.0)


@pytest.mark.parametrize("mechanism", [FEW, MANY], ids=repr)
def test_true_probabilities_are_refuted_as_seldom_as_stated(mechanism: Mechanism) -> None:
    p_values = [p_value_of(mechanism, mechanism, seed, trials=2 * MOST_REPORTS) for seed in range(40)]
    assert sum(value <= 0.05 for value in p_values) <= binom.isf(1e-5, 40, 0.05)


@pytest.mark.parametrize(
    ("mechanism", "stated"),
    [(FEW, GRR(5, 1.3)), (MANY, GRRFS((2,) * 16, sampled=8, epsilon=1.5))],
    ids=["few-reports", "many-reports"],
)
def test_other_probabilities_are_refuted(mechanism: Mechanism, stated: Mechanism) -> None:
    assert p_value_of(mechanism, stated, 0, trials=10_000) < 1e-4


class OneValueBare(GRR):
    """A GRR that reports one value of many unrandomized."""

    def randomize(self, values: NDArray[Any], *, rng: RandomIntegers) -> NDArray[Any]:
        """Randomize all values but 777."""
        return np.where(values == 777, values, super().randomize(values, rng=rng))


def test_one_value_of_a_thousand_that_is_not_randomized_is_found() -> None:
    found = []
    for mechanism in (GRR(1000, 1.0), OneValueBare(1000, 1.0)):
        rng = np.random.default_rng(0)
        values = MechanismSource.of(mechanism, 64, rng).of_many_values(rng)
        assert values is not None
        assert values.num_records == 1000
        found.append(values_p_value(values, rng))
    assert found[0] > 1e-3
    assert found[1] < 1e-9
