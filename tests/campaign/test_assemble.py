"""Reports become the graph that methods learn from; nothing is lost and nothing is invented."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.collection import Collection
from veilgraph.campaign import Campaign
from veilgraph.campaign.assemble import check_graph, perturbed_graph, reports_of
from veilgraph.datasets import csbm
from veilgraph.errors import CampaignError, GraphError
from veilgraph.experiments import simulate
from veilgraph.graph import Graph, Split
from veilgraph.privacy.budget import PrivacyBudget


def test_what_a_simulation_draws_comes_back_from_its_reports_bit_for_bit() -> None:
    private = csbm(300, seed=0)
    names = [f"u{i}" for i in range(300)]
    graph = Graph.from_edges(private.graph.edges, 300, node_ids=names)
    collection = Collection.on(graph, schema=private.schema)
    campaign = collection.campaign
    split = Split.random(300, seed=0)
    budget = PrivacyBudget(epsilon_x=1.0, epsilon_y=1.0, sampled=1)
    drawn = simulate(private, budget, split, rng=np.random.default_rng(0))
    assert list(reports_of(perturbed_graph(campaign, graph, []), campaign)) == []
    reports = list(reports_of(replace(drawn, graph=graph), campaign))
    back = perturbed_graph(campaign, graph, reversed(reports))
    for name in ("features", "labels", "has_features", "has_label"):
        np.testing.assert_array_equal(getattr(back, name), getattr(drawn, name))
    assert back.guarantee == drawn.guarantee


def test_what_was_left_out_is_masked() -> None:
    collection = Collection.ring(4)
    reports = [collection.report("n1", features=None), collection.report("n3", label=None)]
    perturbed = perturbed_graph(collection.campaign, collection.graph, reports)
    assert perturbed.has_features.tolist() == [False, False, False, True]
    assert perturbed.has_label.tolist() == [False, True, False, False]
    assert list(reports_of(perturbed, collection.campaign)) == reports


def test_reports_of_nodes_that_left_the_graph_are_ignored() -> None:
    collection = Collection.ring(4)
    perturbed = perturbed_graph(collection.campaign, collection.graph, [collection.report("gone")])
    assert not perturbed.has_label.any()


def test_a_campaign_without_labels_cannot_be_learned_from() -> None:
    collection = Collection.ring(4)
    campaign = Campaign.new(
        schema=collection.campaign.schema,
        graph=collection.graph,
        purpose="p",
        contact="c",
        closes=collection.campaign.closes,
        epsilon_x=1.0,
        sampled=1,
    )
    with pytest.raises(CampaignError, match="no labels"):
        perturbed_graph(campaign, collection.graph, [])


def test_another_graph_than_the_campaigns_is_refused() -> None:
    with pytest.raises(GraphError, match=r"5 nodes.*4 nodes"):
        check_graph(Collection.ring(4).campaign, Collection.ring(5).graph)
