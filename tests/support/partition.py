"""All parts of a graph, made in one process that holds the whole graph: what several processes are compared with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from veilgraph.graph import Graph
from veilgraph.graph.clustering import cluster
from veilgraph.graph.partition import ExtendedPart, GraphPart


class Partition:
    """Partition of a graph by METIS into parts of about equally many nodes.

    Args:
        graph: the public graph.
        num_parts: number of parts.
        clusters: clusters of the whole graph that the parts carry along, by their number.
    """

    def __init__(
        self,
        graph: Graph,
        num_parts: int,
        *,
        clusters: Mapping[int, NDArray[np.int64]] | None = None,
    ) -> None:
        self._graph, self._part_of, self._clusters = graph, cluster(graph, num_parts), clusters or {}
        self._members = [np.flatnonzero(self._part_of == part) for part in range(num_parts)]
        self._halos = [_halo(graph, nodes, self._part_of) for nodes in self._members]
        self._degrees = graph.degrees

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
            num_global_edges=self._graph.num_edges,
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
