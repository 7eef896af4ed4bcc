"""Public columns as inputs of a GNN: used, saved with the model, and the same map on another graph."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from veilgraph.datasets import csbm
from veilgraph.errors import FitError, GraphError
from veilgraph.evaluation import accuracy
from veilgraph.experiments import simulate
from veilgraph.graph import PerturbedGraph, PublicAttributes, Split
from veilgraph.models import RGNN, PlainGNN, StructureOnly
from veilgraph.models.engine.gnn_method import GNNMethod
from veilgraph.privacy.budget import PrivacyBudget

NODES = 300
PRIVATE = csbm(NODES, num_classes=3, homophily=1 / 3, num_features=4, seed=0)
"""A graph that says nothing about classes, and private features that say little."""

SPLIT = Split.random(NODES, seed=0)


def telling(columns: int, nodes: int = NODES, seed: int = 0) -> PublicAttributes:
    """Return columns of which the first three say the class."""
    rows = np.random.default_rng([seed, columns]).normal(size=(nodes, columns)) * 0.1
    rows[np.arange(nodes), csbm(nodes, num_classes=3, homophily=1 / 3, num_features=4, seed=seed).labels] += 1
    return PublicAttributes.from_matrix(rows, name="profile")


def reports(public: PublicAttributes | None) -> PerturbedGraph:
    private = replace(PRIVATE, public=public)
    return simulate(private, PrivacyBudget(0.1, 4.0, 2), SPLIT, rng=np.random.default_rng(0))


@pytest.mark.parametrize("columns", [10, 200])
@pytest.mark.parametrize(
    "method",
    [lambda: RGNN(feature_hops=1, label_hops=0, num_clusters=4, epochs=40), lambda: PlainGNN(epochs=40)],
    ids=["rgnn", "plain"],
)
def test_they_tell_classes_that_nothing_else_tells(method: type[GNNMethod], columns: int, tmp_path: Path) -> None:
    known = reports(telling(columns))
    fitted = method().fit(known, SPLIT)
    assert fitted.public_inputs_.num_inputs == {10: 10, 200: 128}[columns]
    # Chance is 1/3, with a standard deviation of 0.05 on 75 test nodes.
    assert accuracy(fitted.predict(), PRIVATE, SPLIT.test) > 0.5
    assert accuracy(method().fit(reports(None), SPLIT).predict(), PRIVATE, SPLIT.test) < 0.5
    fitted.save(tmp_path)
    loaded = type(fitted).load(tmp_path, device="cpu")
    np.testing.assert_allclose(loaded.predict_proba(known), fitted.predict_proba(known), atol=1e-6)
    np.testing.assert_allclose(loaded.predict_proba(known), fitted.predict_proba(), atol=1e-5)
    with pytest.raises(GraphError, match="no public column 'profile', which the model was trained with"):
        loaded.predict_proba(replace(known, public=None))
    with pytest.raises(FitError, match="as where a category is new: train the model again"):
        loaded.predict_proba(replace(known, public=telling(columns + 1)))


def test_the_control_reads_no_public_columns_and_says_so() -> None:
    assert "are not read" in StructureOnly()._repr_html_()
    assert "are read" in RGNN()._repr_html_()
