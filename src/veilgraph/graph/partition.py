"""One process's part of a graph that several processes share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from veilgraph.graph.graph import Graph, Holding


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
        num_global_edges: number of edges of the whole graph.
        extended: the part's nodes and its halo in the order of the whole graph, with their degrees there.
        own_rows: `[nodes]`, positions of the part's nodes in `extended`.
        halo_rows: `[halo]`, positions of the halo in `extended`, in the order in which the other parts send it.
        receive_counts: number of rows that each part sends to this one.
        send_rows: positions of the nodes whose rows are sent: first to part 0, then to part 1 and so on.
        send_counts: number of rows that this part sends to each part.
        max_extended_nodes: size of the largest part of the partition, halo included.
        clusters: cluster of each node, `[nodes]`, for each number of clusters of the whole graph.
    """

    holding: ClassVar[Holding] = Holding.PART

    global_ids: NDArray[np.int64] = field(repr=False)
    num_global_nodes: int
    num_global_edges: int
    extended: Graph = field(repr=False)
    own_rows: NDArray[np.int64] = field(repr=False)
    halo_rows: NDArray[np.int64] = field(repr=False)
    receive_counts: tuple[int, ...]
    send_rows: NDArray[np.int64] = field(repr=False)
    send_counts: tuple[int, ...]
    max_extended_nodes: int
    clusters: Mapping[int, NDArray[np.int64]] = field(repr=False)

    @property
    def counted_nodes(self) -> NDArray[np.int64]:
        """Numbers of the part's nodes in the whole graph, `[nodes]`."""
        return self.global_ids

    @property
    def degrees(self) -> NDArray[np.int64]:
        """Degrees in the whole graph, `[nodes]`."""
        return self.extended.degrees[self.own_rows]

    @property
    def halo_size(self) -> int:
        """Number of rows that arrive in one halo exchange."""
        return len(self.halo_rows)
