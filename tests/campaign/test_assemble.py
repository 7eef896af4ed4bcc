"""Reports become the graph that methods learn from; nothing is lost and nothing is invented."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.campaigns import CAMPAIGNS, GRAPH
from tests.support.campaigns import campaign as asked
from tests.support.collection import Collection
from tests.support.neighbour_series import CLASS, PEOPLE, waves_of
from veilgraph.campaign import Campaign, Report
from veilgraph.campaign.assemble import check_graph, perturbed_graph, read_codes, reports_of
from veilgraph.campaign.budget import CampaignBudget
from veilgraph.campaign.notice import Notice
from veilgraph.datasets import csbm
from veilgraph.errors import CampaignError, GraphError
from veilgraph.experiments import simulate
from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.schema import FeatureSchema


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
    assert "array" not in repr(read_codes(campaign, graph, reports))


@pytest.mark.parametrize("name", CAMPAIGNS)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_reports_of_every_mechanism_survive_their_assembly(name: str, seed: int) -> None:
    """`reports_of` is the inverse of `perturbed_graph`: as reports, and as arrays."""
    campaign, rng = CAMPAIGNS[name], np.random.default_rng(seed)
    features, label = campaign.feature_mechanism, campaign.label_mechanism
    if label is None:
        return
    sizes, nodes = campaign.schema.domain_sizes, 3
    records = np.stack([rng.integers(0, size, nodes) for size in sizes], axis=1) if sizes else np.zeros((nodes, 0))
    codes = records.astype(campaign.schema.code_dtype)
    drawn = PerturbedGraph(
        graph=GRAPH,
        schema=campaign.schema,
        features=np.zeros_like(codes) if features is None else features.randomize(codes, rng=rng),
        labels=label.randomize(rng.integers(0, campaign.schema.num_classes, nodes), rng=rng),
        has_features=np.full(nodes, features is not None),
        has_label=np.ones(nodes, dtype=np.bool_),
        feature_mechanism=features,
        label_mechanism=label,
    )
    reports = list(reports_of(drawn, campaign))
    assert [Report.from_json(report.to_json(), campaign) for report in reports] == reports
    back = perturbed_graph(campaign, GRAPH, reversed(reports))
    for array in ("features", "labels", "has_features", "has_label"):
        np.testing.assert_array_equal(getattr(back, array), getattr(drawn, array))
        assert getattr(back, array).dtype == getattr(drawn, array).dtype
    assert list(reports_of(back, campaign)) == reports
    some = [report for report in reports if report.node != GRAPH.names[1]]
    assert list(reports_of(perturbed_graph(campaign, GRAPH, some), campaign)) == some


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
        notice=Notice(purpose="p", contact="c", closes=collection.campaign.notice.closes),
        budget=CampaignBudget(epsilon_x=1.0, sampled=1),
    )
    with pytest.raises(CampaignError, match="no labels"):
        perturbed_graph(campaign, collection.graph, [])


def test_another_graph_than_the_campaigns_is_refused() -> None:
    with pytest.raises(GraphError, match=r"5 nodes.*4 nodes"):
        check_graph(Collection.ring(4).campaign, Collection.ring(5).graph)


def test_rounds_with_features_or_the_label_alone_come_back_as_they_were_sent() -> None:
    """A round without features stays one, and so does a round without the label, beside whole rounds and none."""
    campaign = asked(
        FeatureSchema.binary(3, classes=["a", "b", "c"]), epsilon_x=1.0, sampled=2, epsilon_y=1.0, rounds=3
    )

    def report(node: int, number: int, *, features: bool, label: bool) -> Report:
        return Report(
            campaign=campaign.id,
            node=GRAPH.names[node],
            features=(1, None, 0) if features else None,
            label=number % 3 if label else None,
            number=number,
        )

    sent = [
        report(0, 1, features=True, label=False),
        report(0, 2, features=False, label=True),
        report(0, 3, features=True, label=True),
        report(1, 2, features=True, label=False),
        report(2, 1, features=False, label=True),
        report(2, 3, features=False, label=True),
    ]
    perturbed = perturbed_graph(campaign, GRAPH, reversed(sent))
    assert perturbed.has_features.tolist()[:3] == [True, True, False]
    assert perturbed.has_label.tolist()[:3] == [True, False, True]
    assert list(reports_of(perturbed, campaign)) == sent


def test_who_answered_a_wave_reported_although_they_sent_no_feature_and_no_label() -> None:
    first, wave = waves_of(CLASS)
    sent = [
        Report(campaign=wave.id, node="u1", features=None, label=None, answer=(1,), series=first.id, number=1),
        Report(campaign=first.id, node="u3", features=None, label=2),
    ]
    codes = read_codes(first, PEOPLE, sent)
    assert codes.has_answer is not None
    assert codes.has_answer.tolist() == [False, True, False, False, False, False]
    assert codes.has_report.tolist() == [False, True, False, True, False, False]
