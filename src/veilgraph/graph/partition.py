"""A graph in parts, one for each process, with few edges between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import ReconstructionError
from veilgraph.graph import Graph
from veilgraph.graph.clustering import cluster


@dataclass(frozen=True, kw_only=True, eq=False)
class _Surroundings(Graph):
    """The nodes of a part and their neighbours; nodes of other parts have edges here that the part does not see."""

    whole_degrees: NDArray[np.int64] = field(repr=False)

    @property
    def degrees(self) -> NDArray[np.int64]:
        """In the whole graph."""
        return self.whole_degrees


@dataclass(frozen=True, kw_only=True, eq=False)
class GraphPart(Graph):
    """Some nodes of a graph with the edges between them, and what is around them.

    Attributes:
        numbers: of its nodes in the whole graph, sorted.
        whole: how many nodes the whole graph has.
        around: its nodes and their neighbours in other parts, in the order of the whole graph, with the degrees that
            they have there.
        places: of its nodes in `around`.
        arrivals: places in `around` of neighbours in other parts, in the order in which those parts send them.
        receive_counts: how many of them each part sends.
        sent: which of its nodes it sends, to the first part, to the second and so on.
        send_counts: how many of them go to each part.
        largest: the most nodes that any part has around it.
        clusters: of its nodes, for each number of clusters of the whole graph.
    """

    numbers: NDArray[np.int64] = field(repr=False)
    whole: int
    around: Graph = field(repr=False)
    places: NDArray[np.int64] = field(repr=False)
    arrivals: NDArray[np.int64] = field(repr=False)
    receive_counts: tuple[int, ...]
    sent: NDArray[np.int64] = field(repr=False)
    send_counts: tuple[int, ...]
    largest: int
    clusters: Mapping[int, NDArray[np.int64]] = field(repr=False)

    @property
    def boundary(self) -> int:
        """How many rows arrive for one product."""
        return len(self.arrivals)


class Partition:
    """Parts of about equally many nodes, by METIS; bags are those of the whole graph.

    A part is made when it is asked for: it takes memory of its own, and whoever hands parts out needs one at a time.

    Args:
        graph: the public graph.
        num_parts: how many.
        num_clusters: numbers of clusters that the parts will be asked for.

    >>> path = Graph.from_edges([[0, 1, 2], [1, 2, 3]], num_nodes=4)
    >>> [(part.numbers.tolist(), part.boundary) for part in Partition(path, 2)]
    [([2, 3], 1), ([0, 1], 1)]
    """

    def __init__(self, graph: Graph, num_parts: int, *, num_clusters: Iterable[int] = ()) -> None:
        self._graph, self._part_of = graph, cluster(graph, num_parts)
        self._clusters = {number: cluster(graph, number) for number in num_clusters}
        self._members = [np.flatnonzero(self._part_of == part) for part in range(num_parts)]
        if empty := sum(len(nodes) == 0 for nodes in self._members):
            raise ReconstructionError(
                f"{graph.num_nodes} nodes in {num_parts} parts leave {empty} without any: start fewer processes"
            )
        self._borrowed = [_borrowed(graph, nodes, self._part_of) for nodes in self._members]
        self._degrees = graph.degrees

    @property
    def most_nodes(self) -> int:
        """Of a part."""
        return max(map(len, self._members))

    @property
    def most_borrowed(self) -> int:
        """Rows that arrive at a part for one product."""
        return max(map(len, self._borrowed))

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[GraphPart]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, part: int) -> GraphPart:
        own, others, part_of = self._members[part], self._borrowed[part], self._part_of
        around = np.union1d(own, others)
        sent = [np.searchsorted(own, each[part_of[each] == part]) for each in self._borrowed]
        low, high = _edges_at(self._graph, own)
        inside = (part_of[low] == part) & (part_of[high] == part)
        return GraphPart(
            num_nodes=len(own),
            edges=np.searchsorted(own, np.stack([low[inside], high[inside]])),
            numbers=own,
            whole=self._graph.num_nodes,
            around=_Surroundings(
                num_nodes=len(around),
                edges=np.searchsorted(around, np.stack([low, high])),
                whole_degrees=self._degrees[around],
            ),
            places=np.searchsorted(around, own),
            arrivals=np.searchsorted(around, others),
            receive_counts=tuple(np.bincount(part_of[others], minlength=len(self)).tolist()),
            sent=np.concatenate(sent),
            send_counts=tuple(len(each) for each in sent),
            largest=max(len(own) + len(others) for own, others in zip(self._members, self._borrowed, strict=True)),
            clusters={number: each[own] for number, each in self._clusters.items()},
        )


def _borrowed(graph: Graph, own: NDArray[np.int64], part_of: NDArray[np.int64]) -> NDArray[np.int64]:
    """Neighbours in other parts, by the part that holds them and then by their number."""
    others = np.setdiff1d(_neighbours(graph, own), own)
    return others[np.argsort(part_of[others], kind="stable")]


def _edges_at(graph: Graph, own: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Edges with an end in `own`, each once with u < v, sorted."""
    starts = graph.adjacency.starts
    ends = np.repeat(own, np.diff(starts)[own]), _neighbours(graph, own)
    keys = np.unique(np.minimum(*ends) * graph.num_nodes + np.maximum(*ends))
    return keys // graph.num_nodes, keys % graph.num_nodes


def _neighbours(graph: Graph, own: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of one node after another."""
    starts, neighbours = graph.adjacency
    chosen = np.zeros(graph.num_nodes, dtype=np.bool_)
    chosen[own] = True
    return neighbours[np.repeat(chosen, np.diff(starts))].astype(np.int64)
