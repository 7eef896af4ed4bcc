"""The public graph, what was reported on it, and which reports play which part."""

from __future__ import annotations

import hashlib
import importlib
import json
import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from veilgraph.errors import GraphError, MissingExtraError
from veilgraph.privacy.accounting import Guarantee, guarantee_of
from veilgraph.privacy.mechanisms import GRR, Mechanism
from veilgraph.privacy.schema import FeatureSchema

if TYPE_CHECKING:
    import pandas as pd


class Adjacency(NamedTuple):
    """Who is next to whom, in compressed rows; 32-bit numbers where they suffice.

    Attributes:
        starts: where each node's neighbours start in `neighbours`; one more entry than nodes.
        neighbours: of node 0, of node 1 and so on, each list sorted.
    """

    starts: NDArray[np.signedinteger[Any]]
    neighbours: NDArray[np.signedinteger[Any]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Graph:
    """An undirected simple graph. It is public: the server knows all of it.

    Attributes:
        num_nodes: n.
        edges: int64 [2, E], each edge once with u < v, sorted.
        node_ids: the names of the nodes where the graph came from a table.
        dropped_self_loops: how many self loops were left out.
        dropped_duplicates: how many repeated edges were left out (either direction).

    >>> Graph.from_edges([[0, 1, 1, 2], [1, 0, 1, 1]], num_nodes=4)
    Graph(4 nodes, 2 edges, 1 isolated; dropped 1 self loop, 1 duplicate)
    """

    num_nodes: int
    edges: NDArray[np.int64] = field(repr=False)
    node_ids: tuple[Hashable, ...] | None = field(default=None, repr=False)
    dropped_self_loops: int = 0
    dropped_duplicates: int = 0

    @classmethod
    def from_edges(cls, edges: ArrayLike, num_nodes: int, *, node_ids: Sequence[Hashable] | None = None) -> Graph:
        """From two rows of node numbers, in any order and direction."""
        pairs = np.asarray(edges)
        if node_ids is not None and len(node_ids) != num_nodes:
            raise GraphError(f"{len(node_ids)} node ids for {num_nodes} nodes: give one each")
        if num_nodes < 1:
            raise GraphError(f"the graph has {num_nodes} nodes: it needs at least 1")
        if pairs.size == 0:
            raise GraphError("the graph has no edges: there is no neighbourhood to reconstruct anything from")
        if pairs.ndim != 2 or pairs.shape[0] != 2 or not np.issubdtype(pairs.dtype, np.integer):
            raise GraphError(f"edges have shape {pairs.shape} and type {pairs.dtype}: give two rows of integers")
        if pairs.min() < 0 or pairs.max() >= num_nodes:
            node = int(pairs[(pairs < 0) | (pairs >= num_nodes)][0])
            raise GraphError(f"an edge names node {node}, but nodes are 0..{num_nodes - 1}")
        keys = _sorted_keys(pairs, num_nodes)
        first = np.ones(len(keys), dtype=np.bool_)
        np.not_equal(keys[1:], keys[:-1], out=first[1:])
        proper, keys = len(keys), keys[first]
        if keys.size == 0:
            raise GraphError("the graph has self loops only: it needs an edge between two nodes")
        ordered = np.empty((2, len(keys)), dtype=np.int64)
        np.divmod(keys, num_nodes, out=(ordered[0], ordered[1]))
        return cls(
            num_nodes=num_nodes,
            edges=ordered,
            node_ids=None if node_ids is None else tuple(node_ids),
            dropped_self_loops=pairs.shape[1] - proper,
            dropped_duplicates=proper - keys.size,
        )

    @classmethod
    def from_data(cls, data: Any) -> Graph:
        """From a `torch_geometric.data.Data`; only its structure is taken."""
        return cls.from_edges(data.edge_index.cpu().numpy(), int(data.num_nodes))

    @classmethod
    def from_table(cls, table: pd.DataFrame, *, nodes: Sequence[Hashable] | None = None) -> Graph:
        """From a table whose first two columns name the ends of edges, by ids of any kind.

        Args:
            table: the edges.
            nodes: every node's id, in order; without it, the nodes are those that have an edge.
        """
        if table.shape[1] < 2:
            raise GraphError(f"the edge table has {table.shape[1]} column(s): its first two must name the ends")
        ends = table.iloc[:, :2].to_numpy(dtype=object)
        missing = table.iloc[:, :2].isna().to_numpy().any(axis=1)
        if missing.any():
            raise GraphError(f"edge table, row {int(missing.argmax())}: an end is missing; complete it or leave it out")
        ids = list(dict.fromkeys(nodes if nodes is not None else ends.ravel().tolist()))
        if nodes is not None and len(ids) < len(nodes):
            raise GraphError("a node id occurs twice: ids must be unique")
        if nodes is not None and set(table.columns[:2]) <= set(ids):
            # Taken for column names, an edge would be lost without a word.
            raise GraphError("the edge table's first line names two nodes; put a line with column names above it")
        number_of = {node: number for number, node in enumerate(ids)}
        numbers = np.array([number_of.get(node, -1) for node in ends.ravel()], dtype=np.int64).reshape(-1, 2)
        if (numbers < 0).any():
            row, end = np.argwhere(numbers < 0)[0]
            raise GraphError(f"edge table, row {row}: unknown node '{ends[row, end]}'; add it to the nodes")
        return cls.from_edges(numbers.T, len(ids), node_ids=ids)

    @classmethod
    def from_files(cls, edges: str | Path, *, nodes: str | Path | None = None) -> Graph:
        """From CSV or Parquet tables; ids are text, so that 007 stays 007.

        Args:
            edges: a table whose first two columns name the ends of edges.
            nodes: a table with a column `id`, one row per node; without it, the nodes are those that have an edge.
        """
        links = read_table(edges).iloc[:, :2]
        links = links.where(links.isna(), links.map(str))
        return cls.from_table(links, nodes=None if nodes is None else read_ids(nodes))

    @property
    def names(self) -> tuple[str, ...]:
        """Every node's id as text, in order; its number where it has none."""
        return tuple(map(str, self.node_ids if self.node_ids is not None else range(self.num_nodes)))

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the sorted node ids and edges, whatever order they were read in.

        >>> one = Graph.from_edges([[0, 1], [1, 2]], 3, node_ids=["a", "b", "c"])
        >>> other = Graph.from_edges([[2, 1], [1, 0]], 3, node_ids=["c", "b", "a"])
        >>> one.fingerprint == other.fingerprint
        True
        """
        names = self.names
        edges = sorted(sorted((names[u], names[v])) for u, v in self.edges.T.tolist())
        content = json.dumps({"edges": edges, "nodes": sorted(names)}, separators=(",", ":"), sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()

    @property
    def num_edges(self) -> int:
        """The number of undirected edges, E."""
        return int(self.edges.shape[1])

    @property
    def degrees(self) -> NDArray[np.int64]:
        """Number of neighbours of each node."""
        return np.bincount(self.edges.ravel(), minlength=self.num_nodes)

    @cached_property
    def adjacency(self) -> Adjacency:
        """The neighbours of every node, made once: all that matrices and clusters need of the graph.

        >>> starts, neighbours = Graph.from_edges([[0, 1], [1, 2]], num_nodes=3).adjacency
        >>> starts.tolist(), neighbours.tolist()
        ([0, 1, 3, 4], [1, 0, 2, 1])
        """
        sources, targets = self.edges  # sorted: the upper triangle in compressed rows
        index = np.int32 if max(2 * self.num_edges, self.num_nodes) < 2**31 else np.int64
        starts = np.zeros(self.num_nodes + 1, dtype=index)
        np.cumsum(np.bincount(sources, minlength=self.num_nodes), out=starts[1:])
        entries = np.ones(self.num_edges, dtype=np.int8), targets.astype(index), starts
        upper = csr_array(entries, shape=(self.num_nodes, self.num_nodes))
        both = upper + upper.T.tocsr()
        return Adjacency(both.indptr, both.indices)

    @property
    def edge_index(self) -> NDArray[np.int64]:
        """Both directions of every edge, as GNN layers want them."""
        return np.concatenate([self.edges, self.edges[::-1]], axis=1)

    def __repr__(self) -> str:
        isolated = int((self.degrees == 0).sum())
        loops, twice = self.dropped_self_loops, self.dropped_duplicates
        dropped = f"; dropped {_count(loops, 'self loop')}, {_count(twice, 'duplicate')}" if loops or twice else ""
        return f"Graph({self.num_nodes} nodes, {self.num_edges} edges, {isolated} isolated{dropped})"


@dataclass(frozen=True, kw_only=True, eq=False)
class PerturbedGraph:
    """The public graph and the reports: everything that the server ever knows.

    A node may send no features, no label, or nothing: the masks say so, and nothing is invented for it.

    Attributes:
        graph: the public graph.
        schema: what was asked.
        features: x', one row per node as the feature mechanism reports it.
        labels: y', a class code per node.
        has_features: which rows of `features` are reports.
        has_label: which entries of `labels` are reports.
        feature_mechanism: how features were randomized.
        label_mechanism: how labels were randomized.
    """

    graph: Graph
    schema: FeatureSchema
    features: NDArray[Any] = field(repr=False)
    labels: NDArray[np.int64] = field(repr=False)
    has_features: NDArray[np.bool_] = field(repr=False)
    has_label: NDArray[np.bool_] = field(repr=False)
    feature_mechanism: Mechanism
    label_mechanism: GRR

    def __post_init__(self) -> None:
        nodes, features = self.graph.num_nodes, self.schema.num_features
        expected = {
            "features": (nodes, features),
            "labels": (nodes,),
            "has_features": (nodes,),
            "has_label": (nodes,),
        }
        for name, shape in expected.items():
            if (found := getattr(self, name).shape) != shape:
                raise GraphError(f"{name} has shape {found}: {nodes} nodes and {features} features need {shape}")
        if self.feature_mechanism.num_features != features:
            raise GraphError(
                f"the feature mechanism is for {self.feature_mechanism.num_features} features, "
                f"the schema has {features}"
            )
        if self.label_mechanism.domain_size != self.schema.num_classes:
            raise GraphError(
                f"the label mechanism is for {self.label_mechanism.domain_size} classes, "
                f"the schema has {self.schema.num_classes}"
            )
        reported = self.labels[self.has_label]
        if ((reported < 0) | (reported >= self.schema.num_classes)).any():
            raise GraphError(f"a reported label is outside 0..{self.schema.num_classes - 1}")

    def __repr__(self) -> str:
        reports = f"{int(self.has_features.sum())} feature reports, {int(self.has_label.sum())} label reports"
        return f"PerturbedGraph({self.graph}, {reports}, {self.feature_mechanism!r}, {self.label_mechanism!r})"

    @property
    def guarantee(self) -> Guarantee:
        """What a whole report reveals at most."""
        return guarantee_of(self.feature_mechanism, self.label_mechanism)


@dataclass(frozen=True, kw_only=True, eq=False)
class Split:
    """Which nodes train, which select, and which are predicted only.

    Labels of train and validation nodes are reported (randomized); test nodes report none.

    >>> split = Split.random(100, seed=0)
    >>> split
    Split(50 train, 25 validation, 25 test)
    """

    train: NDArray[np.bool_]
    validation: NDArray[np.bool_]
    test: NDArray[np.bool_]

    def __post_init__(self) -> None:
        if not self.train.shape == self.validation.shape == self.test.shape:
            raise GraphError(
                f"split masks differ in shape: {self.train.shape}, {self.validation.shape}, {self.test.shape}"
            )
        if (self.train.astype(int) + self.validation + self.test > 1).any():
            raise GraphError("a node is in two parts of the split")

    @classmethod
    def random(
        cls,
        num_nodes: int,
        *,
        seed: int,
        train: float = 0.5,
        validation: float = 0.25,
        eligible: NDArray[np.bool_] | None = None,
    ) -> Split:
        """Nodes at random, as the paper splits them; nodes that are not eligible are in no part."""
        if not (train > 0 and validation > 0 and train + validation <= 1):
            raise GraphError(f"shares are {train} and {validation}: both above 0, together at most 1")
        if eligible is not None and eligible.shape != (num_nodes,):
            raise GraphError(f"eligible has shape {eligible.shape}: {num_nodes} nodes need ({num_nodes},)")
        candidates = np.arange(num_nodes) if eligible is None else np.flatnonzero(eligible)
        order = np.random.default_rng(seed).permutation(candidates)
        ends = np.rint(np.array([train, train + validation]) * len(order)).astype(int)
        parts = (_mask(part, num_nodes) for part in np.split(order, ends))
        return cls(**dict(zip(("train", "validation", "test"), parts, strict=True)))

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """V^L: nodes whose label is reported."""
        return self.train | self.validation

    def __repr__(self) -> str:
        counts = [int(mask.sum()) for mask in (self.train, self.validation, self.test)]
        return "Split({} train, {} validation, {} test)".format(*counts)


def read_table(path: str | Path) -> pd.DataFrame:
    """A CSV or Parquet file as a table; what cannot be read is refused without quoting its content.

    Everything in a CSV file is read as text, so that the id 007 stays 007; only an empty field is missing.
    """
    try:
        pandas = importlib.import_module("pandas")
        importlib.import_module("pyarrow")
    except ImportError as error:
        raise MissingExtraError(str(error.name), "server") from None
    path = Path(path)
    if path.suffix not in (".csv", ".parquet"):
        raise GraphError(f"{path}: a table is .csv or .parquet, not '{path.suffix}'")
    try:
        with path.open("rb") as file, warnings.catch_warnings():
            warnings.simplefilter("error", pandas.errors.ParserWarning)  # rows longer than the header
            table: pd.DataFrame = (
                pandas.read_csv(file, dtype=str, keep_default_na=False, na_values=[""], index_col=False)
                if path.suffix == ".csv"
                else pandas.read_parquet(file)
            )
    except OSError as error:
        raise GraphError(f"{path} cannot be read: {error.strerror or 'it is damaged'}") from None
    except (ValueError, pandas.errors.ParserWarning) as error:  # what pandas and pyarrow raise for a malformed file
        raise GraphError(f"{path} is not a readable {path.suffix} table ({type(error).__name__})") from None
    return table


def read_ids(path: str | Path) -> list[str]:
    """The column `id` of a node table, as text."""
    table = read_table(path)
    if "id" not in table:
        raise GraphError(f"{path} has no column 'id', which names the nodes")
    if table.empty:
        raise GraphError(f"{path} has no rows: it needs one for every node")
    missing = table["id"].isna().to_numpy()
    if missing.any():
        raise GraphError(f"{path}, row {int(missing.argmax())}: the id is missing; give every node one")
    return [str(node) for node in table["id"]]


def _sorted_keys(pairs: NDArray[np.integer[Any]], num_nodes: int) -> NDArray[np.int64]:
    """u n + v, u < v, of every edge that is no self loop; one array at a time, since edges may be many."""
    keys: NDArray[np.int64] = np.minimum(pairs[0], pairs[1]).astype(np.int64, copy=False)
    keys *= num_nodes
    keys += np.maximum(pairs[0], pairs[1]).astype(np.int64, copy=False)
    keys = keys[pairs[0] != pairs[1]]
    keys.sort()
    return keys


def _mask(nodes: NDArray[np.int64], num_nodes: int) -> NDArray[np.bool_]:
    mask = np.zeros(num_nodes, dtype=np.bool_)
    mask[nodes] = True
    return mask


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
