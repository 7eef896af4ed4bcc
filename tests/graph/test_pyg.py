"""The bridge to torch_geometric: reports as `Data`."""

from __future__ import annotations

import numpy as np

from veilgraph.datasets import csbm
from veilgraph.experiments import simulate
from veilgraph.graph import Graph, Split
from veilgraph.privacy.budget import PrivacyBudget

PRIVATE = csbm(80, num_classes=10, mean_degree=4, num_features=4, seed=0)
SPLIT = Split.random(80, seed=0)


def test_data_holds_the_reports_and_the_graph() -> None:
    perturbed = simulate(PRIVATE, PrivacyBudget(1.0, 1.0, 2), SPLIT, rng=np.random.default_rng(0))
    data = perturbed.to_data()
    assert np.array_equal(data.x.numpy(), perturbed.features)
    assert np.array_equal(data.y.numpy(), perturbed.labels)  # sets of 3 of 10 classes: bit masks
    assert np.array_equal(data.named.numpy(), perturbed.named_classes())
    assert int(data.named.sum()) == 3 * int(perturbed.has_label.sum())
    assert (data.label_keep, data.label_other) == tuple(
        map(float, (perturbed.label_mechanism.channel.keep, perturbed.label_mechanism.channel.other))
    )
    assert Graph.from_data(data).fingerprint == PRIVATE.graph.fingerprint
    assert data.validate()


def test_changing_the_data_does_not_change_the_reports() -> None:
    perturbed = simulate(PRIVATE, PrivacyBudget(epsilon_y=1.0), SPLIT, rng=np.random.default_rng(0))
    before = perturbed.labels.copy()
    perturbed.to_data().y.fill_(0)
    assert np.array_equal(perturbed.labels, before)
