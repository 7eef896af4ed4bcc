"""A private graph from a user's own tables, for a simulation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from veilgraph.datasets.private_graph import PrivateGraph
from veilgraph.errors import GraphError
from veilgraph.graph import Graph, read_table
from veilgraph.privacy.schema import FeatureSchema

if TYPE_CHECKING:
    import pandas as pd

_ID = "id"
_SHOWN = 12


def from_tables(*, edges: Path, nodes: Path, schema: Path, label: str) -> PrivateGraph:
    """Read records and graph from CSV or Parquet files, with domains from a declared schema.

    Ids are compared as text. A node may lack a label. An error message names the column and the row of a wrong
    value, never the value.

    Args:
        edges: table whose first two columns hold the two node ids of each edge.
        nodes: table with a column `id`, the columns of the schema and the label; its stem names the data set.
        schema: FeatureSchema in TOML.
        label: name of the label column.
    """
    declared = FeatureSchema.load(schema)
    if label in {column.name for column in declared.columns}:
        raise GraphError(f"'{label}' is a feature in {schema}: a label cannot be one; take it out of the schema")
    records = read_table(nodes)
    _require(records, _ID, nodes, "it names the nodes")
    _require(records, label, nodes, "it was given as the label")
    ids = _ids(records, nodes)
    links = read_table(edges).iloc[:, :2].map(str)
    return PrivateGraph(
        name=Path(nodes).stem,
        graph=Graph.from_table(links, nodes=ids),
        schema=declared,
        features=declared.encode(records),
        labels=declared.encode_labels(records[label], name=label),
    )


def _require(records: pd.DataFrame, column: str, path: Path, part: str) -> None:
    if column not in records:
        raise GraphError(f"{path} has no column '{column}' ({part}); its columns are {_listed(records)}")


def _listed(records: pd.DataFrame) -> str:
    names = [str(name) for name in records.columns]
    rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + rest


def _ids(records: pd.DataFrame, path: Path) -> list[str]:
    if records.empty:
        raise GraphError(f"{path} has no rows: it needs one for every node")
    missing = records[_ID].isna().to_numpy()
    if missing.any():
        raise GraphError(f"{path}, row {int(missing.argmax())}: the id is missing; give every node one")
    return [str(node) for node in records[_ID]]
