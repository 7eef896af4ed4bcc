"""Methods as estimators of scikit-learn: samples are nodes, and randomized labels select."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

from veilgraph.datasets import csbm
from veilgraph.errors import FitError
from veilgraph.experiments import simulate
from veilgraph.graph import Split
from veilgraph.models import RGNN, MajorityClass, StructureOnly
from veilgraph.models.node_classifier import NodeClassifier
from veilgraph.privacy.budget import PrivacyBudget

PRIVATE = csbm(150, num_classes=3, num_features=4, seed=0)
SPLIT = Split.random(150, seed=0)
REPORTS = simulate(PRIVATE, PrivacyBudget(epsilon_y=2.0), SPLIT, rng=np.random.default_rng(0))
NODES = np.arange(150)[:, None]
CONTROL = NodeClassifier(StructureOnly(device="cpu"), REPORTS)


def test_a_fit_sees_reports_of_its_nodes_alone_and_the_score_is_the_likelihood_of_the_others() -> None:
    seen, held_out = np.flatnonzero(SPLIT.train), np.flatnonzero(SPLIT.validation)
    lied = replace(REPORTS, labels=np.where(SPLIT.validation, REPORTS.label_mechanism.blank(150), REPORTS.labels))
    fitted, other = (clone(CONTROL).set_params(reports=reports).fit(seen) for reports in (REPORTS, lied))
    probabilities = fitted.predict_proba(held_out)
    np.testing.assert_array_equal(probabilities, other.predict_proba(held_out))
    named = REPORTS.labels[held_out][:, None] == np.arange(3)
    channel = REPORTS.label_mechanism.channel
    of_report = np.where(named, float(channel.keep), float(channel.other))  # P(y' | c) of GRR
    expected = np.log((probabilities * of_report).sum(axis=1)).mean()
    assert fitted.score(held_out) == pytest.approx(expected, abs=1e-6)  # probabilities have 32 bits


def test_scikit_learn_validates_searches_chains_and_frames() -> None:
    scores = cross_val_score(CONTROL, NODES, cv=KFold(3, shuffle=True, random_state=0))
    assert scores.mean() > cross_val_score(NodeClassifier(MajorityClass(), REPORTS), NODES, cv=3).mean()
    method = NodeClassifier(RGNN(epochs=1, device="cpu", num_clusters=2), replace(REPORTS))
    features = simulate(PRIVATE, PrivacyBudget(1.0, 2.0, 2), SPLIT, rng=np.random.default_rng(0))
    method.reports = features
    search = GridSearchCV(method, {"method__feature_hops": [0, 3]}, cv=2).fit(NODES)
    assert search.best_estimator_.method_.feature_hops == search.best_params_["method__feature_hops"]
    chain = make_pipeline(FunctionTransformer(), clone(CONTROL)).fit(NODES)
    assert chain.predict(NODES).shape == (150,)
    assert set(chain.predict(NODES)) <= set(PRIVATE.schema.classes)
    frame = clone(CONTROL).set_output(transform="pandas").fit(NODES).transform(NODES[:4])
    assert list(frame.columns) == [f"probability_{name}" for name in PRIVATE.schema.classes]


def test_a_copy_is_not_fitted_and_shares_the_reports() -> None:
    fitted = clone(CONTROL).fit(NODES)
    copy = clone(fitted)
    assert copy.reports is REPORTS
    assert copy.method is not CONTROL.method
    with pytest.raises(NotFittedError):
        copy.predict(NODES)
    restored = pickle.loads(pickle.dumps(fitted))  # noqa: S301  our own bytes
    np.testing.assert_array_equal(restored.predict(NODES), fitted.predict(NODES))


@pytest.mark.filterwarnings("ignore:Can't test estimator")
def test_the_checks_of_scikit_learn_that_need_no_table_pass() -> None:
    assert {each["status"] for each in check_estimator(CONTROL)} == {"passed"}


@pytest.mark.parametrize("nodes", [np.zeros((3, 2), int), [[1.5]], [[150]], [-1], ["a"]])
def test_what_is_no_node_is_refused(nodes: object) -> None:
    with pytest.raises(FitError, match="give node numbers from 0 to 149"):
        clone(CONTROL).fit(nodes)


def test_what_cannot_be_fitted_or_scored_is_refused() -> None:
    with pytest.raises(FitError, match=r"give NodeClassifier\(Veil\(\), reports\)"):
        NodeClassifier().fit(NODES)
    with pytest.raises(FitError, match="none of these nodes reported a label"):
        clone(CONTROL).fit(NODES).score(np.flatnonzero(SPLIT.test))
