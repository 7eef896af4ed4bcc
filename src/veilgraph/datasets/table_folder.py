"""A folder of tables as a data set: `nodes` and `edges`, in CSV or Parquet, and `schema.toml`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from veilgraph.datasets.private_graph import PrivateGraph, from_tables
from veilgraph.errors import GraphError
from veilgraph.graph import read_table
from veilgraph.privacy.schema import FeatureSchema

_SUFFIXES = (".csv", ".parquet")
_LABEL = "label"


@dataclass(frozen=True, kw_only=True)
class TableFolder:
    """The files of a data set in one folder.

    Attributes:
        edges: table whose first two columns hold the node ids of each edge.
        nodes: table with a column `id`, the columns of the schema and the label.
        schema: declared domains, .toml.
        label: name of the label column.
    """

    edges: Path
    nodes: Path
    schema: Path
    label: str

    @classmethod
    def find(cls, folder: Path) -> TableFolder:
        """Find the files of a folder; refuse one that lacks a file.

        The label is the column `label` of the nodes, or their only column that is neither `id` nor in the schema.
        """
        schema, nodes = folder / "schema.toml", _table(folder, "nodes")
        if not schema.is_file():
            raise GraphError(
                f"{folder} has no schema.toml, which declares the domains: write it, or draft it from public data with "
                f"'veilgraph review PUBLIC.csv --label {_LABEL} --out {schema}'"
            )
        return cls(edges=_table(folder, "edges"), nodes=nodes, schema=schema, label=_label(nodes, schema))

    def read(self) -> PrivateGraph:
        """Read the records and the graph; the folder names the data set."""
        private = from_tables(edges=self.edges, nodes=self.nodes, schema=self.schema, label=self.label)
        return replace(private, name=self.nodes.resolve().parent.name)


def _table(folder: Path, stem: str) -> Path:
    found = [path for suffix in _SUFFIXES if (path := folder / f"{stem}{suffix}").is_file()]
    if len(found) == 1:
        return found[0]
    names = f"{stem}.csv and {stem}.parquet"
    if found:
        raise GraphError(f"{folder} has both {names}: keep one of them")
    raise GraphError(f"{folder} is no data set: it has neither {names.replace(' and', ' nor')}")


def _label(nodes: Path, schema: Path) -> str:
    declared = FeatureSchema.load(schema)
    known = {"id", *(column.name for column in declared.columns), *(column.name for column in declared.public)}
    others = [str(name) for name in read_table(nodes).columns if name not in known]
    if _LABEL in others:
        return _LABEL
    if len(others) == 1:
        return others[0]
    raise GraphError(
        f"{nodes} has {len(others)} columns that could be the label: call one '{_LABEL}', "
        "or name the files and the label one by one"
    )
