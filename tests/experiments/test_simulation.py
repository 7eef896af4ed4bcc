"""A simulated collection follows the campaign's rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilgraph.datasets import csbm
from veilgraph.errors import BudgetError
from veilgraph.experiments import simulate
from veilgraph.experiments.simulation import randomize_coupled
from veilgraph.graph import Split
from veilgraph.privacy.accounting import Released
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms import (
    GRRFS,
    FeatureMechanism,
    JointGRR,
    MultiBit,
)

PRIVATE = csbm(300, num_features=5, seed=0)
SPLIT = Split.random(300, seed=0)


def test_test_nodes_report_no_label() -> None:
    perturbed = simulate(PRIVATE, PrivacyBudget(1.0, 1.0, 2), SPLIT, rng=np.random.default_rng(0))
    assert (perturbed.has_label == SPLIT.labelled).all()
    assert (perturbed.labels[SPLIT.test] == 0).all()


def test_an_infinite_budget_reports_the_records() -> None:
    perturbed = simulate(PRIVATE, PrivacyBudget.not_private(5), SPLIT, rng=np.random.default_rng(0))
    assert (perturbed.features == PRIVATE.features).all()
    assert (perturbed.labels[SPLIT.labelled] == PRIVATE.labels[SPLIT.labelled]).all()
    assert perturbed.guarantee.total_user_level == float("inf")


def test_a_seed_gives_the_same_reports_and_leaves_the_private_graph_as_it_was() -> None:
    features, labels = PRIVATE.features.copy(), PRIVATE.labels.copy()
    simulate(PRIVATE, PrivacyBudget(0.1, 0.1, 2), SPLIT, rng=np.random.default_rng(0))
    assert (PRIVATE.features == features).all()
    assert (PRIVATE.labels == labels).all()
    first, again, other = (
        simulate(PRIVATE, PrivacyBudget(1.0, 1.0, 2), SPLIT, rng=np.random.default_rng(seed)) for seed in (0, 0, 1)
    )
    assert (first.features == again.features).all()
    assert (first.features != other.features).any()


def test_more_sampled_features_than_there_are_is_refused() -> None:
    with pytest.raises(BudgetError, match="sampled is 60 but there are 5 features: choose 1 to 5"):
        simulate(PRIVATE, PrivacyBudget(1.0, 1.0, 60), SPLIT, rng=np.random.default_rng(0))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rng": 0}, "rng is of type int: give a generator"),
        ({"budget": 1.0}, "the budget is of type float: give a PrivacyBudget"),
        ({"split": Split.random(7, seed=0)}, "give a Split of the"),
    ],
)
def test_a_simulation_refuses_what_it_cannot_use(wrong: dict[str, Any], message: str) -> None:
    asked: dict[str, Any] = {"budget": PrivacyBudget(epsilon_y=1.0), "split": SPLIT, "rng": np.random.default_rng(0)}
    with pytest.raises(BudgetError, match=message):
        simulate(PRIVATE, **asked | wrong)


def test_without_features_to_ask_for_the_label_alone_is_collected() -> None:
    both, alone = (
        simulate(PRIVATE, budget, SPLIT, rng=np.random.default_rng(0))
        for budget in (PrivacyBudget(1.0, 2.0, 2), PrivacyBudget(epsilon_y=2.0))
    )
    assert (alone.labels == both.labels).all()
    assert alone.feature_mechanism is None
    assert not alone.features.any()
    assert not alone.has_features.any()
    assert not alone.guarantee.releases(Released.FEATURES)
    private = csbm(50, num_features=0, seed=0)
    split = Split.random(50, seed=0)
    alone = simulate(private, PrivacyBudget(epsilon_y=2.0), split, rng=np.random.default_rng(0))
    assert alone.features.shape == (50, 0)
    with pytest.raises(BudgetError, match="there are no features to randomize: leave epsilon_x and sampled out"):
        simulate(private, PrivacyBudget(1.0, 2.0, 1), split, rng=np.random.default_rng(0))


SIZES = (2, 3, 5, 2)
RECORDS = np.stack([np.random.default_rng(0).integers(0, size, 50) for size in SIZES], axis=1).astype(np.uint8)


def grr_fs(epsilon: float, sampled: int = 2) -> GRRFS:
    return GRRFS(SIZES, sampled=sampled, epsilon=epsilon)


def multi_bit(epsilon: float, sampled: int = 2) -> MultiBit:
    return MultiBit((0.0,) * 4, tuple(size - 1.0 for size in SIZES), sampled=sampled, epsilon=epsilon)


def joint(epsilon: float, sampled: int = 2) -> JointGRR:
    return JointGRR(SIZES, sampled=sampled, epsilon=epsilon)


@given(st.sampled_from([grr_fs, multi_bit]), st.lists(st.floats(0.01, 8), min_size=1, max_size=4), st.integers(0, 99))
def test_reports_are_those_of_each_with_a_generator_of_its_own(
    make: Callable[[float], FeatureMechanism], epsilons: list[float], seed: int
) -> None:
    mechanisms = [make(epsilon) for epsilon in epsilons]
    together = randomize_coupled(mechanisms, RECORDS, rng=np.random.default_rng(seed))
    alone = [each.randomize(RECORDS, rng=np.random.default_rng(seed)) for each in mechanisms]
    assert all(np.array_equal(one, other) for one, other in zip(together, alone, strict=True))


@pytest.mark.parametrize("mechanism", [grr_fs(math.inf), multi_bit(math.inf), joint(1.0)])
def test_who_has_no_family_is_randomized_alone(mechanism: FeatureMechanism) -> None:
    (found,) = randomize_coupled([mechanism], RECORDS, rng=np.random.default_rng(0))
    assert np.array_equal(found, mechanism.randomize(RECORDS, rng=np.random.default_rng(0)))
    assert mechanism.coupling == mechanism


STRANGERS = {
    "none": [],
    "m": [grr_fs(1.0), grr_fs(1.0, sampled=3)],
    "kind": [grr_fs(1.0), multi_bit(1.0)],
    "not private": [grr_fs(1.0), grr_fs(math.inf)],
    "no family": [joint(1.0), joint(2.0)],
}


@pytest.mark.parametrize("mechanisms", STRANGERS.values(), ids=list(STRANGERS))
def test_strangers_are_refused(mechanisms: Sequence[FeatureMechanism]) -> None:
    with pytest.raises(BudgetError, match="differ in nothing but a finite epsilon"):
        randomize_coupled(mechanisms, RECORDS, rng=np.random.default_rng(0))


def test_public_attributes_reach_the_server_and_cost_nothing() -> None:
    known = PRIVATE.with_public_features()
    perturbed = simulate(known, PrivacyBudget(epsilon_y=1.0), SPLIT, rng=np.random.default_rng(0))
    assert perturbed.public is known.public
    assert perturbed.guarantee.total_user_level == pytest.approx(1.0, abs=1e-6)
