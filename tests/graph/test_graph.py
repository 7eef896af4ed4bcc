"""The public graph: what it keeps and what it refuses."""

from __future__ import annotations

import hashlib
import importlib
import json
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
from veilgraph.graph import Graph

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
def test_only_the_edges_of_a_data_object_are_read() -> None:
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
        ({"from": ["a", "a"], "to": ["b", "z"]}, ["a", "b"], "row 2: unknown node 'z'; add it to the nodes"),
        ({"from": ["a"], "to": ["b"]}, ["a", "b", "a"], "a node id occurs twice"),
        ({"from": ["a", "a"], "to": ["b", None]}, None, "row 2: an end is missing"),
        ({"from": [math.nan, 1.0], "to": [1.0, 2.0]}, None, "row 1: an end is missing"),
        ({"a": ["b"], "b": ["c"]}, ["a", "b", "c"], "first line names two nodes; put a line with column names above"),
        ({"from": [], "to": []}, None, "0 nodes"),
        ({"from": [], "to": []}, ["a"], "the graph has no edges"),
    ],
)
def test_an_edge_table_that_makes_no_graph_is_refused(table: dict[str, Any], nodes: Any, reason: str) -> None:
    with pytest.raises(GraphError, match=reason):
        Graph.from_table(pd.DataFrame(table), nodes=nodes)


@settings(deadline=None)
@given(
    st.lists(st.text(max_size=3) | st.integers(0, 3), min_size=2, max_size=8, unique=True).flatmap(
        lambda ids: st.tuples(
            st.just(ids),
            st.lists(
                st.tuples(*[st.integers(0, len(ids) - 1)] * 2).filter(lambda ends: ends[0] != ends[1]), min_size=1
            ),
        )
    )
)
def test_the_fingerprint_is_the_digest_of_the_sorted_names_as_canonical_json(
    drawn: tuple[list[str | int], list[tuple[int, int]]],
) -> None:
    ids, ends = drawn
    graph = Graph.from_edges(np.array(ends).T, len(ids), node_ids=ids)
    names = [str(each) for each in ids]
    edges = sorted(sorted((names[u], names[v])) for u, v in graph.edges.T.tolist())
    content = json.dumps({"edges": edges, "nodes": sorted(names)}, separators=(",", ":"), sort_keys=True)
    assert graph.fingerprint == hashlib.sha256(content.encode()).hexdigest()


def test_a_networkx_graph_keeps_its_nodes_in_order_and_its_edges() -> None:
    networkx = pytest.importorskip("networkx")
    given = networkx.DiGraph([("b", "a"), ("a", "b"), ("c", "c"), ("c", "b")])
    given.add_node("alone")
    graph = Graph.from_networkx(given)
    assert graph.names == ("b", "a", "c", "alone")
    assert graph.edges.tolist() == [[0, 0], [1, 2]]
    assert (graph.dropped_self_loops, graph.dropped_duplicates) == (1, 1)


def test_a_table_of_edges_gives_the_graph_back() -> None:
    graph = Graph.from_edges([[0, 1], [1, 3]], 4, node_ids=["d", "c", "b", "a"])
    assert Graph.from_table(graph.to_frame(), nodes=graph.names).fingerprint == graph.fingerprint


def test_a_table_with_ids_alone_has_people_and_no_edge(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("id\nu1\nu2\n")
    people = Graph.from_files(path)
    assert (people.names, people.num_edges) == (("u1", "u2"), 0)
    assert people.reordered(["u2"]).names == ("u2", "u1")
    with pytest.raises(GraphError, match="leave the node table out"):
        Graph.from_files(path, nodes=path)
    path.write_text("id\nu1\nu1\n")
    with pytest.raises(GraphError, match="occurs twice"):
        Graph.from_files(path)
