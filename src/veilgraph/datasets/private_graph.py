"""Private records on a public graph, made in memory or from a reader's own tables.

They exist in simulations only: a server never holds this type.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import GraphError
from veilgraph.graph import Graph, PublicAttributes, read_public, read_table
from veilgraph.graph.io import TableSource, ids_of, links_of, require_column
from veilgraph.privacy.mechanisms.base import check_codes
from veilgraph.privacy.public_columns import check_not_asked
from veilgraph.privacy.schema import NO_LABEL, FeatureSchema


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PrivateGraph:
    """A public graph and the private record of each of its nodes.

    Attributes:
        name: name of the data set.
        graph: public graph.
        schema: declared domains.
        features: feature codes, [nodes, features].
        labels: class codes, [nodes]; NO_LABEL where a node has no label.
        public: what the organiser knows about the nodes without asking; None if nothing.
    """

    name: str
    graph: Graph
    schema: FeatureSchema
    features: NDArray[Any]
    labels: NDArray[np.int64]
    public: PublicAttributes | None = None

    def __post_init__(self) -> None:
        nodes, width = self.graph.num_nodes, self.schema.num_features
        if self.features.shape != (nodes, width) or self.labels.shape != (nodes,):
            raise GraphError(
                f"{self.name}: records of shape {self.features.shape} and {self.labels.shape[0]} labels "
                f"do not fit {nodes} nodes with {width} features"
            )
        if self.public is not None and self.public.num_nodes != nodes:
            raise GraphError(f"{self.name}: public columns have {self.public.num_nodes} rows: there are {nodes} nodes")
        for i, (feature, size) in enumerate(zip(self.schema.feature_names, self.schema.domain_sizes, strict=True)):
            check_codes(self.features[:, i], size, feature=f"feature '{feature}'")
        known = self.labels != NO_LABEL
        check_codes(np.where(known, self.labels, 0), self.schema.num_classes, feature="label")
        if not known.any():
            raise GraphError(f"{self.name}: no node has a label; there is nothing to learn")
        if len(np.unique(self.labels[known])) < 2:
            raise GraphError(f"{self.name}: all labels are of one class; there is nothing to learn")

    @classmethod
    def from_data(cls, data: Any, schema: FeatureSchema, *, name: str = "data") -> PrivateGraph:
        """Encode the records of a `torch_geometric.data.Data`: `x` by the declared values or bins, `y` as class codes.

        Args:
            data: `edge_index`, `y` [nodes] and, if the schema has columns, `x` [nodes, columns]. A label of -1 is none.
            schema: declared domains, such as `FeatureSchema.binned` for numbers.
            name: name of the data set.
        """
        nodes, width = int(data.num_nodes), len(schema.columns)
        y, x = _dense(data, "y"), _dense(data, "x") if width else np.zeros((nodes, 0))
        if y.dtype.kind not in "biu":
            raise GraphError(f"y is of type {y.dtype}: give class codes as integers, and -1 for no label")
        if x.shape != (nodes, width):
            raise GraphError(f"x has shape {x.shape}: the schema declares {width} columns, and there are {nodes} nodes")
        columns = {column.name: x[:, place] for place, column in enumerate(schema.columns)}
        return cls(
            name=name,
            graph=Graph.from_data(data),
            schema=schema,
            features=schema.encode(columns) if width else x.astype(schema.code_dtype),
            labels=y.astype(np.int64),
        )

    @property
    def homophily(self) -> float:
        """Share of edges that join two nodes of one class, among edges with two labelled nodes.

        It is a statistic of private labels, for simulations only: no server can compute it.
        """
        first, second = self.graph.edges
        labels = self.labels.astype(np.int32)  # halves the memory of the labels of all edges
        low, high = labels[first], labels[second]
        labelled = (low != NO_LABEL) & (high != NO_LABEL)
        if not labelled.any():
            raise GraphError(f"{self.name}: no edge joins two labelled nodes; homophily is undefined")
        return float((low == high)[labelled].mean())

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the graph and all records; a stored run identifies its data by it."""
        digest = hashlib.sha256()
        public = () if self.public is None else self.public.contents()
        links = () if self.graph.links is None else self.graph.links.contents()
        for array in (self.graph.edges, self.features, self.labels, *public, *links):
            digest.update(np.ascontiguousarray(array).reshape(-1).data)
        return digest.hexdigest()

    def with_public_features(self) -> PrivateGraph:
        """Return the same people with features that everybody knows: they are public, and the label alone is asked."""
        if not self.schema.num_features:
            raise GraphError(f"{self.name} has no features that could be public")
        return replace(
            self,
            schema=self.schema.label_alone,
            features=self.features[:, :0],
            public=PublicAttributes.from_codes(self.features, self.schema.domain_sizes),
        )

    def __repr__(self) -> str:
        return f"PrivateGraph('{self.name}', {self.graph}, {self.schema.num_features} features, <private>)"


def _dense(data: Any, name: str) -> NDArray[Any]:
    """Return a tensor of PyG data as an array; refuse one that is missing or sparse."""
    tensor = getattr(data, name, None)
    if tensor is None:
        raise GraphError(f"the data has no '{name}': set it to a tensor with one row for each node")
    return np.asarray((tensor.to_dense() if getattr(tensor, "is_sparse", False) else tensor).cpu().numpy())


def from_tables(
    *, edges: TableSource, nodes: TableSource, schema: str | Path | FeatureSchema, label: str
) -> PrivateGraph:
    """Read records and graph from CSV or Parquet files, or from frames, with domains from a declared schema.

    Ids are compared as text. A node may lack a label. An error message names the column and the row of a wrong
    value, never the value.

    Args:
        edges: table whose first two columns hold the two node ids of each edge.
        nodes: table with a column `id`, the columns of the schema and the label; the stem of a file names the data.
        schema: declared domains: a FeatureSchema, or its file in TOML.
        label: name of the label column.
    """
    declared = schema if isinstance(schema, FeatureSchema) else FeatureSchema.load(schema)
    if label in {column.name for column in declared.columns}:
        where = "the schema" if isinstance(schema, FeatureSchema) else schema
        raise GraphError(f"'{label}' is a feature in {where}: a label cannot be one; take it out of the schema")
    records = read_table(nodes)
    require_column(records, label, nodes, "which was given as the label")
    ids = ids_of(records, nodes)
    check_not_asked([label], declared.public)
    graph = Graph.from_table(links_of(read_table(edges), edges), nodes=ids)
    return PrivateGraph(
        name=Path(nodes).stem if isinstance(nodes, str | Path) else "table",
        graph=graph,
        schema=declared,
        features=declared.encode(records),
        labels=declared.encode_labels(records[label], name=label),
        public=read_public(declared.public, nodes, graph),
    )
