"""The part of one process is the whole graph of the shards, and clusters are kept with a checksum."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from veilgraph.datasets import csbm
from veilgraph.distributed.exchange import Exchange
from veilgraph.distributed.graph_rows import whole_rows
from veilgraph.distributed.shard_part import ShardHomes, ShardPart
from veilgraph.errors import GraphError
from veilgraph.graph.shard_writer import write_shards
from veilgraph.graph.shards import ShardFolder

ALONE = Exchange(rank=0, world_size=1)


@pytest.fixture
def folder(tmp_path: Path) -> ShardFolder:
    edges = csbm(300, mean_degree=6, seed=0).graph.edges
    pd.DataFrame(edges.T, columns=["a", "b"]).to_parquet(tmp_path / "edges.parquet")
    return write_shards(tmp_path / "shards", tmp_path / "edges.parquet", parts=3)


def test_the_rows_of_one_process_are_those_of_the_graph(folder: ShardFolder) -> None:
    part, whole = ShardPart.read(folder, ALONE), whole_rows(folder.graph())
    np.testing.assert_array_equal(part.rows.starts, whole.starts)
    np.testing.assert_array_equal(part.rows.neighbours, whole.neighbours)
    values = np.arange(folder.num_nodes)
    np.testing.assert_array_equal(part.to_homes(part.from_homes(values)), values)


def test_clusters_are_read_again_and_found_again_if_a_file_was_changed(folder: ShardFolder) -> None:
    part = ShardPart.read(folder, ALONE)
    found = part.clusters(4)
    kept = folder.path / "cuts" / "clusters-4" / "00001.npy"
    np.testing.assert_array_equal(part.clusters(4), found)
    wrong = np.load(kept) * 0
    np.save(kept, wrong)
    np.testing.assert_array_equal(part.clusters(4), found)
    assert np.load(kept).any()


def test_an_edge_to_an_unknown_node_is_refused_by_its_shard(folder: ShardFolder, tmp_path: Path) -> None:
    pd.DataFrame({"a": [0], "b": [10**6]}).to_parquet(tmp_path / "other.parquet")
    other = write_shards(tmp_path / "other", tmp_path / "other.parquet", parts=1)
    (tmp_path / "mixed").mkdir()
    one = write_shards(tmp_path / "one", tmp_path / "edges.parquet", parts=1)
    shards = [{"nodes": one.manifest["shards"][0]["nodes"], "edges": other.manifest["shards"][0]["edges"]}]
    mixed = ShardFolder(path=tmp_path / "mixed", manifest=dict(one.manifest) | {"shards": shards})
    (tmp_path / "one" / "nodes-00000.parquet").rename(tmp_path / "mixed" / "nodes-00000.parquet")
    (tmp_path / "other" / "edges-00000.parquet").rename(tmp_path / "mixed" / "edges-00000.parquet")
    with pytest.raises(GraphError, match=r"edges-00000\.parquet names a node that no shard of nodes holds"):
        ShardPart.read(mixed, ALONE)


def test_processes_need_a_shard_each(folder: ShardFolder) -> None:
    with pytest.raises(GraphError, match=r"has 3 shard\(s\) for 4 processes"):
        ShardHomes(folder=folder, exchange=Exchange(rank=0, world_size=4))


def test_homes_share_all_nodes_in_order(folder: ShardFolder) -> None:
    homes = [ShardHomes(folder=folder, exchange=Exchange(rank=rank, world_size=2)) for rank in range(2)]
    np.testing.assert_array_equal(np.concatenate([home.numbers for home in homes]), np.arange(folder.num_nodes))
    for rank, home in enumerate(homes):
        assert (homes[0].of_keys(home.keys) == rank).all()
        assert (homes[0].of_numbers(home.numbers) == rank).all()
