"""The transform that replaces true records by reports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from veilgraph.datasets import PrivateGraph, csbm
from veilgraph.errors import DomainError, GraphError
from veilgraph.experiments import simulate
from veilgraph.experiments.pyg_transform import Randomize
from veilgraph.graph import Split
from veilgraph.graph.pyg import make_data
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.schema import FeatureSchema

PRIVATE = csbm(80, num_classes=3, num_features=4, seed=0)
BUDGET = PrivacyBudget(1.0, 1.0, 2)


def test_labels_are_codes_and_no_numbers_that_are_rounded_to_some() -> None:
    """1.7 became class 1, and -0.5 class 0."""
    schema = PRIVATE.schema.label_alone
    for labels, message in [(PRIVATE.labels + 0.7, "y is of type float64: give class codes"), (None, "has no 'y'")]:
        data = records()
        data.y = None if labels is None else torch.from_numpy(labels)
        with pytest.raises(GraphError, match=message):
            PrivateGraph.from_data(data, schema)
    dense, data = PrivateGraph.from_data(records(), PRIVATE.schema), records()
    data.x = data.x.to_sparse()
    assert np.array_equal(PrivateGraph.from_data(data, PRIVATE.schema).features, dense.features)


def records(**masks: Any) -> Any:
    return make_data(
        x=PRIVATE.features.astype(np.float32),
        y=PRIVATE.labels,
        edge_index=PRIVATE.graph.edge_index,
        num_nodes=80,
        **masks,
    )


def test_the_transform_is_the_simulation() -> None:
    split = Split.random(80, seed=3)
    expected = simulate(PRIVATE, BUDGET, split, rng=np.random.default_rng(3)).to_data()
    reports = Randomize(schema=PRIVATE.schema, budget=BUDGET, seed=3)(records())
    assert np.array_equal(reports.x, expected.x)
    assert np.array_equal(reports.y, expected.y)
    assert np.array_equal(reports.test_mask, split.test)


def test_masks_decide_who_reports_and_test_nodes_reveal_nothing() -> None:
    split = Split.random(80, seed=5)
    masks = {"train_mask": split.train, "val_mask": split.validation, "test_mask": split.test}
    transform = Randomize(schema=PRIVATE.schema, budget=PrivacyBudget(epsilon_y=1.0))
    reports, others = transform(records(**masks)), records(**masks)
    others.y[split.test] = (others.y[split.test] + 1) % 3
    assert np.array_equal(reports.has_label, split.labelled)
    assert np.array_equal(reports.y, transform(others).y)
    assert not reports.x.any()  # no features are asked for


def test_features_that_are_no_codes_are_refused() -> None:
    data = records()
    data.x[0, 0] = 0.5
    with pytest.raises(DomainError, match=r"'x0', row 1: not one of the 2 declared values \(value withheld\)"):
        Randomize(schema=PRIVATE.schema, budget=BUDGET)(data)


def test_numbers_are_binned_as_declared_and_masks_become_a_split() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (80, 3)).astype(np.float32)
    split = Split.random(80, seed=1)
    masks = {"train_mask": split.train, "val_mask": split.validation, "test_mask": split.test}
    data = make_data(x=x, y=PRIVATE.labels, edge_index=PRIVATE.graph.edge_index, num_nodes=80, **masks)
    schema = FeatureSchema.binned(3, classes=PRIVATE.schema.classes, edges=(-1, -0.5, 0.5, 1))
    private = PrivateGraph.from_data(data, schema, name="mine")
    assert np.array_equal(private.features, np.digitize(x, [-0.5, 0.5]))
    assert private.graph.fingerprint == PRIVATE.graph.fingerprint
    assert np.array_equal(Split.from_data(data).validation, split.validation)
    label_alone = PrivateGraph.from_data(data, FeatureSchema(classes=PRIVATE.schema.classes))
    assert label_alone.features.shape == (80, 0)
    with pytest.raises(GraphError, match=r"x has shape \(80, 3\): the schema declares 2 columns"):
        PrivateGraph.from_data(data, FeatureSchema.binary(2, classes=PRIVATE.schema.classes))
    data.x[2, 1], data.train_mask = 7, data.train_mask[:, None]
    with pytest.raises(DomainError, match=r"column 'x1', row 3: outside the declared range .* \(value withheld\)"):
        PrivateGraph.from_data(data, schema)
    with pytest.raises(GraphError, match=r"choose one split"):
        Split.from_data(data)
