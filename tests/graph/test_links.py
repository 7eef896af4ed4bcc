"""Links: weights, directions and kinds are read, kept, and refused with the row and the remedy."""

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from veilgraph.datasets import PrivateGraph
from veilgraph.errors import GraphError
from veilgraph.graph import Graph
from veilgraph.graph.links import Links
from veilgraph.privacy.schema import FeatureSchema

CIRCLE = [[0, 1, 2], [1, 2, 0]]
PATH = [[0, 1, 1, 2], [1, 0, 2, 1]]
"""A path, with each of its links in both directions."""

TABLE = pd.DataFrame(
    {
        "a": ["x", "y", "x", "z"],
        "b": ["y", "x", "y", "z"],
        "weight": ["2", "2.0", "1", "5"],
        "directed": ["no", "No", "no", "yes"],
        "kind": ["call", "call", "visit", "visit"],
    }
)


def test_a_table_says_each_link_once_and_drops_self_loops() -> None:
    links = Graph.from_table(TABLE, nodes=["x", "y", "z"]).links
    assert links is not None
    assert links.stated(list("xyz")) == [["x", "y", 1.0, False, "visit"], ["x", "y", 2.0, False, "call"]]
    assert links.in_words == "weights and kinds (call, visit)"


@pytest.mark.parametrize(
    "alike",
    [
        {"weights": [3] * 4},
        {"kinds": ["call"] * 4},
        {"directed": [False] * 4},
        {"directed": True},  # every link has one back
        {"weights": np.ones(4), "kinds": ["x"] * 4, "directed": False},
    ],
)
def test_links_that_are_all_alike_are_those_of_an_ordinary_graph(alike: dict[str, Any]) -> None:
    plain, told = Graph.from_edges(PATH, 3), Graph.from_edges(PATH, 3, **alike)
    assert told.links is None
    assert told.fingerprint == plain.fingerprint


@pytest.mark.parametrize("told", [{"weights": [1, 2, 3]}, {"kinds": ["a", "b", "a"]}, {"directed": True}])
def test_what_is_known_about_links_changes_neither_edges_nor_degrees_but_the_fingerprint(told: dict[str, Any]) -> None:
    plain, known = Graph.from_edges(CIRCLE, 3, node_ids="abc"), Graph.from_edges(CIRCLE, 3, node_ids="abc", **told)
    assert np.array_equal(plain.edges, known.edges)
    assert plain.fingerprint != known.fingerprint
    assert Graph.from_table(known.to_frame(), nodes="cba").fingerprint == known.fingerprint
    assert known.reordered(["b"]).fingerprint == known.fingerprint


def test_a_reversed_link_is_another_graph() -> None:
    forth, back = (Graph.from_edges(pair, 3, directed=True) for pair in (CIRCLE, CIRCLE[::-1]))
    assert forth.fingerprint != back.fingerprint


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_files_hold_what_is_known_about_links(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"links{suffix}"
    getattr(TABLE, "to_csv" if suffix == ".csv" else "to_parquet")(path, index=False)
    assert repr(Graph.from_files(path).links) == "Links(2 links with weights and kinds (call, visit))"


@pytest.mark.parametrize("weight", ["0", "-1", "nan", "inf", "-inf", "much", "1,5"])
def test_a_weight_that_is_no_number_above_0_is_refused_with_its_row(weight: str) -> None:
    with pytest.raises(GraphError, match=r"edge table, row 2: the weight is"):
        Graph.from_table(TABLE.assign(weight=["1", weight, "1", "1"]))


@pytest.mark.parametrize(
    ("column", "cells", "words"),
    [
        ("weight", ["2", "3", "1", "1"], "row 2: row 1 gives the same link another weight; keep one of them"),
        ("weight", ["2", None, "1", "1"], "row 2: 'weight' is missing; fill it in every row"),
        ("directed", ["no", "no", "maybe", "no"], "row 3: 'directed' is neither yes nor no; write one of them"),
        ("kind", ["call", "call", " ", "call"], "row 3: the kind is empty; write one for every link"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_row_and_remedy(column: str, cells: list[Any], words: str) -> None:
    with pytest.raises(GraphError, match=words):
        Graph.from_table(TABLE.assign(**{column: cells}))


@pytest.mark.parametrize("name", ["weights", "directed", "kinds"])
def test_one_entry_for_each_link_or_none(name: str) -> None:
    with pytest.raises(GraphError, match=r"2 .*for 3 links: give one for each"):
        Graph.from_edges(CIRCLE, 3, **dict[str, Any]({name: [1, 2]}))


def test_networkx_graphs_bring_weights_kinds_and_directions() -> None:
    made = nx.DiGraph()
    made.add_edge("a", "b", weight=2.0, kind="call")
    made.add_edge("c", "b", weight=1.0, kind="visit")
    links = Graph.from_networkx(made).links
    assert links is not None
    assert links.stated(list("abc")) == [["a", "b", 2.0, True, "call"], ["c", "b", 1.0, True, "visit"]]


def test_nodes_leave_with_their_links() -> None:
    graph = Graph.from_edges(CIRCLE, 3, weights=[1, 2, 3]).renumbered([-1, 0, 1], None, 2)
    assert graph.links is None  # one link is left
    assert graph.edges.tolist() == [[0], [1]]


def test_an_edge_index_has_both_ways_of_a_link_without_direction() -> None:
    links = Links.of(CIRCLE, weights=[1, 2, 3], directed=[True, False, True], kinds=["a", "b", "a"])
    assert links is not None
    found = {name: cells.tolist() for name, cells in links.as_edge_index().items()}
    assert found["edge_index"] == [[0, 2, 1, 2], [1, 0, 2, 1]]
    assert found["edge_weight"] == [1, 3, 2, 2]
    assert found["edge_type"] == [0, 0, 1, 1]


@pytest.mark.parametrize("other", [{"weights": [1, 2, 4]}, {"kinds": ["a", "b", "a"]}, {"directed": True}])
def test_stored_results_on_other_links_are_not_taken(other: dict[str, Any]) -> None:
    schema, labels = FeatureSchema(classes=("a", "b")), np.array([0, 1, 0])
    graphs = (Graph.from_edges(CIRCLE, 3, **told) for told in ({}, {"weights": [1, 2, 3]}, other))
    prints = {
        PrivateGraph(name="x", graph=graph, schema=schema, features=np.zeros((3, 0), int), labels=labels).fingerprint
        for graph in graphs
    }
    assert len(prints) == 3
