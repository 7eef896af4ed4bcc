"""A graph partitioned over processes, with few edges between the parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import ReconstructionError
from veilgraph.graph.clustering import cluster
from veilgraph.graph.graph import Graph


@dataclass(frozen=True, kw_only=True, eq=False)
class ExtendedPart(Graph):
    """A part together with its halo. Halo nodes have further edges, which are not stored here."""

    global_degrees: NDArray[np.int64] = field(repr=False)

    @property
    def degrees(self) -> NDArray[np.int64]:
        """Degrees in the whole graph, `[nodes]`."""
        return self.global_degrees


@dataclass(frozen=True, kw_only=True, eq=False)
class GraphPart(Graph):
    """Some nodes of a graph with the edges between them, and their halo: their neighbours in other parts.

    Attributes:
        global_ids: `[nodes]`, numbers of the part's nodes in the whole graph, sorted.
        num_global_nodes: number of nodes of the whole graph.
        extended: the part's nodes and its halo in the order of the whole graph, with their degrees there.
        own_rows: `[nodes]`, positions of the part's nodes in `extended`.
        halo_rows: `[halo]`, positions of the halo in `extended`, in the order in which the other parts send it.
        receive_counts: number of rows that each part sends to this one.
        send_rows: positions of the nodes whose rows are sent: first to part 0, then to part 1 and so on.
        send_counts: number of rows that this part sends to each part.
        max_extended_nodes: size of the largest part of the partition, halo included.
        clusters: cluster of each node, `[nodes]`, for each number of clusters of the whole graph.
        counts_nodes: whether random draws come from counters of nodes, as on shards, and not from a stream.
    """

    global_ids: NDArray[np.int64] = field(repr=False)
    num_global_nodes: int
    extended: Graph = field(repr=False)
    own_rows: NDArray[np.int64] = field(repr=False)
    halo_rows: NDArray[np.int64] = field(repr=False)
    receive_counts: tuple[int, ...]
    send_rows: NDArray[np.int64] = field(repr=False)
    send_counts: tuple[int, ...]
    max_extended_nodes: int
    clusters: Mapping[int, NDArray[np.int64]] = field(repr=False)
    counts_nodes: bool = False

    @property
    def halo_size(self) -> int:
        """Number of rows that arrive in one halo exchange."""
        return len(self.halo_rows)


class Partition:
    """Partition of a graph by METIS into parts of about equally many nodes.

    A part is built when it is indexed, because it takes memory of its own and callers send one part after another.

    Args:
        graph: the public graph.
        num_parts: number of parts.
        num_clusters: numbers of clusters of the whole graph that the parts carry along.
        cluster: function that assigns each node of a graph to one of a number of parts.

    >>> path = Graph.from_edges([[0, 1, 2], [1, 2, 3]], num_nodes=4)
    >>> [(part.global_ids.tolist(), part.halo_size) for part in Partition(path, 2)]
    [([2, 3], 1), ([0, 1], 1)]
    """

    def __init__(
        self,
        graph: Graph,
        num_parts: int,
        *,
        num_clusters: Iterable[int] = (),
        cluster: Callable[[Graph, int], NDArray[np.int64]] = cluster,
    ) -> None:
        self._graph, self._part_of = graph, cluster(graph, num_parts)
        self._clusters = {number: cluster(graph, number) for number in num_clusters}
        self._members = [np.flatnonzero(self._part_of == part) for part in range(num_parts)]
        if empty := sum(len(nodes) == 0 for nodes in self._members):
            raise ReconstructionError(
                f"{graph.num_nodes} nodes in {num_parts} parts leave {empty} without any: start fewer processes"
            )
        self._halos = [_halo(graph, nodes, self._part_of) for nodes in self._members]
        self._degrees = graph.degrees

    @property
    def max_part_nodes(self) -> int:
        """Number of nodes of the largest part, without its halo."""
        return max(map(len, self._members))

    @property
    def max_halo_size(self) -> int:
        """Largest number of rows that arrive at one part in a halo exchange."""
        return max(map(len, self._halos))

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[GraphPart]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, part: int) -> GraphPart:
        own, halo, part_of = self._members[part], self._halos[part], self._part_of
        extended = np.union1d(own, halo)
        sent = [np.searchsorted(own, each[part_of[each] == part]) for each in self._halos]
        low, high = _edges_at(self._graph, own)
        inside = (part_of[low] == part) & (part_of[high] == part)
        return GraphPart(
            num_nodes=len(own),
            edges=np.searchsorted(own, np.stack([low[inside], high[inside]])),
            global_ids=own,
            num_global_nodes=self._graph.num_nodes,
            extended=ExtendedPart(
                num_nodes=len(extended),
                edges=np.searchsorted(extended, np.stack([low, high])),
                global_degrees=self._degrees[extended],
            ),
            own_rows=np.searchsorted(extended, own),
            halo_rows=np.searchsorted(extended, halo),
            receive_counts=tuple(np.bincount(part_of[halo], minlength=len(self)).tolist()),
            send_rows=np.concatenate(sent),
            send_counts=tuple(len(each) for each in sent),
            max_extended_nodes=max(len(own) + len(halo) for own, halo in zip(self._members, self._halos, strict=True)),
            clusters={number: each[own] for number, each in self._clusters.items()},
        )


def _halo(graph: Graph, own: NDArray[np.int64], part_of: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the neighbours in other parts, sorted by part and then by number."""
    others = np.setdiff1d(_neighbours(graph, own), own)
    return others[np.argsort(part_of[others], kind="stable")]


def _edges_at(graph: Graph, own: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the edges with an end in `own`, each once with u < v, sorted."""
    starts = graph.adjacency.starts
    ends = np.repeat(own, np.diff(starts)[own]), _neighbours(graph, own)
    keys = np.unique(np.minimum(*ends) * graph.num_nodes + np.maximum(*ends))
    return keys // graph.num_nodes, keys % graph.num_nodes


def _neighbours(graph: Graph, own: NDArray[np.int64]) -> NDArray[np.int64]:
    """Concatenate the neighbour lists of the nodes in `own`."""
    starts, neighbours = graph.adjacency
    chosen = np.zeros(graph.num_nodes, dtype=np.bool_)
    chosen[own] = True
    return neighbours[np.repeat(chosen, np.diff(starts))].astype(np.int64)
