"""What is known about links, from their table to predictions: people are told, Veil reads it, the card says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support.campaigns import NONCE
from tests.support.collection import CLOSES
from veilgraph.campaign import Campaign
from veilgraph.campaign.assemble import reports_of
from veilgraph.campaign.budget import CampaignBudget
from veilgraph.campaign.notice import Notice
from veilgraph.client.campaign import read_campaign
from veilgraph.collector.store import ReportStore
from veilgraph.datasets import csbm
from veilgraph.deploy import Model, TrainingOptions, complete_card, open_source, predict_nodes, train
from veilgraph.errors import CampaignError, FitError, GraphError
from veilgraph.experiments.simulation import randomize_labels, simulated_collection
from veilgraph.graph import Graph, Split

NODES = 300
PRIVATE = csbm(NODES, num_classes=3, homophily=1 / 3, num_features=1, seed=0)
"""A graph whose ends say nothing about classes."""

FIRST, SECOND = PRIVATE.labels[PRIVATE.graph.edges]
WEIGHTS = np.where(FIRST == SECOND, 9.0, 1.0).tolist()
NAMES = [f"u{node}" for node in range(NODES)]
GRAPH = Graph.from_edges(PRIVATE.graph.edges, NODES, node_ids=NAMES, weights=WEIGHTS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("collection")
    campaign = Campaign.new(
        schema=PRIVATE.schema.label_alone,
        graph=GRAPH,
        notice=Notice(purpose="p", contact="c", closes=CLOSES),
        budget=CampaignBudget(epsilon_y=2.0),
        nonce=NONCE,
    )
    alone = replace(PRIVATE, schema=campaign.schema, features=PRIVATE.features[:, :0], graph=GRAPH)
    mechanism, split = campaign.label_mechanism, Split.random(NODES, seed=0)
    assert mechanism is not None
    labels = randomize_labels(alone, mechanism, split, rng=np.random.default_rng(0))
    store = ReportStore.open(f"sqlite:///{folder}/reports.db")
    store.reports.put(list(reports_of(simulated_collection(alone, split, mechanism, labels), campaign)), now=0)
    store.close()
    (folder / "campaign.json").write_text(campaign.to_json(), encoding="utf-8")
    source = open_source(campaign, GRAPH, store=f"sqlite:///{folder}/reports.db")
    train(source, TrainingOptions(device="cpu"), out=folder / "model")
    return folder


def test_people_are_told_and_their_device_reads_it(folder: Path) -> None:
    text = (folder / "campaign.json").read_text()
    campaign = Campaign.from_json(text)
    assert campaign.public_in_words == ['Known without asking, and used beside the answers: "how strong links are".']
    assert campaign.schema.public == ()
    assert dict(read_campaign(text)[1].public) == {"how strong links are": "link"}


def test_a_campaign_is_on_links_with_their_weights(folder: Path) -> None:
    campaign = Campaign.from_json((folder / "campaign.json").read_text())
    plain = Graph.from_edges(PRIVATE.graph.edges, NODES, node_ids=NAMES)
    with pytest.raises(GraphError, match="is not the campaign's"):
        open_source(campaign, plain, store=f"sqlite:///{folder}/reports.db").read()


def test_a_notice_that_does_not_tell_people_is_refused(folder: Path) -> None:
    campaign = Campaign.from_json((folder / "campaign.json").read_text())
    silent = replace(campaign, notice=replace(campaign.notice, public=()))
    assert silent.id == campaign.id
    with pytest.raises(CampaignError, match="says how strong links are, and the notice does not tell people"):
        open_source(silent, GRAPH, store=f"sqlite:///{folder}/reports.db").read()


def test_the_card_says_what_they_brought(folder: Path) -> None:
    card = complete_card(folder / "model", GRAPH, device="cpu").content
    assert card["graph"]["links"] == "weights"
    assert card["accuracy"]["links"]["low"] > 0
    assert card["accuracy"]["without_links"]["value"] < card["accuracy"]["model"]["value"]


def test_people_who_joined_later_are_predicted_from_weights_of_their_links(folder: Path) -> None:
    """A new person has three strong links to people of one class, and six weak ones to people of others."""
    new, strangers = [], []
    for code in range(3):
        same, other = np.flatnonzero(PRIVATE.labels == code)[:3], np.flatnonzero(PRIVATE.labels != code)[:6]
        new += [(node, NODES + code, 9.0) for node in same] + [(node, NODES + code, 1.0) for node in other]
        strangers.append(f"new{code}")
    first, second, weights = map(list, zip(*new, strict=True))
    edges, names = np.concatenate([GRAPH.edges, [first, second]], axis=1), [*NAMES, *strangers]
    now = Graph.from_edges(edges, NODES + 3, node_ids=names, weights=[*WEIGHTS, *weights])
    model = Model.load(folder / "model", device="cpu")
    found = predict_nodes(model, now, nodes=strangers)
    assert found.probabilities.argmax(axis=1).tolist() == [0, 1, 2]
    with pytest.raises(FitError, match="the links of the graph do not tell 'weights'"):
        predict_nodes(model, replace(now, links=None))
