"""The transform that replaces true records by reports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from veilgraph.datasets import csbm
from veilgraph.errors import GraphError
from veilgraph.experiments import simulate
from veilgraph.experiments.pyg_transform import Randomize
from veilgraph.graph import Split
from veilgraph.graph.pyg import make_data
from veilgraph.privacy.budget import PrivacyBudget

PRIVATE = csbm(80, num_classes=3, num_features=4, seed=0)
BUDGET = PrivacyBudget(1.0, 1.0, 2)


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
    with pytest.raises(GraphError, match="no codes: encode it with the schema"):
        Randomize(schema=PRIVATE.schema, budget=BUDGET)(data)
