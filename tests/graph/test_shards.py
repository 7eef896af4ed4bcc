"""Shards hold exactly the graph and the reports of the tables, and a damaged folder is refused by the shard's name."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from veilgraph.errors import GraphError
from veilgraph.graph import Graph
from veilgraph.graph.arrow import arrow
from veilgraph.graph.shard_writer import ShardedReports, ShardOptions, write_shards
from veilgraph.graph.shards import KeyIndex, ShardFolder, node_keys, read_graph, shard_of

pa, pq = arrow(), arrow("parquet")


def edge_table(path: Path, *, integer: bool = False, seed: int = 0) -> pd.DataFrame:
    """Write random edges with self loops and duplicates in both directions."""
    ends = np.random.default_rng(seed).integers(60, size=(300, 2))
    names = ends if integer else np.char.add("ü", ends.astype(str))
    table = pd.DataFrame(names, columns=["a", "b"])
    table.to_csv(path, index=False) if path.suffix == ".csv" else table.to_parquet(path)
    return table


@pytest.fixture
def written(tmp_path: Path) -> ShardFolder:
    edge_table(tmp_path / "edges.csv")
    return write_shards(tmp_path / "shards", tmp_path / "edges.csv", parts=4)


@pytest.mark.parametrize(("suffix", "integer"), [(".csv", False), (".parquet", False), (".parquet", True)])
@pytest.mark.parametrize("parts", [1, 5])
def test_the_graph_of_the_shards_is_that_of_the_table(tmp_path: Path, suffix: str, integer: bool, parts: int) -> None:
    edge_table(tmp_path / f"edges{suffix}", integer=integer)
    whole = Graph.from_files(tmp_path / f"edges{suffix}")
    # Batches of 7 rows: an edge and its duplicate are in different batches.
    folder = write_shards(
        tmp_path / "shards",
        tmp_path / f"edges{suffix}",
        parts=parts,
        options=ShardOptions(batch_bytes=100, batch_rows=7),
    )
    read = read_graph(tmp_path / "shards")
    assert folder.manifest["ids"] == ("integer" if integer else "text")
    assert read.fingerprint == whole.fingerprint == folder.identity
    assert repr(read).startswith(f"Graph({whole.num_nodes} nodes, {whole.num_edges} edges")
    plain = Graph(num_nodes=read.num_nodes, edges=read.edges, node_ids=read.names)
    assert plain.fingerprint == whole.fingerprint
    assert folder.manifest["dropped_self_loops"] == whole.dropped_self_loops
    assert folder.manifest["dropped_duplicates"] == whole.dropped_duplicates


def test_the_order_of_nodes_does_not_depend_on_the_number_of_shards(tmp_path: Path) -> None:
    edge_table(tmp_path / "edges.csv")
    names = [
        write_shards(tmp_path / f"{parts}", tmp_path / "edges.csv", parts=parts).graph().names for parts in (1, 3, 8)
    ]
    assert names[0] == names[1] == names[2]


def test_nodes_without_edges_are_kept_and_every_node_is_in_the_shard_of_its_key(tmp_path: Path) -> None:
    table = edge_table(tmp_path / "edges.csv")
    ids = [*sorted({*table.a, *table.b}), "alone"]
    pd.DataFrame({"id": ids}).to_csv(tmp_path / "nodes.csv", index=False)
    folder = write_shards(tmp_path / "shards", tmp_path / "edges.csv", nodes=tmp_path / "nodes.csv", parts=3)
    assert set(folder.graph().names) == set(ids)
    for shard in range(3):
        held = folder.nodes(shard)
        assert (shard_of(node_keys(held.ids), 3) == shard).all()


def test_a_node_that_the_table_lacks_is_refused_and_leaves_no_folder(tmp_path: Path) -> None:
    edge_table(tmp_path / "edges.csv")
    pd.DataFrame({"id": ["ü1"]}).to_csv(tmp_path / "nodes.csv", index=False)
    with pytest.raises(GraphError, match=r"an edge names node 'ü\d+', which .*nodes.csv lacks"):
        write_shards(tmp_path / "shards", tmp_path / "edges.csv", nodes=tmp_path / "nodes.csv", parts=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edges.csv", "nodes.csv"]


def test_a_draft_of_a_killed_run_is_removed_and_a_folder_is_never_overwritten(tmp_path: Path) -> None:
    edge_table(tmp_path / "edges.csv")
    draft = tmp_path / ".shards.0123456789abcdef.part"
    draft.mkdir()
    (draft / "edges-00000.parquet").write_bytes(b"half")
    write_shards(tmp_path / "shards", tmp_path / "edges.csv", parts=2)
    assert not draft.exists()
    with pytest.raises(GraphError, match="exists already: choose another folder"):
        write_shards(tmp_path / "shards", tmp_path / "edges.csv", parts=2)


def describe(folder: Path, kind: str, shard: int, **fixed: object) -> None:
    """State a shard in the manifest as it is now; with `sha256=None` the digest stays."""
    path = folder / f"{kind}-{shard:05d}.parquet"
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    stated = manifest["shards"][shard][kind]
    rows = pq.read_metadata(path).num_rows
    manifest[kind] += rows - stated["rows"]
    stated |= {"bytes": path.stat().st_size, "rows": rows}
    if "sha256" not in fixed:
        stated["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


def test_a_damaged_folder_is_refused_by_the_name_of_the_shard(written: ShardFolder, tmp_path: Path) -> None:
    def edges(folder: Path, shard: int) -> Path:
        return folder / f"edges-{shard:05d}.parquet"

    def truncate(folder: Path) -> None:
        edges(folder, 2).write_bytes(edges(folder, 2).read_bytes()[:-10])

    def replace_by_another(folder: Path) -> None:
        shutil.copy(edges(folder, 1), edges(folder, 2))
        describe(folder, "edges", 2, sha256=None)

    def name_an_unknown_node(folder: Path) -> None:
        pd.read_parquet(edges(folder, 2)).assign(target="nobody").to_parquet(edges(folder, 2), index=False)
        describe(folder, "edges", 2)

    def disagree(folder: Path) -> None:
        shutil.copy(folder / "nodes-00001.parquet", folder / "nodes-00002.parquet")
        describe(folder, "nodes", 2)

    damages: dict[str, Callable[[Path], object]] = {
        "edges-00002.parquet is missing": lambda folder: edges(folder, 2).unlink(),
        "edges-00002.parquet is truncated": truncate,
        "edges-00004.parquet is not in the manifest, a doubled": lambda f: shutil.copy(edges(f, 1), edges(f, 4)),
        "edges-00002.parquet is not the shard that the manifest describes": replace_by_another,
        "edges-00002.parquet names a node that no shard of nodes holds": name_an_unknown_node,
        "nodes-00002.parquet holds nodes of another shard": disagree,
    }
    for number, (message, damage) in enumerate(damages.items()):
        folder = Path(shutil.copytree(written.path, tmp_path / str(number)))
        damage(folder)
        with pytest.raises(GraphError, match=message):
            ShardFolder.open(folder).graph()


@pytest.fixture
def reported(tmp_path: Path) -> ShardFolder:
    """Shards with whole numbers as ids, and a report of every node."""
    table = edge_table(tmp_path / "edges.parquet", integer=True)
    nodes = pa.array(np.unique(table.to_numpy()))
    features = pa.array([[0, 1]] * len(nodes), type=pa.list_(pa.int32()))
    reports = pa.record_batch([nodes, features, pa.array([1] * len(nodes))], names=["node", "features", "label"])
    return write_shards(tmp_path / "reported", tmp_path / "edges.parquet", parts=4, reports=ShardedReports([reports]))


def test_the_totals_of_a_manifest_are_the_sums_over_its_shards(reported: ShardFolder) -> None:
    path = reported.path / "manifest.json"
    whole = json.loads(path.read_text(encoding="utf-8"))
    shards = json.loads(json.dumps(whole["shards"]))
    shards[1]["edges"]["rows"] = "12"
    sums = r"manifest.json says \d+ {}, and its shards have \d+ together"
    for changed, message in (
        *((whole | {key: whole[key] + 1}, sums.format(key)) for key in ("nodes", "edges", "reports")),
        (whole | {"nodes": whole["nodes"] - 1}, sums.format("nodes")),
        (whole | {"nodes": "many"}, "manifest.json says many nodes"),
        (whole | {"ids": ["text"]}, "manifest.json does not describe shards"),
        ({key: value for key, value in whole.items() if key != "ids"}, "manifest.json does not describe shards"),
        (whole | {"shards": shards}, "manifest.json does not describe shards"),
    ):
        path.write_text(json.dumps(changed), encoding="utf-8")
        with pytest.raises(GraphError, match=message):
            ShardFolder.open(reported.path)


def change_column(folder: Path, kind: str, column: str, change: Callable[[Any], Any]) -> None:
    """Replace a column of shard 2, whose checksum is right afterwards."""
    path = folder / f"{kind}-00002.parquet"
    table = pq.read_table(path)
    values = change(table.column(column).combine_chunks())
    pq.write_table(table.set_column(table.column_names.index(column), column, values), path)
    describe(folder, kind, 2)


def without_row_2(values: Any) -> Any:
    return pa.array([None if row == 1 else value for row, value in enumerate(values.to_pylist())], type=values.type)


def as_type(kind: Any) -> Callable[[Any], Any]:
    return lambda values: values.cast(kind, safe=False)


def test_an_id_that_is_missing_or_of_another_type_is_refused_by_shard_and_column(
    reported: ShardFolder, tmp_path: Path
) -> None:
    of_type = "ids have type {}, and the manifest says that they are whole numbers"
    for kind, column in (("nodes", "id"), ("edges", "source"), ("edges", "target"), ("reports", "node")):
        for number, (change, reason) in enumerate(
            (
                (without_row_2, "row 2: the id is missing"),
                (as_type(pa.float64()), of_type.format("double")),
                (as_type(pa.string()), of_type.format("string")),
            )
        ):
            path = Path(shutil.copytree(reported.path, tmp_path / f"{kind}-{column}-{number}"))
            change_column(path, kind, column, change)
            folder = ShardFolder.open(path)
            with pytest.raises(GraphError, match=f"{kind}-00002.parquet, column '{column}'.*{reason}"):
                getattr(folder, kind)(2)


@pytest.mark.parametrize("kind", [pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_other_programs_may_write_text_in_any_of_its_types(written: ShardFolder, kind: Any) -> None:
    before, names = written.graph(), written.names()
    for name, column in (("nodes", "id"), ("edges", "source"), ("edges", "target")):
        change_column(written.path, name, column, as_type(kind))
    read = ShardFolder.open(written.path).graph()
    assert read.names == names
    np.testing.assert_array_equal(read.edges, before.edges)


def test_a_report_with_neither_features_nor_a_label_is_refused(reported: ShardFolder) -> None:
    change_column(reported.path, "reports", "features", without_row_2)
    assert ShardFolder.open(reported.path).reports(2).num_rows > 1, "a report of the label alone is one"
    change_column(reported.path, "reports", "label", without_row_2)
    with pytest.raises(GraphError, match=r"reports-00002.parquet, row 2: a report has neither features nor a label"):
        ShardFolder.open(reported.path).reports(2)


def test_a_graph_that_does_not_exist_is_said_not_to_exist(tmp_path: Path) -> None:
    for name in ("nothere", "not.here"):
        with pytest.raises(
            GraphError, match=f"{name} does not exist: give an edge table, .csv or .parquet, or a folder"
        ):
            read_graph(tmp_path / name)
    with pytest.raises(GraphError, match="nothere does not exist: give a table"):
        write_shards(tmp_path / "shards", tmp_path / "nothere", parts=1)
    (tmp_path / "edges.txt").write_text("a,b", encoding="utf-8")
    with pytest.raises(GraphError, match=r"edges.txt: a table is .csv or .parquet, not '.txt'"):
        read_graph(tmp_path / "edges.txt")


def label_reports(nodes: list[str], labels: list[int | None]) -> Any:
    return pa.record_batch([pa.array(nodes), pa.array(labels, type=pa.int32())], names=["node", "label"])


def test_reports_of_nodes_that_the_graph_lacks_are_counted(tmp_path: Path) -> None:
    table = edge_table(tmp_path / "edges.csv")
    known = sorted({*table.a, *table.b})
    reports = label_reports([*known, "nobody", "no one"], [0] * (len(known) + 2))
    folder = write_shards(tmp_path / "shards", tmp_path / "edges.csv", parts=3, reports=ShardedReports([reports]))
    assert folder.manifest["reports"] == len(known)
    assert folder.manifest["dropped_reports"] == 2


def test_a_report_that_says_nothing_is_not_written(tmp_path: Path) -> None:
    edge_table(tmp_path / "edges.csv")
    reports = label_reports(["ü1", "ü2"], [0, None])
    with pytest.raises(GraphError, match="the report of node 'ü2' has neither features nor a label"):
        write_shards(tmp_path / "shards", tmp_path / "edges.csv", parts=1, reports=ShardedReports([reports]))


@pytest.mark.parametrize("large", [False, True])
def test_a_campaign_on_an_edge_table_is_on_its_shards_and_on_no_others(tmp_path: Path, large: bool) -> None:
    limit = ShardOptions(fingerprint_edges=2 if large else 1_000_000)
    edge_table(tmp_path / "edges.csv")
    table = Graph.from_files(tmp_path / "edges.csv").fingerprint
    folder = write_shards(tmp_path / "shards", tmp_path / "edges.csv", parts=3, campaign_graph=table, options=limit)
    assert folder.identity == table
    edge_table(tmp_path / "others.csv", seed=1)
    with pytest.raises(GraphError, match=r"others.csv \(\d+ nodes\) is not the campaign's") as refused:
        write_shards(tmp_path / "other", tmp_path / "others.csv", parts=3, campaign_graph=table, options=limit)
    assert ("number of parts" in str(refused.value)) is large
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edges.csv", "others.csv", "shards"]
    bare = write_shards(tmp_path / "bare", tmp_path / "edges.csv", parts=3, options=limit).identity
    assert (bare == table) is not large
    named = write_shards(tmp_path / "named", tmp_path / "edges.csv", parts=3, options=limit, campaign_graph=bare)
    assert named.identity == bare


def test_ids_must_be_given_and_of_one_type(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("a,b\nu,v\nu,\n", encoding="utf-8")
    with pytest.raises(GraphError, match="an id is missing"):
        write_shards(tmp_path / "shards", tmp_path / "edges.csv", parts=1)
    pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}).to_parquet(tmp_path / "mixed.parquet")
    with pytest.raises(GraphError, match=r"an id is not a whole number|same type"):
        write_shards(tmp_path / "shards", tmp_path / "mixed.parquet", parts=1)
    with pytest.raises(GraphError, match="parts is 0"):
        write_shards(tmp_path / "shards", tmp_path / "edges.csv", parts=0)


def test_an_index_finds_every_key_and_no_other() -> None:
    for count in (0, 1, 2, 1000):
        drawn = np.random.default_rng(count).integers(2**64, size=2 * count, dtype=np.uint64)
        keys = np.unique(drawn[:count])
        wanted = np.concatenate([drawn, np.array([0, 2**64 - 1], dtype=np.uint64)])
        expected = [int(np.searchsorted(keys, key)) if key in keys else -1 for key in wanted]
        np.testing.assert_array_equal(KeyIndex(keys).find(wanted), expected)


@pytest.mark.parametrize("column", ["weight", "directed", "kind"])
def test_what_is_known_about_links_is_refused_where_shards_would_lose_it(tmp_path: Path, column: str) -> None:
    path = tmp_path / "links.csv"
    path.write_text(f"a,b,{column}\nx,y,1\n")
    with pytest.raises(GraphError, match=f"'{column}', which shards do not hold yet: train from the table"):
        write_shards(tmp_path / "shards", path, parts=1)
    assert not (tmp_path / "shards").exists()
