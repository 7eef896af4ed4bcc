"""Public attributes in Veil: they help where they say something, cost nothing where they do not, and stay declared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from veilgraph.datasets import PrivateGraph, csbm
from veilgraph.errors import GraphError
from veilgraph.evaluation import accuracy
from veilgraph.experiments import simulate
from veilgraph.graph import PerturbedGraph, PublicAttributes, Split
from veilgraph.models import LabelVeil, Veil
from veilgraph.models.base import FitTask
from veilgraph.models.veil.cross_fitting import CrossFitting
from veilgraph.models.veil.views import read_views
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.reconstruct.operators import GraphOperators

NODES = 400
PRIVATE = csbm(NODES, num_classes=3, homophily=1 / 3, num_features=1, seed=0)
"""A graph that says nothing about classes."""


def telling(private: PrivateGraph, seed: int = 0, shift: float = 2.5) -> PublicAttributes:
    """Return ten numbers of each node, one of which is shifted: its class says which."""
    nodes = private.graph.num_nodes
    rows = np.random.default_rng([seed, 7]).normal(size=(nodes, 10))
    rows[np.arange(nodes), private.labels] += shift
    return PublicAttributes.from_matrix(rows, name="profile")


def collect(private: PrivateGraph, seed: int, epsilon: float = 1.0) -> tuple[PerturbedGraph, Split]:
    split = Split.random(private.graph.num_nodes, seed=seed)
    return simulate(private, PrivacyBudget(epsilon_y=epsilon), split, rng=np.random.default_rng(seed)), split


def test_attributes_tell_classes_that_the_graph_does_not() -> None:
    known = replace(PRIVATE, public=telling(PRIVATE))
    reports, split = collect(known, 0)
    with_them = Veil().fit(reports, split)
    without = Veil().fit(replace(reports, public=None), split)
    assert with_them.public_ == ("profile",)
    # Chance is 1/3, with a standard deviation of 0.05 on 100 test nodes.
    assert accuracy(without.predict(), PRIVATE, split.test) < 0.5
    assert accuracy(with_them.predict(), PRIVATE, split.test) > 0.65


def test_attributes_of_neighbours_tell_classes_where_own_ones_are_weak() -> None:
    private = csbm(NODES, num_classes=3, homophily=0.9, mean_degree=10, num_features=1, seed=1)
    reports, _ = collect(replace(private, public=telling(private, shift=1.0)), 1)
    labels, operators = CrossFitting.random(reports, seed=0), GraphOperators(reports.graph)
    views = read_views(labels, operators, lambda _, view: view, seed=0)
    right = {
        name: float(
            (view.log_probabilities(labels.reports.prior, (1.0,))[:, -1].argmax(1).numpy() == private.labels).mean()
        )
        for name, view in views.items()
        if name.startswith("attributes")
    }
    assert list(right) == [f"attributes {hops} {size}" for hops in (0, 2, 4) for size in (8, 32)]
    assert right["attributes 2 8"] > right["attributes 0 8"] + 0.1


def test_permuted_attributes_lose_nothing() -> None:
    private = csbm(NODES, num_classes=3, homophily=0.8, num_features=1, seed=2)
    lost, left_out = [], 0
    for seed in range(6):
        reports, split = collect(private, seed)
        order = np.random.default_rng([seed, 8]).permutation(NODES)
        noise = replace(reports, public=telling(private).select(order))
        alone, fitted = LabelVeil().fit(reports, split), LabelVeil().fit(noise, split)
        lost += [
            accuracy(alone.predict(), private, split.test) - accuracy(fitted.predict(), private, split.test),
        ]
        if fitted.public_ == ():
            left_out += 1
            np.testing.assert_array_equal(fitted.predict_proba(), alone.predict_proba())
    # By luck, noise is above half a standard error in three of ten draws: three or more of six are left out with a
    # probability of 0.99.
    assert left_out >= 3
    # Two fits that agree on 97 of 100 nodes differ by 0.017 by chance, and their mean over six draws by 0.007.
    assert np.mean(lost) < 0.015


def test_a_saved_fit_predicts_the_same_and_needs_the_same_columns(tmp_path: Path) -> None:
    reports, split = collect(replace(PRIVATE, public=telling(PRIVATE)), 0)
    veil = Veil().fit(reports, split)
    veil.save(tmp_path)
    loaded = Veil.load(tmp_path)
    assert loaded.public_ == ("profile",)
    other = csbm(300, num_classes=3, homophily=1 / 3, num_features=1, seed=5)
    others, other_split = collect(replace(other, public=telling(other)), 1)
    np.testing.assert_allclose(loaded.predict_proba(others), veil.predict_proba(others), atol=1e-5)
    assert accuracy(loaded.predict(others), other, other_split.test) > 0.7
    with pytest.raises(GraphError, match="no public column 'profile', which the model was trained with: give it"):
        loaded.predict(replace(others, public=None))


def test_columns_that_a_model_did_not_see_are_not_read() -> None:
    reports, split = collect(PRIVATE, 0)
    veil, known = Veil().fit(reports, split), replace(reports, public=telling(PRIVATE))
    assert veil.public_ == ()
    np.testing.assert_array_equal(veil.predict_proba(known), veil.predict_proba(reports))


def test_tasks_with_other_attributes_share_no_views() -> None:
    reports, split = collect(PRIVATE, 0)
    variants = [reports, replace(reports, public=telling(PRIVATE)), replace(reports, public=telling(PRIVATE, 1))]
    tasks = [FitTask(method=LabelVeil(), perturbed=each, split=split) for each in variants]
    for task in (task for batch in LabelVeil.fit_together(tasks) for task in batch):
        alone = LabelVeil().fit(task.perturbed, split)
        np.testing.assert_allclose(task.method.predict_proba(), alone.predict_proba(), atol=1e-5)


def half_told(seed: int) -> tuple[PerturbedGraph, Split]:
    """Return reports of three classes: a public number tells the first from the last, and nothing tells the second."""
    rng = np.random.default_rng([seed, 9])
    number, drawn = rng.normal(size=(NODES, 1)), rng.random(NODES)
    last = 0.7 / (1 + np.exp(-6 * number[:, 0]))
    labels = np.select([drawn < 0.3, drawn < 0.3 + last], [1, 2], 0)
    known = replace(PRIVATE, labels=labels, public=PublicAttributes.from_matrix(number, name="number"))
    split = Split.random(NODES, seed=seed, train=0.9, validation=0.01)
    return simulate(known, PrivacyBudget(epsilon_y=2.0), split, rng=np.random.default_rng(seed)), split


def test_a_class_that_attributes_do_not_tell_is_not_taken_for_liars() -> None:
    for seed in range(4):
        reports, split = half_told(seed)
        fitted = LabelVeil().fit(reports, split)
        alone = LabelVeil().fit(replace(reports, public=None), split)
        assert fitted.contamination_ is alone.contamination_ is None


def test_liars_are_found_and_measured_as_without_attributes() -> None:
    private = csbm(NODES, num_classes=3, homophily=0.8, num_features=1, seed=2)
    honest, split = collect(replace(private, public=telling(private)), 1)
    lies = np.where(np.random.default_rng(0).random(NODES) < 0.3, 2, honest.labels)
    reports = replace(honest, labels=np.where(honest.has_label, lies, honest.labels))
    found = LabelVeil().fit(reports, split)
    assert found.contamination_ is not None
    assert found.contamination_ == LabelVeil().fit(replace(reports, public=None), split).contamination_
    assert accuracy(found.predict(), private, split.test) > 0.65
