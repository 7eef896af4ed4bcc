"""Public columns from the table of people to predictions: read at each step, in no report, and judged on the card."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.support.campaigns import NONCE
from tests.support.collection import CLOSES
from veilgraph.campaign import Campaign
from veilgraph.campaign.assemble import reports_of
from veilgraph.campaign.budget import CampaignBudget
from veilgraph.campaign.notice import Notice
from veilgraph.collector.store import ReportStore
from veilgraph.datasets import csbm
from veilgraph.deploy import Model, TrainingOptions, complete_card, open_source, predict_nodes, read_card, train
from veilgraph.deploy.shard_reports import reports_to_shard
from veilgraph.errors import GraphError
from veilgraph.experiments.simulation import randomize_labels, simulated_collection
from veilgraph.graph import Graph, PublicAttributes, Split
from veilgraph.graph.encoded_attributes import EncodedColumn
from veilgraph.graph.shard_writer import write_shards
from veilgraph.graph.shards import ShardFolder
from veilgraph.models import Veil
from veilgraph.privacy.public_columns import PublicColumn
from veilgraph.privacy.schema import FeatureSchema
from veilgraph.reconstruct.attribute_components import AttributeColumns

NODES = 300
PRIVATE = csbm(NODES, num_classes=3, homophily=1 / 3, num_features=1, seed=0)
"""A graph that says nothing about classes."""

NAMES = [f"u{node}" for node in range(NODES)]
GRAPH = Graph.from_edges(PRIVATE.graph.edges, NODES, node_ids=NAMES)


def people(folder: Path, labels: np.ndarray, names: list[str]) -> Path:
    """Write a table of people with a column that tells the class of four people in five."""
    rng = np.random.default_rng(3)
    told = np.where(rng.random(len(labels)) < 0.8, labels, rng.integers(0, 3, len(labels)))
    table = pd.DataFrame({"id": names, "department": [("sales", "lab", "law")[code] for code in told]})
    table.sample(frac=1, random_state=0).to_csv(folder / "people.csv", index=False)
    return folder / "people.csv"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("collection")
    schema = FeatureSchema(classes=PRIVATE.schema.classes, public=(PublicColumn(name="department"),))
    campaign = Campaign.new(
        schema=schema,
        graph=GRAPH,
        notice=Notice(purpose="p", contact="c", closes=CLOSES),
        budget=CampaignBudget(epsilon_y=2.0),
        nonce=NONCE,
    )
    label_alone = replace(PRIVATE, schema=schema, features=PRIVATE.features[:, :0], graph=GRAPH)
    mechanism, split = campaign.label_mechanism, Split.random(NODES, seed=0)
    assert mechanism is not None
    labels = randomize_labels(label_alone, mechanism, split, rng=np.random.default_rng(0))
    store = ReportStore.open(f"sqlite:///{folder}/reports.db")
    store.reports.put(list(reports_of(simulated_collection(label_alone, split, mechanism, labels), campaign)), now=0)
    store.close()
    (folder / "campaign.json").write_text(campaign.to_json(), encoding="utf-8")
    people(folder, PRIVATE.labels, NAMES)
    source = open_source(campaign, GRAPH, store=f"sqlite:///{folder}/reports.db", nodes=folder / "people.csv")
    train(source, TrainingOptions(device="cpu"), out=folder / "model")
    return folder


def test_a_model_learns_from_them_and_its_card_says_what_they_brought(folder: Path) -> None:
    method = Model.load(folder / "model", device="cpu").method
    assert isinstance(method, Veil)
    assert method.public_ == ("department",)
    # Nine of ten people are told by their department or by a lucky draw: 0.8 + 0.2 / 3; chance is 1/3.
    assert (method.predict() == PRIVATE.labels).mean() > 0.7
    content = read_card(folder / "model")
    assert content["campaign"]["public"] == ["department"]
    card = complete_card(folder / "model", GRAPH, people_file=folder / "people.csv", device="cpu").content
    assert card["accuracy"]["public"]["low"] > 0
    assert card["accuracy"]["without_public"]["value"] < card["accuracy"]["model"]["value"]


def test_nothing_of_them_is_in_a_report(folder: Path) -> None:
    model = Model.load(folder / "model", device="cpu")
    assert not [line for line in model.report_lines() if "department" in line or "sales" in line]
    assert "sales" not in (folder / "model" / "campaign.json").read_text()


def test_people_who_joined_later_are_predicted_from_their_row(folder: Path, tmp_path: Path) -> None:
    labels = np.append(PRIVATE.labels, [0, 1, 2])
    names = [*NAMES, "new0", "new1", "new2"]
    edges = np.concatenate([GRAPH.edges, [[0, 1, 2], [NODES, NODES + 1, NODES + 2]]], axis=1)
    now = Graph.from_edges(edges, NODES + 3, node_ids=names)
    model = Model.load(folder / "model", device="cpu", people=people(tmp_path, labels, names))
    found = predict_nodes(model, now)
    frame = found.to_frame().set_index("id")
    right = frame["class"].map(PRIVATE.schema.classes.index).to_numpy() == labels
    assert right.mean() > 0.7
    missing = Model.load(folder / "model", device="cpu", people=folder / "people.csv")
    with pytest.raises(GraphError, match="lacks 3 of 303 people on the graph, such as 'new0': add a row for each"):
        predict_nodes(missing, now)


def test_without_the_table_the_remedy_is_named(folder: Path) -> None:
    campaign = Campaign.from_json((folder / "campaign.json").read_bytes())
    source = open_source(campaign, GRAPH, store=f"sqlite:///{folder}/reports.db")
    with pytest.raises(GraphError, match=r"public columns are declared \(department\): give the table of people"):
        source.read()


def shards_of(folder: Path, out: Path, *, with_people: bool = True) -> Path:
    """Write the collection as shards."""
    store, campaign = f"sqlite:///{folder}/reports.db", Campaign.from_json((folder / "campaign.json").read_bytes())
    pd.DataFrame(np.array(NAMES)[GRAPH.edges.T], columns=["a", "b"]).to_csv(out.with_suffix(".csv"), index=False)
    people = folder / "people.csv" if with_people else None
    write_shards(out, out.with_suffix(".csv"), parts=4, reports=reports_to_shard(store, campaign), nodes=people)
    return out


def test_shards_hold_them_as_numbers_and_a_training_reads_them(folder: Path, tmp_path: Path) -> None:
    campaign, shards = Campaign.from_json((folder / "campaign.json").read_bytes()), shards_of(folder, tmp_path / "s")
    source = open_source(campaign, shards)
    public, graph = source.read().perturbed.public, ShardFolder.open(shards).graph()
    assert public is not None
    table = PublicAttributes.from_file(folder / "people.csv", ids=graph.names, columns=campaign.schema.public)
    read, expected = public["department"].encoded(), table["department"].encoded()
    assert not isinstance(read, np.ndarray)
    assert not isinstance(expected, np.ndarray)
    np.testing.assert_array_equal(read.toarray(), expected.toarray())
    model = train(source, TrainingOptions(device="cpu"), out=tmp_path / "model")
    assert model.facts["public"] == ["department"]
    true = PRIVATE.labels[[NAMES.index(name) for name in graph.names]]
    assert (model.method.predict() == true).mean() > 0.7
    with pytest.raises(GraphError, match="hold 'department' as numbers without their groups: give the table of people"):
        public["department"].groups()


def test_a_training_reads_no_column_of_shards_that_the_notice_no_longer_tells(folder: Path, tmp_path: Path) -> None:
    campaign, shards = Campaign.from_json((folder / "campaign.json").read_bytes()), shards_of(folder, tmp_path / "s")
    told_less = replace(campaign, notice=replace(campaign.notice, public=(), version=2))
    assert open_source(told_less, shards).read().perturbed.public is None


def test_shards_without_them_are_refused_with_the_remedy(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(
        GraphError, match=r"public columns are declared \(department\): give the table of people, which"
    ):
        shards_of(folder, tmp_path / "s", with_people=False)
    shards, campaign = shards_of(folder, tmp_path / "s"), Campaign.from_json((folder / "campaign.json").read_bytes())
    manifest = json.loads((shards / "manifest.json").read_text())
    for shard in manifest["shards"]:
        del shard["public"]
    (shards / "manifest.json").write_text(json.dumps(manifest | {"public": None}))
    for path in shards.glob("public-*"):
        path.unlink()
    with pytest.raises(GraphError, match="lacks the public column 'department', which the campaign declares"):
        open_source(campaign, shards).read()


@pytest.mark.parametrize("dense", [True, False])
def test_an_encoding_of_some_nodes_is_that_of_all(dense: bool) -> None:
    rows = np.random.default_rng(0).random((20, 5)) if dense else np.eye(20)[:, :5]
    whole = PublicAttributes.from_matrix(rows)["x"]
    column, order = EncodedColumn.of(whole), np.random.default_rng(1).permutation(20)
    parts = [column.select(np.arange(8)), column.select(np.arange(8, 20))]
    found, right = EncodedColumn.joined(parts, lambda rows: rows[order]), np.eye(5, dtype=np.float32)
    products = [AttributeColumns.of(PublicAttributes((each,))).times(right) for each in (found, whole)]
    np.testing.assert_array_equal(products[0], products[1][order])
