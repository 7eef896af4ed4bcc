"""Rows of a graph's adjacency matrix, and the halo that a process needs of the others.

A process holds the neighbours of its own nodes. Products, label propagation and messages along edges need values of
the neighbours that other processes hold: the halo. `Halo.extend` exchanges them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from veilgraph.distributed.exchange import Exchange
from veilgraph.graph.graph import Graph
from veilgraph.graph.partition import ExtendedPart, GraphPart

Number = TypeVar("Number", bound=np.generic)


@dataclass(frozen=True, kw_only=True, eq=False)
class GraphRows:
    """Neighbours of the nodes that this process owns.

    Attributes:
        num_global_nodes: number of nodes of the whole graph.
        numbers: `[own]`, numbers of the own nodes in the whole graph, sorted.
        starts: `[own + 1]`, where each node's list starts in `neighbours`.
        neighbours: `[directed edges]`, numbers of the neighbours in the whole graph, each list sorted.
    """

    num_global_nodes: int
    numbers: NDArray[np.int64] = field(repr=False)
    starts: NDArray[np.int64] = field(repr=False)
    neighbours: NDArray[np.int64] = field(repr=False)

    @classmethod
    def from_pairs(cls, pairs: NDArray[np.int64], numbers: NDArray[np.int64], num_global_nodes: int) -> GraphRows:
        """Sort directed edges into rows; a repeated edge counts once.

        Args:
            pairs: u n + v of each directed edge from an own node u, in any order; it is sorted in place.
            numbers: numbers of the own nodes, sorted.
            num_global_nodes: n.

        >>> rows = GraphRows.from_pairs(np.array([9, 1, 11]), np.array([0, 2]), 4)  # 2-1, 0-1, 2-3
        >>> rows.starts.tolist(), rows.neighbours.tolist()
        ([0, 1, 3], [1, 1, 3])
        """
        pairs.sort()
        first = np.ones(len(pairs), dtype=np.bool_)
        np.not_equal(pairs[1:], pairs[:-1], out=first[1:])
        if not first.all():
            pairs = pairs[first]
        starts = np.searchsorted(pairs, np.append(numbers, num_global_nodes) * num_global_nodes)
        pairs %= num_global_nodes
        return cls(num_global_nodes=num_global_nodes, numbers=numbers, starts=starts, neighbours=pairs)

    @property
    def degrees(self) -> NDArray[np.int64]:
        """Number of neighbours of the own nodes, `[own]`."""
        return np.diff(self.starts)

    def pairs(self) -> NDArray[np.int64]:
        """Return u n + v of each directed edge, the inverse of `from_pairs`."""
        pairs = np.repeat(self.numbers * self.num_global_nodes, self.degrees)
        pairs += self.neighbours
        return pairs


@dataclass(frozen=True, kw_only=True, eq=False)
class Halo:
    """The own nodes of a process and their neighbours in other processes, with the lists of rows to exchange.

    Attributes:
        exchange: exchanges between the processes.
        extended: `[own + halo]`, numbers of own nodes and halo, sorted.
        own_rows: `[own]`, positions of the own nodes in `extended`.
        halo_rows: `[halo]`, positions of the halo in `extended`, in the order in which it arrives.
        receive_counts: number of rows that each process sends to this one.
        send_rows: positions among the own nodes of the rows to send: first to rank 0, then to rank 1 and so on.
        send_counts: number of rows that this process sends to each.
    """

    exchange: Exchange
    extended: NDArray[np.int64] = field(repr=False)
    own_rows: NDArray[np.int64] = field(repr=False)
    halo_rows: NDArray[np.int64] = field(repr=False)
    receive_counts: NDArray[np.int64]
    send_rows: NDArray[np.int64] = field(repr=False)
    send_counts: NDArray[np.int64]

    @classmethod
    def of(
        cls, exchange: Exchange, numbers: NDArray[np.int64], halo: NDArray[np.int64], owner: NDArray[np.int64]
    ) -> Halo:
        """Agree with the other processes on the rows to exchange.

        Args:
            exchange: exchanges between the processes.
            numbers: numbers of the own nodes, sorted.
            halo: numbers of the neighbours in other processes, sorted.
            owner: rank that owns each of them.
        """
        order = np.argsort(owner, kind="stable")
        receive_counts = np.bincount(owner, minlength=exchange.world_size)
        wanted, send_counts = exchange.send_sorted(halo[order], receive_counts)
        extended = np.union1d(numbers, halo)
        return cls(
            exchange=exchange,
            extended=extended,
            own_rows=np.searchsorted(extended, numbers),
            halo_rows=np.searchsorted(extended, halo[order]),
            receive_counts=receive_counts,
            send_rows=np.searchsorted(numbers, wanted),
            send_counts=send_counts,
        )

    def extend(self, rows: NDArray[Number]) -> NDArray[Number]:
        """Return the rows of own nodes and halo in the order of `extended`, given the rows of the own nodes."""
        received, _ = self.exchange.send_sorted(rows[self.send_rows], self.send_counts)
        extended = np.empty((len(self.extended), *rows.shape[1:]), dtype=rows.dtype)
        extended[self.own_rows], extended[self.halo_rows] = rows, received
        return extended


def neighbours_elsewhere(rows: GraphRows) -> NDArray[np.int64]:
    """Return the numbers of neighbours that other processes own, sorted."""
    return np.setdiff1d(rows.neighbours, rows.numbers)


def graph_part(rows: GraphRows, halo: Halo) -> GraphPart:
    """Return this process's part of the graph, as training takes it.

    Nodes are in the order of the whole graph, so that sums add in the same order with any number of processes.
    """
    n, exchange = rows.num_global_nodes, halo.exchange
    sources = np.repeat(rows.numbers, rows.degrees)
    low, high = np.minimum(sources, rows.neighbours), np.maximum(sources, rows.neighbours)
    keys = np.unique(low * n + high)
    del sources, low, high
    low, high = keys // n, keys % n
    del keys
    own = np.zeros(len(halo.extended), dtype=np.bool_)
    own[halo.own_rows] = True
    # Half as wide as elsewhere: positions in a part are small, and a process keeps both lists of edges.
    edges: Any = np.stack([np.searchsorted(halo.extended, ends).astype(np.int32) for ends in (low, high)])
    inside = own[edges[0]] & own[edges[1]]
    inner: Any = np.stack([np.searchsorted(rows.numbers, ends[inside]).astype(np.int32) for ends in (low, high)])
    del low, high
    extended = ExtendedPart(
        num_nodes=len(halo.extended), edges=edges, global_degrees=halo.extend(rows.degrees.astype(np.int64))
    )
    return GraphPart(
        num_nodes=len(rows.numbers),
        edges=inner,
        global_ids=rows.numbers,
        num_global_nodes=n,
        num_global_edges=int(exchange.sum(np.array([rows.degrees.sum()]))[0]) // 2,
        extended=extended,
        own_rows=halo.own_rows,
        halo_rows=halo.halo_rows,
        receive_counts=tuple(halo.receive_counts.tolist()),
        send_rows=halo.send_rows,
        send_counts=tuple(halo.send_counts.tolist()),
        max_extended_nodes=exchange.max(len(halo.extended)),
        clusters={},
    )


def whole_rows(graph: Graph) -> GraphRows:
    """Return all rows of a graph that one process holds."""
    starts, neighbours = graph.adjacency
    return GraphRows(
        num_global_nodes=graph.num_nodes,
        numbers=np.arange(graph.num_nodes),
        starts=starts.astype(np.int64),
        neighbours=neighbours.astype(np.int64),
    )


def rows_of_part(part: GraphPart, exchange: Exchange) -> tuple[GraphRows, Halo]:
    """Return the rows and the halo that `graph_part` made a part from.

    Args:
        part: part of the graph that this process holds.
        exchange: exchanges between the processes that hold the parts.
    """
    halo = Halo(
        exchange=exchange,
        extended=np.arange(part.extended.num_nodes),
        own_rows=part.own_rows,
        halo_rows=part.halo_rows,
        receive_counts=np.array(part.receive_counts),
        send_rows=part.send_rows,
        send_counts=np.array(part.send_counts),
    )
    halo = replace(halo, extended=halo.extend(part.global_ids))
    starts, neighbours = part.extended.adjacency
    own = np.zeros(part.extended.num_nodes, dtype=np.bool_)
    own[part.own_rows] = True
    counts = np.diff(starts)
    rows = GraphRows(
        num_global_nodes=part.num_global_nodes,
        numbers=part.global_ids,
        starts=np.append(0, np.cumsum(counts[own])),
        neighbours=halo.extended[neighbours[np.repeat(own, counts)]],
    )
    return rows, halo


def with_clusters(part: GraphPart, clusters: dict[int, NDArray[np.int64]]) -> GraphPart:
    """Return the part with clusters of its nodes, by the number of clusters."""
    return replace(part, clusters=clusters)
