"""The public graph, the reports on it, and how nodes are split."""

from __future__ import annotations

import dataclasses
import importlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from veilgraph.errors import GraphError
from veilgraph.graph import Graph, PerturbedGraph, Split, read_table
from veilgraph.privacy.accounting import theorem_1_figure
from veilgraph.privacy.mechanisms import GRR, GRRFS, MultiBit
from veilgraph.privacy.schema import NO_LABEL, FeatureSchema

pairs = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=1, max_size=30)


@settings(deadline=None)
@given(pairs=pairs)
def test_a_graph_holds_every_edge_once_and_counts_what_it_dropped(pairs: list[tuple[int, int]]) -> None:
    proper = sorted({(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]})
    if not proper:
        with pytest.raises(GraphError, match="self loops only"):
            Graph.from_edges(np.array(pairs).T, num_nodes=8)
        return
    graph = Graph.from_edges(np.array(pairs).T, num_nodes=8)
    assert list(map(tuple, graph.edges.T.tolist())) == proper
    loops = sum(u == v for u, v in pairs)
    assert graph.dropped_self_loops == loops
    assert graph.dropped_duplicates == len(pairs) - loops - len(proper)
    assert graph.num_edges == len(proper)
    assert graph.degrees.tolist() == [sum(node in pair for pair in proper) for node in range(8)]
    starts, neighbours = graph.adjacency
    for node in range(8):
        expected = sorted({u + v - node for u, v in proper if node in (u, v)})
        assert neighbours[starts[node] : starts[node + 1]].tolist() == expected
    assert starts.dtype == neighbours.dtype == np.dtype(np.int32)
    assert {tuple(end) for end in graph.edge_index.T.tolist()} == {p for u, v in proper for p in ((u, v), (v, u))}


def test_a_graph_says_what_it_is_and_what_it_dropped() -> None:
    assert repr(Graph.from_edges([[0, 1], [1, 2]], num_nodes=4)) == "Graph(4 nodes, 2 edges, 1 isolated)"
    with_rest = Graph.from_edges([[0, 1, 1, 1, 2], [1, 0, 1, 0, 2]], num_nodes=3)
    assert repr(with_rest) == "Graph(3 nodes, 1 edges, 1 isolated; dropped 2 self loops, 2 duplicates)"


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # torch_geometric's own, while it is imported
def test_only_the_structure_of_a_data_object_is_taken() -> None:
    make = importlib.import_module("torch_geometric.data").Data
    data = make(x=torch.ones(4, 2), y=torch.ones(4), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=4)
    graph = Graph.from_data(data)
    assert (graph.num_nodes, graph.edges.tolist()) == (4, [[0, 1], [1, 2]])
    assert graph.node_ids is None


@pytest.mark.parametrize(
    ("edges", "num_nodes", "reason"),
    [
        ([[0], [1]], 0, "the graph has 0 nodes"),
        ([[], []], 3, "the graph has no edges"),
        ([[0, 1], [1, 3]], 3, r"an edge names node 3, but nodes are 0\.\.2"),
        ([[0, -1], [1, 2]], 3, r"an edge names node -1, but nodes are 0\.\.2"),
        ([[0.0, 1.0], [1.0, 2.0]], 3, "give two rows of integers"),
        ([[0, 1], [1, 2], [2, 0]], 3, r"edges have shape \(3, 2\)"),
        ([0, 1], 3, r"edges have shape \(2,\)"),
    ],
)
def test_edges_that_make_no_graph_are_refused(edges: Any, num_nodes: int, reason: str) -> None:
    with pytest.raises(GraphError, match=reason):
        Graph.from_edges(edges, num_nodes)


def test_every_node_needs_an_id_where_any_has_one() -> None:
    with pytest.raises(GraphError, match="2 node ids for 3 nodes"):
        Graph.from_edges([[0], [1]], num_nodes=3, node_ids=["a", "b"])


def test_nodes_of_a_table_may_have_ids_of_any_kind() -> None:
    table = pd.DataFrame({"from": ["007", ("a", 1), 3], "to": [("a", 1), 3, "007"], "since": [1, 2, 3]})
    graph = Graph.from_table(table)
    assert graph.node_ids == ("007", ("a", 1), 3)
    assert graph.edges.tolist() == [[0, 0, 1], [1, 2, 2]]


def test_declared_nodes_keep_their_order_and_may_be_isolated() -> None:
    table = pd.DataFrame({"from": ["c"], "to": ["a"]})
    graph = Graph.from_table(table, nodes=["a", "b", "c"])
    assert (graph.node_ids, graph.edges.tolist(), graph.degrees.tolist()) == (("a", "b", "c"), [[0], [2]], [1, 0, 1])


@pytest.mark.parametrize(
    ("table", "nodes", "reason"),
    [
        ({"from": ["a"]}, None, r"the edge table has 1 column\(s\)"),
        ({"from": ["a", "a"], "to": ["b", "z"]}, ["a", "b"], "row 1: unknown node 'z'; add it to the nodes"),
        ({"from": ["a"], "to": ["b"]}, ["a", "b", "a"], "a node id occurs twice"),
        ({"from": ["a", "a"], "to": ["b", None]}, None, "row 1: an end is missing"),
        ({"from": [math.nan, 1.0], "to": [1.0, 2.0]}, None, "row 0: an end is missing"),
        ({"a": ["b"], "b": ["c"]}, ["a", "b", "c"], "first line names two nodes; put a line with column names above"),
        ({"from": [], "to": []}, None, "0 nodes"),
        ({"from": [], "to": []}, ["a"], "the graph has no edges"),
    ],
)
def test_an_edge_table_that_makes_no_graph_is_refused(table: dict[str, Any], nodes: Any, reason: str) -> None:
    with pytest.raises(GraphError, match=reason):
        Graph.from_table(pd.DataFrame(table), nodes=nodes)


PEOPLE = pd.DataFrame({"id": ["007", "8"], "age": [31, 64]})


def write(table: pd.DataFrame, path: Path) -> Path:
    table.to_csv(path, index=False) if path.suffix == ".csv" else table.to_parquet(path)
    return path


@pytest.mark.parametrize("name", ["people.csv", "people.parquet"])
def test_ids_with_leading_zeros_stay_as_they_are(name: str, tmp_path: Path) -> None:
    people = read_table(write(PEOPLE, tmp_path / name))
    assert people["id"].tolist() == ["007", "8"]
    assert people["age"].astype(int).tolist() == [31, 64]


def test_only_an_empty_field_of_a_csv_file_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "words.csv"
    path.write_text("id,word\n1,NA\n2,None\n3,\n4,null\n")
    assert read_table(str(path))["word"].fillna("missing").tolist() == ["NA", "None", "missing", "null"]


@pytest.mark.parametrize("name", ["edges.csv", "edges.parquet"])
def test_a_file_of_edges_makes_the_graph_it_describes(name: str, tmp_path: Path) -> None:
    path = write(pd.DataFrame({"a": ["01", "1"], "b": ["1", "2"]}), tmp_path / name)
    assert Graph.from_table(read_table(path)).node_ids == ("01", "1", "2")


def damaged(path: Path, kind: str) -> Path:
    secret = b"6161"
    content = {
        "empty": b"",
        "unbalanced": b"a,b\n6161,6161\n6161,6161,6161\n",
        "wide": b"a,b\n6161,6161,6161\n6161,6161,6161\n",
        "bytes": b"a,b\n\xff\xfe6161,1\n",
        "garbage": secret * 100,
        "truncated": write(PEOPLE, path.with_name("whole.parquet")).read_bytes()[:-20],
    }[kind]
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("t.csv", "empty"),
        ("t.csv", "unbalanced"),
        ("t.csv", "wide"),
        ("t.csv", "bytes"),
        ("t.parquet", "empty"),
        ("t.parquet", "garbage"),
        ("t.parquet", "truncated"),
    ],
)
def test_a_damaged_file_is_refused_in_one_line_without_its_content(name: str, kind: str, tmp_path: Path) -> None:
    path = damaged(tmp_path / name, kind)
    with pytest.raises(GraphError) as refusal:
        read_table(path)
    message = str(refusal.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    assert "6161" not in message.removeprefix(str(path))
    assert refusal.value.__suppress_context__


@pytest.mark.parametrize("name", ["absent.csv", "absent.parquet"])
def test_an_absent_file_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"cannot be read: No such file or directory$"):
        read_table(tmp_path / name)


def test_a_folder_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(GraphError, match="cannot be read: Is a directory"):
        read_table(tmp_path / "folder.csv")


@pytest.mark.parametrize("name", ["table.xlsx", "table"])
def test_a_table_of_another_format_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"a table is \.csv or \.parquet, not"):
        read_table(tmp_path / name)


SCHEMA = FeatureSchema.binary(3, classes=["a", "b", "c"])
GRAPH = Graph.from_edges([[0, 1], [1, 2]], num_nodes=4)
REPORTS = PerturbedGraph(
    graph=GRAPH,
    schema=SCHEMA,
    features=np.zeros((4, 3), dtype=np.uint8),
    labels=np.array([0, 2, NO_LABEL, 9]),
    has_features=np.array([True, True, False, True]),
    has_label=np.array([True, True, False, False]),
    feature_mechanism=GRRFS((2, 2, 2), sampled=2, epsilon=0.5),
    label_mechanism=GRR(3, 1.0),
)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"features": np.zeros((4, 2))}, r"features has shape \(4, 2\): 4 nodes and 3 features need \(4, 3\)"),
        ({"features": np.zeros((3, 3))}, r"features has shape \(3, 3\)"),
        ({"labels": np.zeros(3, dtype=int)}, r"labels has shape \(3,\)"),
        ({"has_features": np.ones((4, 3), dtype=bool)}, r"has_features has shape \(4, 3\)"),
        ({"has_label": np.ones(5, dtype=bool)}, r"has_label has shape \(5,\)"),
        ({"feature_mechanism": GRRFS((2, 2), 1, 1.0)}, "the feature mechanism is for 2 features, the schema has 3"),
        ({"label_mechanism": GRR(2, 1.0)}, "the label mechanism is for 2 classes, the schema has 3"),
        ({"has_label": np.ones(4, dtype=bool)}, r"a reported label is outside 0\.\.2"),
        ({"labels": np.array([0, 3, 0, 0])}, r"a reported label is outside 0\.\.2"),
    ],
)
def test_reports_that_do_not_fit_the_graph_or_the_schema_are_refused(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(GraphError, match=reason):
        dataclasses.replace(REPORTS, **change)


def test_the_guarantee_is_that_of_both_mechanisms_together() -> None:
    guarantee = REPORTS.guarantee
    assert guarantee.features == REPORTS.feature_mechanism.privacy_loss
    assert guarantee.label == REPORTS.label_mechanism.privacy_loss
    assert guarantee.total_user_level == pytest.approx(2 * 0.5 + 1.0, abs=1e-6)
    assert guarantee.unsound_theorem_1 == theorem_1_figure(0.5, sampled=2, num_features=3)


def test_theorem_1_says_nothing_of_other_mechanisms() -> None:
    multi_bit = MultiBit((0.0,) * 3, (1.0,) * 3, sampled=1, epsilon=1.0)
    assert dataclasses.replace(REPORTS, feature_mechanism=multi_bit).guarantee.unsound_theorem_1 is None


@settings(deadline=None)
@given(
    num_nodes=st.integers(1, 200),
    train=st.floats(0.01, 0.9),
    rest=st.floats(0.01, 1),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_split_has_the_asked_shares_and_every_node_in_one_part(
    num_nodes: int, train: float, rest: float, seed: int
) -> None:
    validation = (1 - train) * rest
    split = Split.random(num_nodes, seed=seed, train=train, validation=validation)
    parts = np.stack([split.train, split.validation, split.test])
    assert (parts.sum(axis=0) == 1).all()
    # Each end of a part is rounded to a whole node.
    assert abs(split.train.sum() - train * num_nodes) <= 0.5
    assert abs(split.validation.sum() - validation * num_nodes) <= 1
    np.testing.assert_array_equal(split.labelled, ~split.test)


def test_a_seed_determines_a_split() -> None:
    first, again, another = (Split.random(100, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.train, again.train)
    np.testing.assert_array_equal(first.validation, again.validation)
    assert (first.train != another.train).any()
    assert repr(first) == "Split(50 train, 25 validation, 25 test)"


def test_nodes_that_are_not_eligible_are_in_no_part() -> None:
    eligible = np.arange(100) % 5 == 0
    split = Split.random(100, seed=0, eligible=eligible)
    np.testing.assert_array_equal(split.train | split.validation | split.test, eligible)
    assert repr(split) == "Split(10 train, 5 validation, 5 test)"


def test_every_node_is_as_likely_to_train() -> None:
    splits = 2000
    chosen = sum(Split.random(10, seed=seed).train.astype(int) for seed in range(splits))
    # Five standard errors of a fair coin in 2000 throws, for each node.
    assert np.abs(chosen / splits - 0.5).max() < 5 * 0.5 / math.sqrt(splits)


@pytest.mark.parametrize(("train", "validation"), [(0.0, 0.5), (0.5, 0.0), (0.8, 0.3), (-0.1, 0.5), (math.nan, 0.5)])
def test_shares_that_cannot_be_are_refused(train: float, validation: float) -> None:
    with pytest.raises(GraphError, match="both above 0, together at most 1"):
        Split.random(10, seed=0, train=train, validation=validation)


def test_masks_that_overlap_or_differ_in_shape_are_refused() -> None:
    some, none = np.array([True, False]), np.array([False, False])
    with pytest.raises(GraphError, match="a node is in two parts"):
        Split(train=some, validation=none, test=some)
    with pytest.raises(GraphError, match="split masks differ in shape"):
        Split(train=some, validation=none, test=np.array([False]))
