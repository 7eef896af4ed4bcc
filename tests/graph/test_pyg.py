"""The bridge to torch_geometric: reports as `Data`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from veilgraph.datasets import csbm
from veilgraph.errors import GraphError
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


def test_data_brings_weights_and_kinds_of_links_and_takes_them_along() -> None:
    graph = PRIVATE.graph
    weights, kinds = np.arange(1, graph.num_edges + 1), np.arange(graph.num_edges) % 2
    known = Graph.from_edges(graph.edges, 80, weights=weights, kinds=kinds.astype(str).tolist())
    private = replace(PRIVATE, graph=known)
    data = simulate(private, PrivacyBudget(epsilon_y=1.0), SPLIT, rng=np.random.default_rng(0)).to_data()
    assert data.edge_weight.shape == data.edge_type.shape == data.edge_index.shape[1:]
    assert Graph.from_data(data).fingerprint == known.fingerprint
    data.edge_weight[0] += 1  # the two directions of a link disagree
    with pytest.raises(GraphError, match="gives the same link another weight"):
        Graph.from_data(data)
