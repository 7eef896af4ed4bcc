"""A folder of shards: a graph, and reports of its nodes, as Parquet files that are read one at a time.

A node belongs to the shard of its key, a 64-bit hash of its id. Shard s of P holds the keys from s 2^64 / P on, in
ascending order. So every process can compute where a node is. The number of a node is its rank among all keys, whatever
the number of shards or processes.

```text
manifest.json          counts, type of the ids, SHA-256 of each file
nodes-00000.parquet    column id, sorted by key
edges-00000.parquet    columns source and target: each edge once, in the shard of its end with the lower key
reports-00000.parquet  columns node, features and label, if there are reports
```
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import GraphError
from veilgraph.graph.arrow import ArrowArray, ArrowTable, arrow, read_buffer
from veilgraph.graph.counters import mix
from veilgraph.graph.encoded_attributes import EncodedColumn
from veilgraph.graph.graph import Graph, Holding
from veilgraph.graph.io import TableSource
from veilgraph.graph.shard_manifest import IDS, REMEDY, read_manifest, shard_name
from veilgraph.graph.shard_public import columns_of_table

Result = TypeVar("Result")

MAX_PARTS = 256
"""Largest number of shards: the writer keeps two files open for each."""

_COLUMNS = {"nodes": ["id"], "edges": ["source", "target"], "reports": ["node"], "public": []}


def node_keys(ids: ArrowArray) -> NDArray[np.uint64]:
    """Return the key of each id, `[ids]`: a 64-bit hash that is the same on every machine.

    Whole numbers are mixed by a bijection (the finalizer of SplitMix64), so their keys are all different. Text is
    hashed by SipHash-2-4, as pandas has it.

    >>> import pyarrow
    >>> node_keys(pyarrow.array([0, 1])).tolist()
    [16294208416658607535, 10451216379200822465]
    """
    import pandas as pd

    pa = arrow()

    if pa.types.is_integer(ids.type):
        return mix(ids.to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64))
    texts = ids.to_numpy(zero_copy_only=False)
    return np.asarray(pd.util.hash_array(texts, categorize=False), dtype=np.uint64)


def shard_of(keys: NDArray[np.uint64], parts: int) -> NDArray[np.int64]:
    """Return the shard of each key, `[keys]`: floor(key parts / 2^64), from the upper 32 bits.

    >>> shard_of(np.array([0, 2**62, 2**63, 2**64 - 1], dtype=np.uint64), parts=4).tolist()
    [0, 1, 2, 3]
    """
    upper = keys >> np.uint64(32)
    return ((upper * np.uint64(parts)) >> np.uint64(32)).astype(np.int64)


def read_graph(path: TableSource, *, nodes: TableSource | None = None) -> Graph:
    """Read a graph from a folder of shards, or from tables as `Graph.from_files` does.

    Args:
        path: folder of shards, or table whose first two columns are the end nodes of edges.
        nodes: table with a column `id`, beside an edge table; a folder of shards holds its nodes.
    """
    if not isinstance(path, str | Path):
        return Graph.from_files(path, nodes=nodes)
    if not Path(path).is_dir():
        return Graph.from_files(check_graph_path(path), nodes=nodes)
    if nodes is not None:
        raise GraphError(f"{path} holds the nodes of its graph: leave the node table out")
    return ShardFolder.open(path).graph()


def check_graph_path(path: str | Path) -> Path:
    """Return the path of a graph; refuse one that does not exist and is not named as a table is.

    A table that does not exist is refused where it is read.
    """
    path = Path(path)
    if path.suffix not in (".csv", ".parquet") and not path.exists():
        raise GraphError(f"{path} does not exist: give an edge table, .csv or .parquet, or a folder of shards")
    return path


class KeyIndex:
    """Finds keys in sorted keys by a table of their leading bits.

    Keys are hashes, so that a table with an entry for each key leads to the place or close to it. On five million keys
    that takes a twentieth of the time of a binary search.

    Args:
        keys: sorted keys, `[keys]`.

    >>> KeyIndex(np.array([3, 5, 9], dtype=np.uint64)).find(np.array([9, 4, 3, 2**63], dtype=np.uint64)).tolist()
    [2, -1, 0, -1]
    """

    def __init__(self, keys: NDArray[np.uint64]) -> None:
        self._keys = keys
        self._low, self._high = (int(keys[0]), int(keys[-1])) if len(keys) else (1, 0)
        bits = max(1, len(keys).bit_length())
        self._shift = np.uint64(max(0, (self._high - self._low).bit_length() - bits)) if len(keys) else np.uint64(0)
        places = np.arange((max(self._high - self._low, 0) >> int(self._shift)) + 1, dtype=np.uint64) << self._shift
        self._firsts = (
            np.searchsorted(keys - np.uint64(self._low), places) if len(keys) else np.empty(0, dtype=np.int64)
        )

    def find(self, wanted: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the position of each key, in the shape of `wanted`; -1 where it is not there."""
        flat = wanted.ravel()
        found = np.full(len(flat), -1)
        within = (
            np.flatnonzero((flat >= self._low) & (flat <= self._high)) if len(self._keys) else np.empty(0, np.int64)
        )
        inside = flat[within]
        place = self._firsts[(inside - np.uint64(self._low)) >> self._shift]
        behind = np.flatnonzero(self._keys[place] < inside)
        while len(behind):  # the highest key is at least as large, so no place leaves the array
            place[behind] += 1
            behind = behind[self._keys[place[behind]] < inside[behind]]
        found[within] = np.where(self._keys[place] == inside, place, -1)
        return found.reshape(wanted.shape)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ShardGraph(Graph):
    """The whole graph of a shard folder, in one process.

    Fits on it draw from counters of nodes, so that they equal those of several processes.

    Attributes:
        identity: what a campaign on this graph is bound to; see `ShardFolder.identity`.
        read_names: reads the ids of the nodes, as text, which a fit does not need; None for numbers.
    """

    holding: ClassVar[Holding] = Holding.SHARDS

    identity: str
    read_names: Callable[[], tuple[str, ...]] | None = field(default=None, repr=False)

    @property
    def counted_nodes(self) -> NDArray[np.int64]:
        """Numbers of all nodes, `[nodes]`."""
        return np.arange(self.num_nodes)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Ids of all nodes as text, in order, read from the shards on first use."""
        return super().names if self.read_names is None else self.read_names()

    @property
    def fingerprint(self) -> str:
        """The identity that the manifest states: computing it again would take minutes on a large graph."""
        return self.identity


class NodeShard(NamedTuple):
    """The nodes of one shard.

    Attributes:
        ids: ids, in the order of the keys.
        keys: `[nodes]`, sorted.
    """

    ids: ArrowArray
    keys: NDArray[np.uint64]


@dataclass(frozen=True, kw_only=True, eq=False)
class ShardFolder:
    """A folder of shards whose manifest was read. Each shard is checked when it is read.

    Attributes:
        path: the folder.
        manifest: content of `manifest.json`.
    """

    path: Path
    manifest: Mapping[str, Any] = field(repr=False)

    @classmethod
    def open(cls, path: str | Path) -> ShardFolder:
        """Read the manifest; refuse a folder with files that are missing, truncated or not described by it.

        The totals of the manifest must be the sums over its shards: every process lays out its arrays by them.
        """
        return cls(path=Path(path), manifest=read_manifest(Path(path)))

    @property
    def parts(self) -> int:
        """Number of shards."""
        return len(self.manifest["shards"])

    @property
    def has_reports(self) -> bool:
        """Whether the folder has shards of reports."""
        return self.manifest["reports"] is not None

    @property
    def num_nodes(self) -> int:
        """Number of nodes of the whole graph."""
        return int(self.manifest["nodes"])

    @property
    def num_edges(self) -> int:
        """Number of edges of the whole graph."""
        return int(self.manifest["edges"])

    @property
    def identity(self) -> str:
        """Fingerprint of the graph; of a large graph, the SHA-256 of the digests of its shards."""
        return str(self.manifest["graph"])

    @property
    def digest(self) -> str:
        """SHA-256 of the manifest: it changes with any node, edge or report."""
        return hashlib.sha256(json.dumps(self.manifest, sort_keys=True).encode()).hexdigest()

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Number of the first node of each shard, and of all nodes, `[parts + 1]`."""
        return np.cumsum([0, *(shard["nodes"]["rows"] for shard in self.manifest["shards"])])

    def nodes(self, shard: int) -> NodeShard:
        """Read the nodes of a shard."""
        name = shard_name("nodes", shard)
        ids = self._read("nodes", shard).column("id").combine_chunks()
        keys = node_keys(ids)
        _check_place(self.path / name, keys, shard, self.parts)
        if (keys[1:] <= keys[:-1]).any():
            raise GraphError(f"{self.path / name} holds a node twice, or nodes out of order: {REMEDY}")
        return NodeShard(ids, keys)

    def edge_ids(self, shard: int) -> tuple[ArrowArray, ArrowArray]:
        """Read the ids of the ends of a shard's edges."""
        table = self._read("edges", shard)
        return table.column("source").combine_chunks(), table.column("target").combine_chunks()

    def edges(self, shard: int) -> NDArray[np.uint64]:
        """Read the keys of the ends of a shard's edges, `[2, edges]`."""
        keys = np.stack([node_keys(ids) for ids in self.edge_ids(shard)])
        _check_place(self.path / shard_name("edges", shard), keys[0], shard, self.parts)
        return keys

    def reports(self, shard: int) -> ArrowTable:
        """Read the reports of a shard's nodes: columns `node`, `features` and `label`, if it has any."""
        table = self._read("reports", shard)
        if (row := first_empty_report(table)) is not None:
            path = self.path / shard_name("reports", shard)
            raise GraphError(f"{path}, row {row + 1}: a report has neither features nor a label; {REMEDY}")
        return table

    @property
    def public_names(self) -> tuple[str, ...]:
        """Names of the public columns that the folder holds."""
        return tuple(each["name"] for each in self.manifest["public"] or ())

    def public(self, shard: int) -> list[EncodedColumn]:
        """Read the public columns of a shard's nodes."""
        table = self._read("public", shard)
        return columns_of_table(table, self.manifest["public"], self.path / shard_name("public", shard))

    def graph(self) -> ShardGraph:
        """Read the whole graph, several shards at once. Nodes are in the order of their keys."""
        index = KeyIndex(np.concatenate(self.each_shard(lambda shard: self.nodes(shard).keys)))
        edges = np.empty((2, self.num_edges), dtype=np.int64)
        starts = np.cumsum([0, *(shard["edges"]["rows"] for shard in self.manifest["shards"])])

        def fill(shard: int) -> bool:
            part = edges[:, starts[shard] : starts[shard + 1]]
            part[:] = self.positions(self.edges(shard), index, shard_name("edges", shard))
            return _is_sorted(part)

        ordered = all(self.each_shard(fill)) and _is_sorted(edges[:, _beside(starts[1:-1], self.num_edges)])
        if not ordered:  # other programs may write shards in another order
            edges = Graph.from_edges(edges, self.num_nodes).edges
        return ShardGraph(num_nodes=self.num_nodes, edges=edges, identity=self.identity, read_names=self.names)

    def names(self) -> tuple[str, ...]:
        """Read the ids of all nodes as text, in the order of their keys."""
        return tuple(str(each) for shard in range(self.parts) for each in self.nodes(shard).ids.to_pylist())

    def each_shard(self, read: Callable[[int], Result]) -> list[Result]:
        """Return what a function reads from each shard, in their order; a thread for each core calls it."""
        with ThreadPoolExecutor(min(self.parts, os.cpu_count() or 1)) as pool:
            return list(pool.map(read, range(self.parts)))

    def positions(self, wanted: NDArray[np.uint64], index: KeyIndex, name: str) -> NDArray[np.int64]:
        """Return the positions of keys among those of an index; refuse one that is not there.

        Args:
            wanted: keys to look up, of any shape.
            index: index of the keys of nodes.
            name: file that names the nodes, for the error.
        """
        found = index.find(wanted)
        if (found < 0).any():
            raise unknown_node(self.path / name)
        return found

    def _read(self, kind: str, shard: int) -> ArrowTable:
        pa = arrow()
        pq = arrow("parquet")

        path, stated = self.path / shard_name(kind, shard), self.manifest["shards"][shard][kind]
        content = read_buffer(path)
        if hashlib.sha256(content).hexdigest() != stated["sha256"]:
            raise GraphError(
                f"{path} is not the shard that the manifest describes, by its SHA-256 (changed, or a copy of another "
                f"shard): {REMEDY}"
            )
        try:
            table = pq.read_table(pa.BufferReader(content))
        except (pa.ArrowException, OSError) as error:
            raise GraphError(f"{path} is not a readable Parquet file ({type(error).__name__}): {REMEDY}") from None
        if table.num_rows != stated["rows"] or not set(_COLUMNS[kind]) <= set(table.column_names):
            raise GraphError(f"{path} has other rows or columns than the manifest says: {REMEDY}")
        for name in _COLUMNS[kind] if table.num_rows else ():
            self._check_ids(table.column(name), f"{path}, column '{name}'")
        return table

    def _check_ids(self, ids: Any, where: str) -> None:
        """Refuse a column with another type than the manifest states, or with a missing id."""
        pa = arrow()

        kind = ids.type.value_type if pa.types.is_dictionary(ids.type) else ids.type
        if not (pa.types.is_integer(kind) if self.manifest["ids"] == "integer" else is_text(kind)):
            stated = IDS[self.manifest["ids"]]
            raise GraphError(
                f"{where}: ids have type {ids.type}, and the manifest says that they are {stated}; {REMEDY}"
            )
        if ids.null_count:
            row = int(ids.is_null().to_numpy().argmax())
            raise GraphError(f"{where}, row {row + 1}: the id is missing; {REMEDY}")


def _check_place(path: Path, keys: NDArray[np.uint64], shard: int, parts: int) -> None:
    if (shard_of(keys, parts) != shard).any():
        raise GraphError(f"{path} holds nodes of another shard: {REMEDY}")


def _is_sorted(edges: NDArray[np.int64]) -> bool:
    """Tell whether edges are sorted and all different, each with u < v, without a copy of all of them."""
    low, high = edges
    ahead = low[1:] > low[:-1]
    ahead |= (low[1:] == low[:-1]) & (high[1:] > high[:-1])
    return bool(ahead.all() and (low < high).all())


def _beside(places: NDArray[np.int64], edges: int) -> NDArray[np.int64]:
    """Return the numbers of the edges before and after each place: where two shards meet."""
    return np.unique(np.concatenate([places - 1, places]).clip(0, max(edges - 1, 0)))[:edges]


def is_text(kind: Any) -> bool:
    """Tell whether an Arrow type is one of text.

    >>> import pyarrow
    >>> is_text(pyarrow.large_string()), is_text(pyarrow.float64())
    (True, False)
    """
    types = arrow().types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def first_empty_report(reports: ArrowTable) -> int | None:
    """Return the row of the first report with neither features nor a label; None if there is none.

    >>> import pyarrow
    >>> first_empty_report(pyarrow.table({"node": ["a", "b"], "label": [1, None]}))
    1
    """
    empty = np.ones(reports.num_rows, dtype=np.bool_)
    for name in {"features", "label"} & set(reports.column_names):
        empty &= reports.column(name).is_null().to_numpy()
    return int(empty.argmax()) if empty.any() else None


def unknown_node(path: Path) -> GraphError:
    """Return the error about an edge or a report in a file that names a node which no shard holds."""
    return GraphError(f"{path} names a node that no shard of nodes holds: {REMEDY}")
