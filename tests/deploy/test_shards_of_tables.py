"""Tables become shards beside the model, which are written again at every start; nothing else is removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.collected import Collected
from veilgraph.deploy.shard_reports import check_campaign
from veilgraph.deploy.shards_of_tables import shards_beside, write_shards_of_tables
from veilgraph.errors import GraphError
from veilgraph.graph.shards import ShardFolder


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Collected:
    return Collected(tmp_path_factory.mktemp("collected"))


def write(collected: Collected, out: Path, *, store: str) -> Path:
    tables = collected.folder
    return write_shards_of_tables(
        store, collected.campaign, tables / "edges.csv", nodes=tables / "nodes.csv", out=out, parts=3
    )


def test_shards_of_tables_hold_the_campaigns_graph_and_reports(collected: Collected, tmp_path: Path) -> None:
    folder = ShardFolder.open(write(collected, tmp_path / "model", store=collected.store))
    assert folder.path == shards_beside(tmp_path / "model")
    check_campaign(collected.campaign, folder)
    assert folder.num_nodes == collected.campaign.nodes
    reported = collected.perturbed.has_features | collected.perturbed.has_label
    assert folder.manifest["reports"] == reported.sum()


def test_a_second_start_writes_the_same_shards_and_keeps_the_parts(collected: Collected, tmp_path: Path) -> None:
    first = ShardFolder.open(write(collected, tmp_path / "model", store=collected.store))
    kept = first.path / "cuts" / "parts-2" / "cut.json"
    kept.parent.mkdir(parents=True)
    kept.write_text("{}", encoding="utf-8")
    second = ShardFolder.open(write(collected, tmp_path / "model", store=collected.store))
    assert second.digest == first.digest  # so a checkpoint goes on
    assert kept.read_text(encoding="utf-8") == "{}"
    assert [path.name for path in tmp_path.iterdir()] == ["model.shards"]


def test_a_folder_of_other_files_is_kept(collected: Collected, tmp_path: Path) -> None:
    other = tmp_path / "model.shards" / "notes.txt"
    other.parent.mkdir()
    other.touch()
    with pytest.raises(GraphError, match="exists already"):
        write(collected, tmp_path / "model", store=collected.store)
    assert other.exists()
