"""Reports in shards are checked as those of a collector are: none of another campaign, none that no device sends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.campaigns import campaign, classes
from tests.support.collected import Collected
from veilgraph.campaign.assemble import reports_of
from veilgraph.collector.export import write_parquet
from veilgraph.deploy.shard_reports import check_campaign, perturbed_from_shards, report_batches
from veilgraph.deploy.shards_of_tables import write_shards_of_tables
from veilgraph.errors import CampaignError, GraphError
from veilgraph.graph import PerturbedGraph
from veilgraph.graph.arrow import arrow
from veilgraph.graph.shards import ShardFolder


@pytest.fixture(scope="module", params=[32, 0], ids=["features", "label sets"])
def collected(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Collected:
    return Collected(tmp_path_factory.mktemp("collected"), features=request.param)


def exported(collected: Collected, folder: Path, **columns: Any) -> Path:
    """Write the reports of the collection as a table, in which the columns of the first reports are replaced."""
    pa: Any = arrow()
    pq: Any = arrow("parquet")
    path = folder / "reports.parquet"
    write_parquet(collected.campaign, reports_of(collected.perturbed, collected.campaign), path)
    table = pq.read_table(path)
    for name, values in columns.items():
        kept = table.column(name).to_pylist()
        if values is None:
            table = table.drop_columns([name])
        else:
            changed = pa.array([*values, *kept[len(values) :]])
            table = table.set_column(table.column_names.index(name), name, changed)
    pq.write_table(table, path)
    return path


def read(collected: Collected, source: Path) -> PerturbedGraph:
    tables = collected.folder
    shards = write_shards_of_tables(
        str(source),
        collected.campaign,
        tables / "edges.csv",
        nodes=tables / "nodes.csv",
        out=source.parent / "m",
        parts=2,
    )
    folder = ShardFolder.open(shards)
    return perturbed_from_shards(collected.campaign, folder, folder.graph())


def test_a_table_of_reports_that_a_device_sent_is_read(collected: Collected, tmp_path: Path) -> None:
    found = read(collected, exported(collected, tmp_path))
    assert found.has_label.sum() == collected.perturbed.has_label.sum() > 0
    assert found.has_features.sum() == collected.perturbed.has_features.sum()


FEATURES: dict[str, tuple[list[Any], str]] = {
    "one too few": ([[0] * 31], "another number of features than 32"),
    "one too many": ([[0] * 33], "another number of features than 32"),
    "one not asked": ([[None] + [0] * 31], "not asked for, or lacks some"),
    "below the domain": ([[-2] + [0] * 31], "outside its domain"),
    "above the domain": ([[0] * 31 + [2]], "outside its domain"),
}


@pytest.mark.parametrize("damage", FEATURES)
def test_features_that_no_device_sends_are_refused(collected: Collected, tmp_path: Path, damage: str) -> None:
    features, message = FEATURES[damage]
    expected = message if collected.campaign.feature_mechanism else "the campaign collects none"
    with pytest.raises(GraphError, match=f"{expected}; write the shards again with reports of this campaign"):
        read(collected, exported(collected, tmp_path, features=features))


def test_labels_that_no_device_sends_are_refused(collected: Collected, tmp_path: Path) -> None:
    size = collected.campaign.label_mechanism.set_size  # type: ignore[union-attr]
    wrong = (
        {"above": [99], "below": [-1], "fraction": [0.5]}
        if size == 1
        else {
            "above": [[99, *range(1, size)]],
            "twice": [[1] * size],
            "longer": [list(range(size + 1))],
        }
    )
    for name, label in wrong.items():
        (tmp_path / name).mkdir()
        with pytest.raises(GraphError, match="write the shards again with reports of this campaign"):
            read(collected, exported(collected, tmp_path / name, label=label))


def test_a_table_without_a_column_or_lists_or_with_two_reports_of_one_node_is_refused(
    collected: Collected, tmp_path: Path
) -> None:
    count = len(list(reports_of(collected.perturbed, collected.campaign)))
    with pytest.raises(GraphError, match=r"must be lists of 32 codes|the campaign collects none"):
        read(collected, exported(collected, tmp_path, features=[1] * count))
    first = next(reports_of(collected.perturbed, collected.campaign)).node
    with pytest.raises(GraphError, match="a node has two reports"):
        read(collected, exported(collected, tmp_path, node=[first, first]))
    with pytest.raises(GraphError, match="has no column 'label'"):
        list(report_batches(str(exported(collected, tmp_path, label=None)), collected.campaign))


def test_reports_of_another_campaign_or_graph_are_refused(collected: Collected, tmp_path: Path) -> None:
    asked = collected.campaign.asked
    changed: dict[str, Any] = {"nonce": "0" * 32}
    other = replace(collected.campaign, asked=replace(asked, **changed))
    with pytest.raises(CampaignError, match="holds reports of another campaign"):
        list(report_batches(str(exported(collected, tmp_path)), other))
    tables = collected.folder
    shards = ShardFolder.open(
        write_shards_of_tables(
            collected.store,
            collected.campaign,
            tables / "edges.csv",
            nodes=tables / "nodes.csv",
            out=tmp_path / "m",
            parts=2,
        )
    )
    with pytest.raises(CampaignError, match="holds reports of another campaign"):
        check_campaign(other, shards)
    elsewhere = replace(collected.campaign, asked=replace(asked, graph_sha256="0" * 64))
    renamed = replace(shards, manifest={**shards.manifest, "campaign": elsewhere.id})
    with pytest.raises(GraphError, match="is not the campaign's graph"):
        check_campaign(elsewhere, renamed)


def test_a_series_of_rounds_is_trained_from_its_store() -> None:
    series = campaign(classes(3), epsilon_y=1.0, rounds=3)
    with pytest.raises(CampaignError, match="train a series of rounds from its store"):
        list(report_batches("sqlite:///nowhere.db", series))
