"""The table of methods: what each one is run with, and what it spends."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilgraph.errors import BudgetError, RunError
from veilgraph.models import LPGNN, RGNN, PlainGNN
from veilgraph.models.registry import METHODS, find_method, make_method
from veilgraph.privacy.accounting import guarantee_of
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms import GRR
from veilgraph.privacy.mechanisms.registry import grr_fs
from veilgraph.privacy.schema import FeatureSchema

SCHEMA = FeatureSchema.binary(53, classes=["a", "b", "c"])


@pytest.mark.parametrize("name", METHODS)
def test_a_method_understands_every_parameter_that_its_line_lists(name: str) -> None:
    method = make_method(name, {})
    assert dataclasses.is_dataclass(method)
    assert METHODS[name].parameters <= {f.name for f in dataclasses.fields(method) if f.init}
    assert METHODS[name].uses_features == method.uses_features


def test_parameters_of_others_do_not_concern_a_method() -> None:
    parameters = {"feature_hops": 2, "num_clusters": 4, "dropout": 0.25}
    assert make_method("rgnn", parameters) == RGNN(feature_hops=2, num_clusters=4, dropout=0.25)
    assert make_method("lpgnn", parameters) == LPGNN(feature_hops=2, dropout=0.25)
    assert make_method("gat", parameters) == PlainGNN(backbone="gat", dropout=0.25)


def test_an_unknown_method_is_refused_with_the_known_ones() -> None:
    with pytest.raises(RunError, match="no method 'gnn': known are rgnn, plain, graphsage, "):
        find_method("gnn")


@pytest.mark.parametrize(
    "name",
    ["rgnn", "graphsage", "gcn", "gat", "lpgnn", "lpgnn_equal", "rgnn_grr_on_all", "rgnn_multi_bit", "rgnn_joint_grr"],
)
@pytest.mark.parametrize("epsilon_x", [1.0, 0.1, 0.01])
def test_methods_that_are_compared_spend_the_same_at_user_level(name: str, epsilon_x: float) -> None:
    entry = find_method(name)
    assert entry.features is not None
    mechanism = entry.features(SCHEMA, entry.budget(SCHEMA, epsilon_x, 3.0, 10))
    guarantee = guarantee_of(mechanism, GRR(3, 3.0))
    assert make_method(name, {}).epsilon_spent(guarantee) == pytest.approx(10 * epsilon_x + 3.0, abs=1e-6)


@given(st.integers(1, 60), st.integers(1, 60))
def test_no_more_features_are_sampled_than_there_are(num_features: int, sampled: int) -> None:
    schema = FeatureSchema.binary(num_features, classes=["a", "b"])
    budget = find_method("rgnn").budget(schema, 1.0, 1.0, sampled)
    assert budget == PrivacyBudget(1.0, 1.0, min(sampled, num_features))
    grr_fs(schema, budget)


def test_the_ceiling_is_not_private_whatever_it_is_offered() -> None:
    budget = find_method("non_private").budget(SCHEMA, None, None, 10)
    assert budget == PrivacyBudget.not_private(53)


def test_a_budget_that_is_missing_or_zero_is_refused_and_not_replaced() -> None:
    with pytest.raises(RunError, match="RGNN uses features: give it an epsilon_x"):
        find_method("rgnn").budget(SCHEMA, None, 1.0, 10)
    with pytest.raises(RunError, match="Majority class is private: give it an epsilon_y"):
        find_method("majority").budget(SCHEMA, None, None, 10)
    for epsilon_x, epsilon_y, named in ((0.0, 1.0, "epsilon_x"), (1.0, 0.0, "epsilon_y")):
        with pytest.raises(BudgetError, match=f"{named} is 0.0"):
            find_method("rgnn").budget(SCHEMA, epsilon_x, epsilon_y, 10)
