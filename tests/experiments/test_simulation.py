"""A simulated collection follows the campaign's rules."""

from __future__ import annotations

import numpy as np
import pytest

from veilgraph.datasets import csbm
from veilgraph.errors import BudgetError
from veilgraph.experiments import simulate
from veilgraph.graph import Split
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms import OSRandom

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


def test_the_private_graph_is_left_as_it_was() -> None:
    features, labels = PRIVATE.features.copy(), PRIVATE.labels.copy()
    simulate(PRIVATE, PrivacyBudget(0.1, 0.1, 2), SPLIT, rng=np.random.default_rng(0))
    assert (PRIVATE.features == features).all()
    assert (PRIVATE.labels == labels).all()


def test_a_seed_gives_the_same_reports_and_another_seed_others() -> None:
    first, again, other = (
        simulate(PRIVATE, PrivacyBudget(1.0, 1.0, 2), SPLIT, rng=np.random.default_rng(seed)) for seed in (0, 0, 1)
    )
    assert (first.features == again.features).all()
    assert (first.features != other.features).any()


def test_a_devices_random_source_plugs_into_the_same_place() -> None:
    perturbed = simulate(PRIVATE, PrivacyBudget(1.0, 1.0, 2), SPLIT, rng=OSRandom())
    assert perturbed.features.max() <= 1


def test_more_sampled_features_than_there_are_is_refused() -> None:
    with pytest.raises(BudgetError, match="sampled is 6 but there are 5 features"):
        simulate(PRIVATE, PrivacyBudget(1.0, 1.0, 6), SPLIT, rng=np.random.default_rng(0))
