"""Rivals keep the contract of every method; its tests are those of the package, on other fixtures."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from studies.rivals import (
    RTGNN,
    BoostedTrees,
    CorrectAndSmooth,
    FeatFree,
    ForwardGNN,
    PrivGE,
    SpectralRegression,
    UPGNet,
)
from tests.models.test_conformance import (  # noqa: F401
    MULTI_BIT,
    PERTURBED,
    SPLIT,
    test_a_graph_without_edges_is_refused_unless_neighbours_are_private,
    test_a_method_follows_the_conventions_of_scikit_learn,
    test_a_saved_method_predicts_the_same_after_loading,
    test_missing_feature_reports_are_masked,
    test_probabilities_are_distributions_and_predictions_the_most_likely_classes,
    test_sets_of_one_class_give_the_results_of_grr,
    test_the_same_seed_gives_the_same_result_and_unreported_labels_are_never_read,
    test_the_spent_epsilon_is_that_of_the_reports_a_method_needs,
    test_what_a_method_cannot_use_is_refused,
    test_without_features_a_method_learns_from_labels_or_says_what_it_needs,
    with_sets,
)
from veilgraph.graph import PerturbedGraph
from veilgraph.models import Method

MAKERS: dict[str, Callable[[], Method]] = {
    "upgnet": lambda: UPGNet(epochs=5, feature_hops=2),
    "privge": lambda: PrivGE(epochs=5, feature_hops=2, restart=0.1),
    "spectral": SpectralRegression,
    "correct-and-smooth": CorrectAndSmooth,
    "boosted-trees": BoostedTrees,
    "forward-gnn": lambda: ForwardGNN(epochs=5, feature_hops=2),
    "featfree": lambda: FeatFree(epochs=5, dimensions=8, steps=2),
    "rtgnn": lambda: RTGNN(epochs=5, steps=2, threshold=0.5),
    "featfree-p": lambda: FeatFree(epochs=5, steps=2, smoother="kprop"),
}


@pytest.fixture(params=[*MAKERS, *(f"{name}-sets" for name in MAKERS if name != "featfree-p")])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make(name: str) -> Callable[[], Method]:
    return MAKERS[name.removesuffix("-sets")]


def reports_for(name: str) -> PerturbedGraph:
    reports = MULTI_BIT if name.startswith(("upgnet", "privge")) else PERTURBED
    return with_sets(reports) if name.endswith("-sets") else reports


@cache
def fit(name: str) -> Method:
    """Fit each method once for all tests that do not ask for a second fit."""
    return MAKERS[name.removesuffix("-sets")]().fit(reports_for(name), SPLIT)


@pytest.fixture
def perturbed(name: str) -> PerturbedGraph:
    return reports_for(name)


@pytest.fixture
def fitted(name: str) -> Method:
    return fit(name)
