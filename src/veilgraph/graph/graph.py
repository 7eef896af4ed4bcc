"""The public graph."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilgraph.errors import GraphError
from veilgraph.graph.counters import mix
from veilgraph.graph.io import TableSource, ids_of, links_of, name_of, read_ids, read_table
from veilgraph.graph.links import Links, known_of_links

if TYPE_CHECKING:
    import pandas as pd


class GraphSize(Protocol):
    """Anything that has as many nodes and edges as a graph."""

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""

    @property
    def num_edges(self) -> int:
        """Number of undirected edges."""


class Holding(Enum):
    """How a process holds a graph; the operators of a fit follow from it."""

    WHOLE = "the whole graph, from tables"
    SHARDS = "the whole graph, from shards: random draws come from counters of nodes"
    PART = "one part of a graph that several processes share"


class Adjacency(NamedTuple):
    """Neighbour lists in compressed sparse rows (CSR); 32-bit indices where they suffice.

    Attributes:
        starts: `[nodes + 1]`, where each node's list starts in `neighbours`.
        neighbours: `[2 edges]`, the lists of node 0, node 1 and so on, each sorted.
    """

    starts: NDArray[np.signedinteger[Any]]
    neighbours: NDArray[np.signedinteger[Any]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Graph:
    """A public graph: undirected and simple, with what is known about its links beside that.

    Attributes:
        num_nodes: number of nodes, n.
        edges: int64 `[2, edges]`, each edge once with u < v, sorted.
        node_ids: ids of the nodes if the graph was read from a table.
        dropped_self_loops: number of self loops in the input.
        dropped_duplicates: number of repeated edges in the input, in either direction.
        links: weights, directions and kinds; None where all links are alike. `edges` join the ends of any of them.
        holding: how this process holds the graph.

    >>> Graph.from_edges([[0, 1, 1, 2], [1, 0, 1, 1]], num_nodes=4)
    Graph(4 nodes, 2 edges, 1 isolated; dropped 1 self loop, 1 duplicate)
    """

    holding: ClassVar[Holding] = Holding.WHOLE

    num_nodes: int
    edges: NDArray[np.int64] = field(repr=False)
    node_ids: tuple[Hashable, ...] | None = field(default=None, repr=False)
    dropped_self_loops: int = 0
    dropped_duplicates: int = 0
    links: Links | None = field(default=None, repr=False)

    @classmethod
    def from_edges(
        cls,
        edges: ArrayLike,
        num_nodes: int,
        *,
        node_ids: Sequence[Hashable] | None = None,
        weights: ArrayLike | None = None,
        directed: ArrayLike = False,
        kinds: Sequence[str] | None = None,
    ) -> Graph:
        """Build a graph from `[2, edges]` node numbers, in any order and direction.

        Args:
            edges: numbers of the end nodes, `[2, edges]`.
            num_nodes: number of nodes.
            node_ids: ids of the nodes, `[nodes]`.
            weights: how strong each link is, above 0, `[edges]`; default: all are alike.
            directed: whether links go from the first row of `edges` to the second, `[edges]` or one answer for all.
            kinds: name of each link's kind, `[edges]`; default: all are of one kind.
        """
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
            links=Links.of(pairs, weights=weights, directed=directed, kinds=kinds),
        )

    @classmethod
    def without_edges(cls, num_nodes: int, *, node_ids: Sequence[Hashable] | None = None) -> Graph:
        """Return the people of a collection whose neighbours are private: nodes, and no edge.

        >>> Graph.without_edges(3)
        Graph(3 nodes, 0 edges, 3 isolated)
        """
        ids = None if node_ids is None else tuple(node_ids)
        return cls(num_nodes=num_nodes, edges=np.empty((2, 0), dtype=np.int64), node_ids=ids)

    @classmethod
    def from_data(cls, data: Any, *, directed: bool = False) -> Graph:
        """Build a graph from the edges of a `torch_geometric.data.Data`; its features and labels are not read.

        Args:
            data: graph with an `edge_index`, and perhaps an `edge_weight` and an `edge_type`, `[edges]` each.
            directed: whether its edges have a direction; otherwise both directions of an edge are one.
        """
        known = {"weights": getattr(data, "edge_weight", None), "kinds": getattr(data, "edge_type", None)}
        found = {name: cells.cpu().numpy() for name, cells in known.items() if cells is not None}
        return cls.from_edges(data.edge_index.cpu().numpy(), int(data.num_nodes), directed=directed, **found)

    @classmethod
    def from_networkx(cls, graph: Any) -> Graph:
        """Build a graph from the nodes and edges of a `networkx` graph. Links of a `DiGraph` have a direction.

        Nodes keep their order and become the ids. Of attributes, `weight` and `kind` of edges are read.
        """
        number_of = {node: number for number, node in enumerate(graph.nodes)}
        pairs = [(number_of[first], number_of[second]) for first, second in graph.edges()]
        edges = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        known = {name: [data.get(name) for *_, data in graph.edges(data=True)] for name in ("weight", "kind")}
        weights, kinds = (cells if any(cell is not None for cell in cells) else None for cells in known.values())
        return cls.from_edges(
            edges, len(number_of), node_ids=list(number_of), weights=weights, kinds=kinds, directed=graph.is_directed()
        )

    def to_frame(self) -> pd.DataFrame:
        """Return the edges as a table with columns `source` and `target`, one row for each edge.

        A graph with `links` has one row for each link, with what is known about it as `from_table` reads it.

        >>> Graph.from_edges([[1], [0]], num_nodes=2, node_ids=["a", "b"]).to_frame().to_numpy().tolist()
        [['a', 'b']]
        """
        import pandas as pd

        ids = np.array(self.names if self.node_ids is None else self.node_ids, dtype=object)
        (sources, targets), known = (self.edges, {}) if self.links is None else (self.links.ends, self.links.columns())
        return pd.DataFrame({"source": ids[sources], "target": ids[targets], **known})

    @classmethod
    def from_table(cls, table: pd.DataFrame, *, nodes: Sequence[Hashable] | None = None) -> Graph:
        """Build a graph from a table whose first two columns are the end nodes of edges, as ids of any kind.

        Further columns `weight` (a number above 0), `directed` (yes or no) and `kind` (a text) become its `links`.

        Args:
            table: one row for each edge.
            nodes: ids of all nodes, in order; default: the nodes that have an edge.
        """
        if table.shape[1] < 2:
            raise GraphError(f"the edge table has {table.shape[1]} column(s): its first two must name the ends")
        ends = table.iloc[:, :2].to_numpy(dtype=object)
        missing = table.iloc[:, :2].isna().to_numpy().any(axis=1)
        if missing.any():
            raise GraphError(
                f"edge table, row {int(missing.argmax()) + 1}: an end is missing; complete it or leave it out"
            )
        ids = list(dict.fromkeys(nodes if nodes is not None else ends.ravel().tolist()))
        if nodes is not None and len(ids) < len(nodes):
            raise GraphError("a node id occurs twice: ids must be unique")
        if nodes is not None and set(table.columns[:2]) <= set(ids):
            # The table has no header: its first edge was read as column names and would be lost silently.
            raise GraphError("the edge table's first line names two nodes; put a line with column names above it")
        for row, pair in enumerate(ends, start=1):
            if any(isinstance(end, str) and end != end.strip() for end in pair):
                raise GraphError(f"edge table, row {row}: an id begins or ends with a blank; remove it")
        number_of = {node: number for number, node in enumerate(ids)}
        numbers = np.array([number_of.get(node, -1) for node in ends.ravel()], dtype=np.int64).reshape(-1, 2)
        if (numbers < 0).any():
            row, end = np.argwhere(numbers < 0)[0]
            raise GraphError(f"edge table, row {row + 1}: unknown node '{ends[row, end]}'; add it to the nodes")
        return cls.from_edges(numbers.T, len(ids), node_ids=ids, **known_of_links(table.iloc[:, 2:]))

    @classmethod
    def from_files(cls, edges: TableSource, *, nodes: TableSource | None = None) -> Graph:
        """Read a graph from CSV or Parquet files, or from frames. Ids are text, so that 007 stays 007.

        Args:
            edges: table as `from_table` reads it. A table with the column `id` alone has the people of a collection
                whose neighbours are private: nodes, and no edge.
            nodes: table with a column `id`, one row for each node; default: the nodes that have an edge.
        """
        table = read_table(edges)
        if list(table.columns) == ["id"]:
            if nodes is not None:
                raise GraphError(f"{name_of(edges)} has nodes and no edges: leave the node table out")
            ids = ids_of(table, edges)
            return cls.without_edges(len(ids), node_ids=ids)
        return cls.from_table(links_of(table, edges), nodes=None if nodes is None else read_ids(nodes))

    def reordered(self, first: Sequence[str]) -> Graph:
        """Return the graph with some nodes in another order.

        Args:
            first: names of the nodes to put first, in this order; names of other nodes are ignored. The remaining
                nodes follow in the order that they have.

        >>> Graph.from_edges([[0, 1], [1, 2]], 3, node_ids=["a", "b", "c"]).reordered(["c", "gone", "b"]).names
        ('c', 'b', 'a')
        """
        known = set(self.names)
        names = list(dict.fromkeys([*(name for name in first if name in known), *self.names]))
        if not self.num_edges:
            return Graph.without_edges(len(names), node_ids=names)
        number_of = {name: number for number, name in enumerate(names)}
        return self if names == list(self.names) else self.renumbered([number_of[name] for name in self.names], names)

    def renumbered(self, numbers: ArrayLike, node_ids: Sequence[Hashable] | None, num_nodes: int = 0) -> Graph:
        """Return the graph with other numbers of its nodes, without the nodes whose number is -1.

        Args:
            numbers: new number of each node, `[nodes]`.
            node_ids: ids of the nodes in their new order.
            num_nodes: how many nodes there are, where they have no ids.
        """
        places = np.asarray(numbers)
        inside = (places[self.edges] >= 0).all(axis=0)
        found = Graph.from_edges(places[self.edges[:, inside]], len(node_ids or ()) or num_nodes, node_ids=node_ids)
        return found if self.links is None else replace(found, links=self.links.renumbered(places))

    @property
    def names(self) -> tuple[str, ...]:
        """Ids of all nodes as text, in order; node numbers if the graph has no ids."""
        return tuple(map(str, self.node_ids if self.node_ids is not None else range(self.num_nodes)))

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the sorted node ids, edges and `links`; independent of the order in which they were read.

        >>> one = Graph.from_edges([[0, 1], [1, 2]], 3, node_ids=["a", "b", "c"])
        >>> other = Graph.from_edges([[2, 1], [1, 0]], 3, node_ids=["c", "b", "a"])
        >>> one.fingerprint == other.fingerprint
        True
        """
        names = self.names
        known = sorted(set(names))
        rank_of = {name: rank for rank, name in enumerate(known)}
        ends = np.sort(np.array([rank_of[name] for name in names])[self.edges], axis=0)
        # Pairs of names are in the order of the pairs of their ranks.
        low, high = np.divmod(np.sort(ends[0] * len(known) + ends[1]), len(known))
        texts = [json.dumps(name) for name in known]
        edges = ",".join(f"[{texts[u]},{texts[v]}]" for u, v in zip(low.tolist(), high.tolist(), strict=True))
        nodes = ",".join(json.dumps(name) for name in sorted(names))
        links = "" if self.links is None else f',"links":{json.dumps(self.links.stated(names))}'
        content = f'{{"edges":[{edges}]{links},"nodes":[{nodes}]}}'  # canonical JSON of the lists
        return hashlib.sha256(content.encode()).hexdigest()

    @cached_property
    def keys(self) -> NDArray[np.uint64]:
        """Key of each node, `[nodes]`: a 64-bit hash of its id, or of its number if the graph has no ids.

        >>> first, second = (Graph.without_edges(2, node_ids=ids).keys.tolist() for ids in ("ab", "ba"))
        >>> first == second[::-1]
        True
        """
        if self.node_ids is None:
            return mix(np.arange(self.num_nodes, dtype=np.uint64))
        import pandas as pd

        return np.asarray(pd.util.hash_array(np.array(self.names, dtype=object), categorize=False), dtype=np.uint64)

    @property
    def num_edges(self) -> int:
        """Number of undirected edges."""
        return int(self.edges.shape[1])

    @property
    def counted_nodes(self) -> NDArray[np.int64] | None:
        """Numbers of the nodes from which random draws are computed, `[nodes]`; None where a generator draws them."""
        return None

    @cached_property
    def degrees(self) -> NDArray[np.int64]:
        """Number of neighbours of each node, `[nodes]`, computed once."""
        return np.bincount(self.edges.ravel(), minlength=self.num_nodes)

    @property
    def edge_weights(self) -> NDArray[np.float64] | None:
        """Weights of the edges, `[edges]`, where the graph is one of weighted edges; see `WeightedGraph`."""
        return None

    @property
    def strengths(self) -> NDArray[np.number[Any]]:
        """Sum of the weights of each node's edges, `[nodes]`: its degree, where edges have no weights."""
        return self.degrees

    @cached_property
    def adjacency(self) -> Adjacency:
        """Neighbours of every node, computed once.

        >>> starts, neighbours = Graph.from_edges([[0, 1], [1, 2]], num_nodes=3).adjacency
        >>> starts.tolist(), neighbours.tolist()
        ([0, 1, 3, 4], [1, 0, 2, 1])
        """
        from scipy.sparse import csr_array  # slow to import, and a device needs no adjacency

        sources, targets = self.edges  # sorted, so they are the upper triangle in CSR order
        index = np.int32 if max(2 * self.num_edges, self.num_nodes) < 2**31 else np.int64
        starts = np.zeros(self.num_nodes + 1, dtype=index)
        np.cumsum(np.bincount(sources, minlength=self.num_nodes), out=starts[1:])
        entries = np.ones(self.num_edges, dtype=np.int8), targets.astype(index), starts
        upper = csr_array(entries, shape=(self.num_nodes, self.num_nodes))
        both = upper + upper.T.tocsr()
        return Adjacency(both.indptr, both.indices)

    @property
    def edge_index(self) -> NDArray[np.int64]:
        """Both directions of every edge, `[2, 2 edges]`: the format of GNN layers."""
        return np.concatenate([self.edges, self.edges[::-1]], axis=1)

    def __repr__(self) -> str:
        isolated = int((self.degrees == 0).sum())
        loops, twice = self.dropped_self_loops, self.dropped_duplicates
        dropped = f"; dropped {_count(loops, 'self loop')}, {_count(twice, 'duplicate')}" if loops or twice else ""
        return f"Graph({self.num_nodes} nodes, {self.num_edges} edges, {isolated} isolated{dropped})"


def _sorted_keys(pairs: NDArray[np.integer[Any]], num_nodes: int) -> NDArray[np.int64]:
    """Return the sorted keys u n + v, u < v, of all edges but self loops. In place, to save memory on large graphs."""
    keys: NDArray[np.int64] = np.minimum(pairs[0], pairs[1]).astype(np.int64, copy=False)
    keys *= num_nodes
    keys += np.maximum(pairs[0], pairs[1]).astype(np.int64, copy=False)
    keys = keys[pairs[0] != pairs[1]]
    keys.sort()
    return keys


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
