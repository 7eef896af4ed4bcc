"""PrivateGraph accepts valid records only, also from tables; its repr and its errors contain no private value."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import veilgraph.datasets
from tests.support.originals import small_archive
from veilgraph.datasets import PrivateGraph, csbm, from_tables, load
from veilgraph.errors import DomainError, GraphError, MissingExtraError, RunError, SchemaError, VeilgraphError
from veilgraph.graph import Graph
from veilgraph.graph.arrow import arrow
from veilgraph.privacy.schema import NO_LABEL, Column, FeatureSchema

PATH = Graph.from_edges([[0, 1, 2], [1, 2, 3]], num_nodes=4)
SCHEMA = FeatureSchema(
    columns=(Column(name="smoker"), Column(name="age", edges=(0, 30, 60, 120))), classes=("ill", "well")
)
FEATURES = np.array([[0, 2], [1, 1], [1, 0], [0, 0]], dtype=np.uint8)
LABELS = np.array([0, 0, 1, NO_LABEL])


def on_path(*, features: NDArray[np.generic] = FEATURES, labels: NDArray[np.int64] = LABELS) -> PrivateGraph:
    return PrivateGraph(name="path", graph=PATH, schema=SCHEMA, features=features, labels=labels)


def message_of(build: Callable[[], object]) -> str:
    with pytest.raises(VeilgraphError) as caught:
        build()
    return str(caught.value)


@pytest.mark.parametrize("show", [repr, str, "{}".format])
def test_what_is_shown_does_not_depend_on_private_values(show: Callable[[object], str]) -> None:
    other = on_path(features=1 - (FEATURES > 0).astype(np.uint8), labels=np.array([1, NO_LABEL, 0, 0]))
    shown = show(on_path())
    assert shown == show(other)
    assert shown == "PrivateGraph('path', Graph(4 nodes, 3 edges, 0 isolated), 2 features, <private>)"


def test_an_error_about_a_record_names_its_row_and_does_not_depend_on_its_value() -> None:
    def with_age(code: int) -> Callable[[], PrivateGraph]:
        return lambda: on_path(features=np.where(FEATURES == 2, code, FEATURES))

    assert message_of(with_age(3)) == message_of(with_age(97)) == message_of(with_age(-5))
    assert message_of(with_age(97)) == "feature 'age', row 0: outside the declared domain 0..2 (value withheld)"

    def with_last(code: int) -> Callable[[], PrivateGraph]:
        return lambda: on_path(labels=np.array([NO_LABEL, 0, 1, code]))

    assert message_of(with_last(2)) == message_of(with_last(97)) == message_of(with_last(-2))
    assert "label, row 3:" in message_of(with_last(97))
    with pytest.raises(DomainError, match="codes must be integers"):
        on_path(features=FEATURES.astype(np.float64))


@pytest.mark.parametrize(
    ("features", "labels"), [(FEATURES[:3], LABELS), (FEATURES[:, :1], LABELS), (FEATURES, LABELS[:3])]
)
def test_records_must_fit_the_graph_and_the_schema(features: NDArray[np.generic], labels: NDArray[np.int64]) -> None:
    with pytest.raises(GraphError, match="do not fit 4 nodes with 2 features"):
        on_path(features=features, labels=labels)


def test_embedded_sets_load_by_their_own_name_and_an_unknown_one_is_refused() -> None:
    assert [load(name).name for name in ("csbm", "patients", "voters")] == ["csbm", "patients", "voters"]
    with pytest.raises(RunError, match=r"no data set 'atlantis': known are citeseer, cora, csbm, .*patients"):
        load("atlantis")


def test_labels_of_several_classes_are_needed_and_homophily_counts_edges_between_labelled_nodes_only() -> None:
    with pytest.raises(GraphError, match="all labels are of one class"):
        on_path(labels=np.array([1, 1, NO_LABEL, 1]))
    with pytest.raises(GraphError, match="no node has a label"):
        on_path(labels=np.full(4, NO_LABEL))
    assert on_path().homophily == 1 / 2  # 0-1 agree, 1-2 do not, 2-3 does not count
    with pytest.raises(GraphError, match="homophily is undefined"):
        _ = on_path(labels=np.array([0, NO_LABEL, 1, NO_LABEL])).homophily


def test_a_file_of_your_own_is_a_data_set_by_its_name(tmp_path: Path) -> None:
    small_archive(class_names=("low", "high")).write(tmp_path / "mine.npz")
    private = load("mine", tmp_path)
    assert (private.name, private.schema.classes, private.schema.num_features) == ("mine", ("low", "high"), 6)
    with pytest.raises(
        RunError, match=r"no data set 'yours': .*; or put yours\.npz into the folder that VEILGRAPH_DATA names"
    ):
        load("yours", tmp_path)


def test_public_names_are_sorted_and_there() -> None:
    names = veilgraph.datasets.__all__
    assert names == sorted(names)
    assert all(hasattr(veilgraph.datasets, name) for name in names)


NODES = pd.DataFrame(
    {
        "id": ["007", "b", "c", "d"],
        "age": [25.0, 30.0, 61.5, 120.0],
        "smoker": ["no", "yes", "no", "yes"],
        "visits": [0, 1, 1, 0],
        "ill": ["n", "y", "n", None],
        "unused": [1, 2, 3, 4],
    }
)
EDGES = pd.DataFrame({"from": ["007", "b", "c", "b"], "to": ["b", "c", "d", "007"], "since": [1, 2, 3, 4]})
TABLE_SCHEMA = FeatureSchema(
    columns=(
        Column(name="age", edges=(0, 30, 60, 120)),
        Column(name="smoker", values=("no", "yes")),
        Column(name="visits"),
    ),
    classes=("n", "y"),
)


@dataclass(frozen=True, kw_only=True)
class Tables:
    """The three inputs as values, which a test changes one at a time."""

    folder: Path
    nodes: pd.DataFrame
    edges: pd.DataFrame
    schema: FeatureSchema = TABLE_SCHEMA
    suffix: str = ".csv"
    label: str = "ill"

    def write(self) -> None:
        """Write the three files."""
        self.schema.save(self.folder / "schema.toml")
        for name, table in (("nodes", self.nodes), ("edges", self.edges)):
            path = (self.folder / name).with_suffix(self.suffix)
            table.to_csv(path, index=False) if self.suffix == ".csv" else table.to_parquet(path)

    def read(self) -> PrivateGraph:
        """Load the private graph from the files."""
        return from_tables(
            edges=(self.folder / "edges").with_suffix(self.suffix),
            nodes=(self.folder / "nodes").with_suffix(self.suffix),
            schema=self.folder / "schema.toml",
            label=self.label,
        )

    def load(self) -> PrivateGraph:
        """Write the files and load them."""
        self.write()
        return self.read()


@pytest.fixture(params=[".csv", ".parquet"])
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> Tables:
    return Tables(folder=tmp_path, nodes=NODES.copy(), edges=EDGES.copy(), suffix=request.param)


@pytest.fixture
def csv(tmp_path: Path) -> Tables:
    return Tables(folder=tmp_path, nodes=NODES.copy(), edges=EDGES.copy())


def cells(*values: str | None) -> pd.Series[Any]:
    return pd.Series(values, dtype=object)


def printed(build: Callable[[], object], kind: type[VeilgraphError]) -> str:
    """Return the text of an error with its traceback."""
    with pytest.raises(kind) as caught:
        build()
    assert "\n" not in str(caught.value)
    return "".join(traceback.format_exception(caught.value))


def of_nodes(**columns: Any) -> dict[str, Any]:
    return {"nodes": NODES.assign(**columns)}


def of_edges(*ends: str | None) -> dict[str, Any]:
    return {"edges": pd.DataFrame({"from": ["b", "b"], "to": ends})}


MANY_COLUMNS = pd.DataFrame(0, index=range(4), columns=[f"q{i}" for i in range(100)])


LABEL_AMONG_FEATURES = replace(TABLE_SCHEMA, columns=(*TABLE_SCHEMA.columns, Column(name="ill", values=("n", "y"))))


OF_AGE = "column 'age', row 2: outside the declared range 0..120 (value withheld)"


REFUSED: list[tuple[dict[str, Any], type[VeilgraphError], str]] = [
    (of_edges("c", "z"), GraphError, "edge table, row 2: unknown node 'z'; add it to the nodes"),
    (of_edges("c", None), GraphError, "edge table, row 2: an end is missing"),
    ({"edges": EDGES.iloc[:0]}, GraphError, "no edges"),
    ({"edges": EDGES[["from"]]}, GraphError, "has 1 column(s): the first two"),
    (of_nodes(ill=["n", "y", "secret", "y"]), DomainError, "column 'ill', row 3: not one of the declared classes"),
    (
        of_nodes(smoker=["no", "yes", "secret", "no"]),
        DomainError,
        "column 'smoker', row 3: not one of the 2 declared values (value withheld)",
    ),
    (of_nodes(smoker=["no", "yes ", "no", "no"]), DomainError, "row 2: "),
    (of_nodes(smoker=["no", "yes ", "no", "no"]), DomainError, "it begins or ends with a blank: remove it"),
    (of_nodes(smoker=["no", None, "yes", "no"]), DomainError, "column 'smoker', row 2"),
    *((of_nodes(age=[25.0, age, 50.0, 60.0]), DomainError, OF_AGE) for age in (-4077.0, 4077.0, 1e300)),
    (
        of_nodes(age=["25", "secret", "50", "60"]),
        DomainError,
        "not a number (value withheld); write it with the digits",
    ),
    (of_nodes(age=[25.0, 30.0, np.nan, 60.0]), DomainError, "column 'age', row 3: missing"),
    (of_nodes(id=["007", "b", "c", "c"]), GraphError, "row 4: the id 'c' occurs twice, first in row 3"),
    (of_nodes(id=["007", "b", None, "d"]), GraphError, "row 3: the id is missing"),
    (
        {"nodes": NODES.rename(columns={"id": "person"})},
        GraphError,
        "no column 'id', which names the nodes; its columns are person, age, smoker, visits, ill, unused",
    ),
    ({"nodes": MANY_COLUMNS}, GraphError, "q10, q11 and 88 more"),
    ({"label": "sick"}, GraphError, "no column 'sick', which was given as the label; its columns are id, age, smoker"),
    ({"nodes": NODES.drop(columns="smoker")}, SchemaError, "the table has no column 'smoker'"),
    ({"schema": LABEL_AMONG_FEATURES}, GraphError, "a label cannot be one"),
    (of_nodes(ill=["y", "y", None, "y"]), GraphError, "all labels are of one class"),
    (of_nodes(ill=cells(None, None, None, None)), GraphError, "no node has a label"),
    ({"nodes": NODES.iloc[:0]}, GraphError, "has no rows"),
]


def test_tables_that_do_not_fit_are_refused_by_row_without_quoting_a_value(tables: Tables) -> None:
    for changed, kind, message in REFUSED:
        said = printed(replace(tables, **changed).load, kind)
        assert message in said, message
        assert "secret" not in said, message
        assert "4077" not in said, message


def test_a_file_that_cannot_be_read_is_named_without_quoting_it(csv: Tables) -> None:
    csv.write()
    whole = {path: path.read_bytes() for path in csv.folder.iterdir()}
    for name, kind, message in (
        ("nodes.csv", GraphError, "nodes.csv cannot be read"),
        ("edges.csv", GraphError, "edges.csv cannot be read"),
        ("schema.toml", SchemaError, "schema.toml cannot be read as a schema"),
    ):
        (csv.folder / name).unlink()
        assert message in printed(csv.read, kind)
        (csv.folder / name).write_bytes(whole[csv.folder / name])
    for content in (b"", b'id,age\n"007,25\n', b"\xff\xfe\x00secret\x00"):
        (csv.folder / "nodes.csv").write_bytes(content)
        said = printed(csv.read, GraphError)
        assert "secret" not in said
        assert "007" not in said
    csv.folder.joinpath("nodes.xlsx").touch()
    assert "a table is .csv or .parquet" in printed(replace(csv, suffix=".xlsx").read, GraphError)


def test_tables_become_records_on_a_graph(tables: Tables) -> None:
    private = tables.load()
    assert private.name == "nodes"
    assert private.graph.node_ids == ("007", "b", "c", "d")
    assert private.graph.edges.tolist() == [[0, 1, 2], [1, 2, 3]]
    assert private.graph.dropped_duplicates == 1
    assert private.features.tolist() == [[0, 0, 0], [1, 1, 1], [2, 0, 1], [2, 1, 0]]
    assert private.labels.tolist() == [0, 1, 0, NO_LABEL]
    assert private.schema == TABLE_SCHEMA


def test_a_schema_is_given_as_a_file_or_as_a_value(csv: Tables) -> None:
    from_file = csv.load()
    edges, nodes = csv.folder / "edges.csv", csv.folder / "nodes.csv"
    from_value = from_tables(edges=edges, nodes=nodes, schema=TABLE_SCHEMA, label="ill")
    assert (from_value.schema, from_value.fingerprint) == (from_file.schema, from_file.fingerprint)
    label = replace(TABLE_SCHEMA, columns=(Column(name="ill", values=("n", "y")),))
    with pytest.raises(GraphError, match="'ill' is a feature in the schema: a label cannot be one"):
        from_tables(edges=edges, nodes=nodes, schema=label, label="ill")


def test_a_table_of_ids_and_labels_is_enough_for_a_schema_of_classes(tables: Tables) -> None:
    schema = FeatureSchema(classes=("n", "y"))
    labels = replace(tables, schema=schema, nodes=tables.nodes[["id", "ill"]]).load()
    wider = replace(tables, schema=schema).load()
    for private in (labels, wider):
        assert private.features.shape == (4, 0)
        assert private.labels.tolist() == [0, 1, 0, NO_LABEL]
    assert labels.fingerprint == wider.fingerprint  # other columns are not read


def test_ids_are_text_whatever_the_columns_hold(tables: Tables) -> None:
    nodes = tables.nodes.assign(id=[7, 8, 9, 10])
    edges = pd.DataFrame({"from": ["7", "8"], "to": ["8", "10"]})
    private = replace(tables, nodes=nodes, edges=edges).load()
    assert private.graph.node_ids == ("7", "8", "9", "10")
    assert private.graph.edges.tolist() == [[0, 1], [1, 3]]
    zeros = tables.nodes.assign(id=["7", "07", "007", "d"])
    edges = pd.DataFrame({"from": ["7", "007"], "to": ["07", "d"]})
    assert replace(tables, nodes=zeros, edges=edges).load().graph.edges.tolist() == [[0, 2], [1, 3]]


class ArrowOnly:
    """A frame of another library, such as polars: it hands its columns on as a stream of Arrow batches."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self.table: Any = arrow().Table.from_pandas(frame)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("frame", [pd.DataFrame, ArrowOnly])
def test_frames_are_read_as_files_are(frame: Callable[[pd.DataFrame], Any], csv: Tables) -> None:
    nodes, edges = csv.nodes.rename(columns={"age": " age "}), csv.edges.set_axis([0] * len(csv.edges))
    read = from_tables(edges=frame(edges), nodes=frame(nodes), schema=TABLE_SCHEMA, label="ill")
    assert read.fingerprint == csv.load().fingerprint
    graph = Graph.from_files(frame(edges), nodes=frame(nodes))
    assert (graph.names, graph.fingerprint) == (read.graph.names, read.graph.fingerprint)
    with pytest.raises(GraphError, match=r"the table has no column 'Ill', .*; did you mean ill\?"):
        from_tables(edges=frame(edges), nodes=frame(nodes), schema=TABLE_SCHEMA, label="Ill")
    with pytest.raises(GraphError, match="a table is of type dict: give the path"):
        from_tables(edges=edges, nodes=cast(Any, {"id": [1]}), schema=TABLE_SCHEMA, label="ill")


def test_a_block_of_binary_columns_is_merged_as_the_schema_says(tables: Tables) -> None:
    schema = FeatureSchema(columns=(Column(name="visits"), Column(name="flag")), classes=("n", "y"), group=2)
    private = replace(tables, schema=schema, nodes=tables.nodes.assign(flag=[1, 0, 1, 0])).load()
    assert private.features.tolist() == [[1], [1], [1], [0]]


def test_nothing_private_is_shown(tables: Tables) -> None:
    assert repr(tables.load()) == (
        "PrivateGraph('nodes', Graph(4 nodes, 3 edges, 0 isolated; dropped 0 self loops, 1 duplicate), "
        "3 features, <private>)"
    )


def test_an_edge_table_without_column_names_does_not_lose_its_first_edge(csv: Tables) -> None:
    csv.write()
    (csv.folder / "edges.csv").write_text("007,b\nb,c\nc,d\n", encoding="utf-8")
    assert "first line names two nodes" in printed(csv.read, GraphError)


@pytest.mark.parametrize("name", ["nodes.parquet", "edges.parquet"])
def test_a_truncated_file_is_refused_without_quoting_it(csv: Tables, name: str) -> None:
    tables = replace(csv, suffix=".parquet")
    tables.write()
    whole = (tables.folder / name).read_bytes()
    for length in (len(whole) - 1, len(whole) // 2, 4, 0):
        (tables.folder / name).write_bytes(whole[:length])
        message = printed(tables.read, GraphError)
        assert f"{name} is not a readable .parquet table" in message
        assert "007" not in message


def test_without_pandas_one_sentence_says_what_to_install(csv: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    csv.write()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r"needs pandas.*veilgraph\[server\]"):
        csv.read()


def test_public_features_are_not_asked_and_decide_the_fingerprint() -> None:
    private = csbm(60, seed=0)
    known = private.with_public_features()
    assert known.schema.num_features == 0
    assert known.public is not None
    encoded = known.public["x"].encoded()
    assert encoded.shape[0] == 60
    assert known.fingerprint != replace(known, public=None).fingerprint
    with pytest.raises(GraphError, match="csbm has no features that could be public"):
        known.with_public_features()
    with pytest.raises(GraphError, match="public columns have 3 rows: there are 60 nodes"):
        replace(known, public=known.public.select(np.arange(3)))
