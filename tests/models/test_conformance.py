"""The contract of every method."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from veilgraph.datasets import csbm
from veilgraph.errors import FitError
from veilgraph.evaluation import accuracy
from veilgraph.experiments import simulate
from veilgraph.experiments.simulation import randomize_labels
from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.models import (
    LPGNN,
    RGNN,
    LabelVeil,
    MajorityClass,
    Method,
    NeighbourWaves,
    PlainGNN,
    StructureOnly,
    Veil,
)
from veilgraph.models.base import declared_types
from veilgraph.models.engine.gnn_method import GNNMethod
from veilgraph.models.parameters import Range
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms import SubsetSelection
from veilgraph.privacy.mechanisms.registry import joint_grr_best, multi_bit
from veilgraph.privacy.schema import FeatureSchema

PRIVATE = csbm(200, num_classes=3, num_features=6, seed=0)
SPLIT = Split.random(200, seed=0)
BUDGET = PrivacyBudget(1.0, 2.0, 3)
PERTURBED = simulate(PRIVATE, BUDGET, SPLIT, rng=np.random.default_rng(0))
JOINT_GRR = simulate(PRIVATE, BUDGET, SPLIT, rng=np.random.default_rng(0), features=joint_grr_best)
LABEL_ONLY = simulate(PRIVATE, PrivacyBudget(epsilon_y=2.0), SPLIT, rng=np.random.default_rng(0))
MULTI_BIT = simulate(PRIVATE, BUDGET, SPLIT, rng=np.random.default_rng(0), features=multi_bit)


def with_sets(perturbed: PerturbedGraph) -> PerturbedGraph:
    """Return the same feature reports with label sets of two classes."""
    mechanism = SubsetSelection(3, BUDGET.epsilon_y, 2)
    labels = randomize_labels(PRIVATE, mechanism, SPLIT, rng=np.random.default_rng(0))
    return replace(perturbed, labels=labels, label_mechanism=mechanism)


MAKERS: dict[str, Callable[[], Method]] = {
    "rgnn-sage": lambda: RGNN(epochs=5, feature_hops=2, label_hops=2, num_clusters=4),
    "rgnn-gcn": lambda: RGNN(backbone="gcn", epochs=5, feature_hops=2, label_hops=2, num_clusters=4),
    "rgnn-gat": lambda: RGNN(backbone="gat", epochs=5, feature_hops=2, label_hops=2, num_clusters=4),
    "rgnn-joint-grr": lambda: RGNN(epochs=5, feature_hops=2, label_hops=2, num_clusters=4),
    "rgnn-no-fx": lambda: RGNN(epochs=5, num_clusters=4, reconstruct_x=False, feature_hops=16, label_hops=8),
    "rgnn-no-fy": lambda: RGNN(epochs=5, num_clusters=4, reconstruct_y=False, feature_hops=16, label_hops=8),
    "rgnn-no-llp": lambda: RGNN(epochs=5, use_proportions=False, feature_hops=16, label_hops=8),
    "rgnn-no-estimation": lambda: RGNN(epochs=5, num_clusters=4, estimate=False, feature_hops=16, label_hops=8),
    "plain": lambda: PlainGNN(epochs=5),
    "structure-only": StructureOnly,
    "lpgnn": lambda: LPGNN(epochs=5, feature_hops=2, label_hops=2),
    "lpgnn-gcn": lambda: LPGNN(backbone="gcn", epochs=5, feature_hops=2, label_hops=1),
    "lpgnn-no-correction": lambda: LPGNN(epochs=5, feature_hops=2, label_hops=2, forward_correction=False),
    "majority": MajorityClass,
    "veil": Veil,
    "veil-labels": LabelVeil,
    "neighbour-waves": NeighbourWaves,
}
MAKERS |= {
    f"{name}-sets": MAKERS[name]
    for name in (
        "rgnn-sage",
        "rgnn-no-fy",
        "rgnn-no-estimation",
        "plain",
        "structure-only",
        "lpgnn",
        "majority",
        "veil",
    )
}
"""The same methods on label sets."""


@pytest.fixture(params=sorted(MAKERS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make(name: str) -> Callable[[], Method]:
    return MAKERS[name]


def reports_for(name: str) -> PerturbedGraph:
    """Return the same people's reports, by the mechanism that the method needs."""
    reports = MULTI_BIT if name.startswith("lpgnn") else JOINT_GRR if name.endswith("joint-grr") else PERTURBED
    return with_sets(reports) if name.endswith("-sets") else reports


@cache
def fit(name: str) -> Method:
    """Fit each method once for all tests that do not ask for a second fit."""
    return MAKERS[name]().fit(reports_for(name), SPLIT)


@pytest.fixture
def perturbed(name: str) -> PerturbedGraph:
    return reports_for(name)


@pytest.fixture
def fitted(name: str) -> Method:
    return fit(name)


def test_probabilities_are_distributions_and_predictions_the_most_likely_classes(
    fitted: Method, perturbed: PerturbedGraph
) -> None:
    probabilities = fitted.predict_proba()
    assert probabilities.shape == (200, 3)
    assert (probabilities >= 0).all()
    assert np.allclose(probabilities.sum(1), 1, atol=1e-5)
    assert (fitted.predict() == fitted.predict_proba().argmax(1)).all()
    assert np.allclose(fitted.predict_proba(perturbed), fitted.predict_proba(), atol=1e-6)


def test_writing_into_the_probabilities_changes_no_later_prediction(fitted: Method) -> None:
    probabilities, predicted = fitted.predict_proba(), fitted.predict()
    probabilities[:] = probabilities[:, ::-1].copy()
    assert not (probabilities == fitted.predict_proba()).all()
    assert (fitted.predict() == predicted).all()


def test_the_same_seed_gives_the_same_result_and_unreported_labels_are_never_read(
    make: Callable[[], Method], perturbed: PerturbedGraph, fitted: Method
) -> None:
    garbled = perturbed.labels.copy()
    garbled[~perturbed.has_label] = 2
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    again = make().fit(replace(perturbed, labels=garbled), SPLIT).predict_proba()
    assert (again == fitted.predict_proba()).all()
    assert torch.equal(torch.rand(3), expected), "global randomness was used"


def test_what_a_method_cannot_use_is_refused(
    make: Callable[[], Method], perturbed: PerturbedGraph, tmp_path: Path
) -> None:
    with pytest.raises(FitError, match="of type ndarray: give a PerturbedGraph"):
        make().fit(np.zeros((200, 6)), PRIVATE.labels)  # type: ignore[arg-type]
    with pytest.raises(FitError, match="of type NoneType: give a Split"):
        make().fit(perturbed, None)  # type: ignore[arg-type]
    with pytest.raises(FitError, match="the split is for 10 nodes"):
        make().fit(perturbed, Split.random(10, seed=0))
    for part in (SPLIT.train, SPLIT.validation):
        with pytest.raises(FitError, match="no labelled nodes"):
            make().fit(replace(perturbed, has_label=perturbed.has_label & ~part), SPLIT)
    with pytest.raises(FitError, match="not fitted yet"):
        make().predict()
    with pytest.raises(FitError, match="not fitted yet"):
        make().save(tmp_path / "new")
    other: Method = PlainGNN(epochs=1) if isinstance(make(), MajorityClass) else MajorityClass()
    other.fit(PERTURBED, SPLIT).save(tmp_path)
    with pytest.raises(FitError, match=f"holds a model of '{other.name}', not of"):
        type(make()).load(tmp_path)


def test_a_fit_refuses_parameters_outside_their_range_or_type(
    make: Callable[[], Method], perturbed: PerturbedGraph
) -> None:
    method = make()
    numbers = {name: Range(0) for name, kind in declared_types(type(method)).items() if kind in (int, float)}
    for name in (numbers | dict(method.ranges)).keys() & method.get_params().keys():
        for wrong in (-1, "2", math.nan, True):
            with pytest.raises(FitError, match=f"^{name} is {wrong!r}: give a "):
                make().set_params(**{name: wrong}).fit(perturbed, SPLIT)


def test_sets_of_one_class_give_the_results_of_grr(
    make: Callable[[], Method], perturbed: PerturbedGraph, fitted: Method
) -> None:
    if perturbed.label_mechanism.set_size > 1:
        return
    single = SubsetSelection(3, BUDGET.epsilon_y, 1)
    sets = replace(perturbed, labels=single.encode(perturbed.labels[:, None].tolist()), label_mechanism=single)
    # Sums may be rounded in another order.
    assert np.allclose(make().fit(sets, SPLIT).predict_proba(), fitted.predict_proba(), atol=1e-4)


def test_missing_feature_reports_are_masked(make: Callable[[], Method], perturbed: PerturbedGraph) -> None:
    has_features = perturbed.has_features.copy()
    has_features[::3] = False
    garbled = perturbed.features.copy()
    garbled[::3] = 1
    one, other = (
        make().fit(replace(perturbed, features=f, has_features=has_features), SPLIT).predict_proba()
        for f in (perturbed.features, garbled)
    )
    assert (one == other).all()


def test_a_graph_without_edges_is_refused_unless_neighbours_are_private(
    make: Callable[[], Method], perturbed: PerturbedGraph
) -> None:
    alone = replace(perturbed, graph=Graph.without_edges(perturbed.graph.num_nodes), neighbour_waves=())
    if make().unmet_graph(has_edges=False) is None:
        assert make().fit(alone, SPLIT).predict_proba().shape == (perturbed.graph.num_nodes, 3)
        return
    with pytest.raises(FitError, match="the graph has no edges"):
        make().fit(alone, SPLIT)


def test_a_saved_method_predicts_the_same_after_loading(
    fitted: Method, perturbed: PerturbedGraph, tmp_path: Path
) -> None:
    method = fitted
    method.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.json", "weights.npz"]
    loaded = type(method).load(tmp_path, device="cpu")
    assert loaded.get_params() | {"device": "cpu"} == method.get_params() | {"device": "cpu"}
    assert (loaded.predict_proba() == method.predict_proba()).all()
    # A second pass reads its inputs at other addresses, where sums may be grouped in another way.
    assert np.allclose(loaded.predict_proba(perturbed), method.predict_proba(perturbed), rtol=0, atol=1e-6)


def test_the_spent_epsilon_is_that_of_the_reports_a_method_needs(
    make: Callable[[], Method], perturbed: PerturbedGraph
) -> None:
    method, guarantee = make(), perturbed.guarantee
    expected = 3 * 1.0 + 2.0 if method.uses_features else 2.0
    assert method.epsilon_spent(guarantee) == pytest.approx(expected)


def test_without_features_a_method_learns_from_labels_or_says_what_it_needs(
    make: Callable[[], Method], fitted: Method
) -> None:
    method = make()
    if isinstance(method, GNNMethod) and method.unmet_need(None) is not None:
        with pytest.raises(
            FitError, match=f"^{type(method).__name__} needs feature reports, and there are none: [^.]+$"
        ):
            method.fit(LABEL_ONLY, SPLIT)
        with pytest.raises(FitError, match="needs feature reports, and there are none"):
            fitted.predict_proba(LABEL_ONLY)
        return
    schema = FeatureSchema(classes=PRIVATE.schema.classes)
    no_columns = replace(LABEL_ONLY, schema=schema, features=np.zeros((200, 0), dtype=np.uint8))
    declared, alone = (make().fit(reports, SPLIT).predict_proba() for reports in (LABEL_ONLY, no_columns))
    assert (declared == alone).all()
    assert make().epsilon_spent(LABEL_ONLY.guarantee) == pytest.approx(2.0)


def test_a_method_follows_the_conventions_of_scikit_learn(
    make: Callable[[], Method], perturbed: PerturbedGraph, tmp_path: Path
) -> None:
    sklearn_base = pytest.importorskip("sklearn.base")
    validation, exceptions = pytest.importorskip("sklearn.utils.validation"), pytest.importorskip("sklearn.exceptions")
    method = make()
    copy = sklearn_base.clone(method)
    assert copy is not method
    assert copy.get_params() == method.get_params()
    learned = [each for each in fields(method) if each.name.endswith("_")]  # type: ignore[arg-type]
    assert not any(each.init or each.repr or each.compare for each in learned)
    with pytest.raises(exceptions.NotFittedError):
        validation.check_is_fitted(method)
    method.fit(perturbed, SPLIT)
    validation.check_is_fitted(method)
    with pytest.raises(exceptions.NotFittedError):
        validation.check_is_fitted(sklearn_base.clone(method))
    assert sklearn_base.is_classifier(method)
    method.save(tmp_path)
    for each in (method, type(method).load(tmp_path, device="cpu")):
        assert each.classes_.tolist() == list(perturbed.schema.classes)
        assert each.n_features_in_ == perturbed.schema.num_features
        assert (each.classes_[each.predict()] == each.predict(names=True)).all()
    assert method.score(PRIVATE.labels, nodes=SPLIT.test) == accuracy(method.predict(), PRIVATE, SPLIT.test)
    assert method.score(method.classes_[PRIVATE.labels]) == method.score(PRIVATE.labels)


def test_parameters_are_set_by_name_and_a_misspelled_one_names_the_nearest() -> None:
    method = RGNN().set_params(epochs=3, dropout=0.1)
    assert (method.epochs, method.dropout) == (3, 0.1)
    with pytest.raises(FitError, match=r"RGNN has no parameter 'epoch': did you mean epochs\?"):
        method.set_params(epoch=5)
    with pytest.raises(FitError, match="MajorityClass has no parameter 'x': it has none"):
        MajorityClass().set_params(x=1)
