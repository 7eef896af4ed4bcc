"""The registry of methods: parameters, names, deployment, and what each method spends."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilgraph.errors import BudgetError, FitError, RunError
from veilgraph.models import LPGNN, RGNN, MajorityClass, PlainGNN, register_method
from veilgraph.models.registry import METHODS, find_method, find_method_for_campaign, make_method, methods_for_campaign
from veilgraph.privacy.accounting import guarantee_of
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms import GRR, GRRFS, JointGRR, MultiBit
from veilgraph.privacy.mechanisms.registry import grr_fs
from veilgraph.privacy.schema import FeatureSchema

SCHEMA = FeatureSchema.binary(53, classes=["a", "b", "c"])


@pytest.mark.parametrize("name", METHODS)
def test_an_entry_agrees_with_its_estimator(name: str) -> None:
    entry, method = METHODS[name], make_method(name, {})
    assert entry.parameters | entry.fixed.keys() == method.get_params().keys()
    assert entry.uses_features == method.uses_features
    assert all(getattr(method, parameter) == value for parameter, value in entry.fixed.items())


def test_titles_are_unique_and_every_method_has_a_description() -> None:
    for names in ([entry.title for entry in METHODS.values()], [entry.short_title for entry in METHODS.values()]):
        assert len(set(names)) == len(names)
    assert all(entry.description for entry in METHODS.values())


def test_a_campaign_is_offered_every_private_method_once_whose_needs_it_meets() -> None:
    without_features = {"veil", "veil_labels", "structure_only", "majority"}
    with_codes = without_features | {"rgnn", "plain", "graphsage", "gcn", "gat"}
    assert set(methods_for_campaign(None)) == without_features
    for mechanism in (GRRFS((2, 3), sampled=1, epsilon=1.0), JointGRR((2, 3), sampled=1, epsilon=1.0)):
        assert set(methods_for_campaign(mechanism)) == with_codes
    binary = MultiBit((0.0, 0.0), (1.0, 1.0), sampled=1, epsilon=1.0)
    assert set(methods_for_campaign(binary)) == with_codes | {"lpgnn"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rgnn", "rgnn needs feature reports, which the campaign does not collect: choose veil, "),
        ("lpgnn", "lpgnn needs multi-bit feature reports, which the campaign does not collect: choose veil, "),
        ("non_private", "non_private needs feature reports"),
        ("veil_equal", "there is no method 'veil_equal' for collected reports: choose veil, "),
        ("forest", "there is no method 'forest' for collected reports: choose veil, "),
    ],
)
def test_a_method_that_does_not_fit_a_campaign_is_refused_with_those_that_do(name: str, message: str) -> None:
    with pytest.raises(FitError, match=message) as refusal:
        find_method_for_campaign(name, None)
    assert str(refusal.value).endswith("choose veil, veil_labels, structure_only or majority")


def test_parameters_of_other_methods_are_ignored() -> None:
    parameters = {"feature_hops": 2, "num_clusters": 4, "dropout": 0.25}
    assert make_method("rgnn", parameters) == RGNN(feature_hops=2, num_clusters=4, dropout=0.25)
    assert make_method("lpgnn", parameters) == LPGNN(feature_hops=2, dropout=0.25)
    assert make_method("gat", parameters) == PlainGNN(backbone="gat", dropout=0.25)


def test_an_unknown_method_is_refused_with_the_known_and_the_nearest_ones() -> None:
    with pytest.raises(RunError, match=r"no method 'gnn': known are rgnn, plain, .*; did you mean rgnn or \w+\?$"):
        find_method("gnn")
    with pytest.raises(RunError, match=r"no method 'forest': known are .*veil_non_private$"):
        find_method("forest")


@pytest.mark.parametrize(
    "name",
    ["rgnn", "graphsage", "gcn", "gat", "lpgnn", "lpgnn_equal"],
)
@pytest.mark.parametrize("epsilon_x", [1.0, 0.1, 0.01])
def test_compared_methods_spend_the_same_user_level_epsilon(name: str, epsilon_x: float) -> None:
    entry = find_method(name)
    assert entry.features is not None
    mechanism = entry.features(SCHEMA, entry.budget(SCHEMA, epsilon_x, 3.0, 10))
    guarantee = guarantee_of(mechanism, GRR(3, 3.0))
    assert make_method(name, {}).epsilon_spent(guarantee) == pytest.approx(10 * epsilon_x + 3.0, abs=1e-6)


@given(st.integers(1, 60), st.integers(1, 60))
def test_at_most_all_features_are_sampled(num_features: int, sampled: int) -> None:
    schema = FeatureSchema.binary(num_features, classes=["a", "b"])
    budget = find_method("rgnn").budget(schema, 1.0, 1.0, sampled)
    assert budget == PrivacyBudget(1.0, 1.0, min(sampled, num_features))
    grr_fs(schema, budget)


@pytest.mark.parametrize("name", METHODS)
def test_a_budget_is_for_the_label_alone_where_no_features_are_collected(name: str) -> None:
    entry = find_method(name)
    label_only = FeatureSchema(classes=("a", "b"))
    epsilon = 2.0 if entry.private else math.inf
    assert entry.budget(label_only, None, 2.0, 10) == PrivacyBudget(epsilon_y=epsilon)
    if entry.private and not entry.uses_features:
        assert entry.budget(SCHEMA, 1.0, 2.0, 10) == PrivacyBudget(epsilon_y=2.0)


def test_the_budget_of_the_non_private_method_is_never_private() -> None:
    budget = find_method("non_private").budget(SCHEMA, None, None, 10)
    assert budget == PrivacyBudget.not_private(53)


def test_a_missing_or_zero_budget_is_refused() -> None:
    with pytest.raises(RunError, match="RGNN uses features: give it an epsilon_x"):
        find_method("rgnn").budget(SCHEMA, None, 1.0, 10)
    with pytest.raises(RunError, match="Majority class is private: give it an epsilon_y"):
        find_method("majority").budget(SCHEMA, None, None, 10)
    for epsilon_x, epsilon_y, named in ((0.0, 1.0, "epsilon_x"), (1.0, 0.0, "epsilon_y")):
        with pytest.raises(BudgetError, match=f"{named} is 0.0"):
            find_method("rgnn").budget(SCHEMA, epsilon_x, epsilon_y, 10)


def test_a_name_of_this_package_cannot_be_registered_again() -> None:
    with pytest.raises(RunError, match="'majority' is a method of this package: give yours another name"):
        register_method(title="Mine")(MajorityClass)


def test_a_class_that_is_edited_and_registered_again_replaces_the_earlier_one() -> None:
    def edition(number: int) -> type[MajorityClass]:
        return type("Mine", (MajorityClass,), {"name": "mine", "number": number})

    try:
        for number in (1, 2):
            register_method(title=f"Edition {number}")(edition(number))
            assert find_method("mine").title == f"Edition {number}"
            assert not find_method("mine").uses_features
    finally:
        METHODS.pop("mine", None)
