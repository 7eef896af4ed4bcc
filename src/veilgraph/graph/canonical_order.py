"""An order of the nodes that follows from the structure of a graph, and not from the rows of a table.

METIS breaks ties by the order of nodes. In this order it gives the same result, however the rows of a table are sorted.
Each component is ordered by itself. So other components change nothing in it, and copies of it are treated alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from veilgraph.graph.counters import mix
from veilgraph.graph.graph import Adjacency, Graph

_ROUNDS = 8


@dataclass(frozen=True, eq=False)
class CanonicalOrder:
    """Nodes that have neighbours, component by component, the largest first.

    Attributes:
        nodes: `[nodes with neighbours]`, nodes in their order.
        starts: `[components + 1]`, where each component starts in `nodes`.
        adjacency: neighbours of these nodes, by their places in `nodes`.
        weights: weights of these entries, where edges have any.
    """

    nodes: NDArray[np.int64]
    starts: NDArray[np.int64]
    adjacency: Adjacency
    weights: NDArray[np.float64] | None = None

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of nodes of each component, `[components]`, in descending order."""
        return np.diff(self.starts)

    @property
    def places(self) -> NDArray[np.int64]:
        """Place of each node of `nodes` in its component, from 0 on."""
        return np.arange(len(self.nodes)) - np.repeat(self.starts[:-1], self.sizes)

    def component(self, number: int) -> Adjacency:
        """Return the neighbours of the nodes of a component, by their places in it."""
        first, last = self.starts[number], self.starts[number + 1]
        rows = self.adjacency.starts[first : last + 1]
        return Adjacency(rows - rows[0], self.adjacency.neighbours[rows[0] : rows[-1]] - first)

    def component_weights(self, number: int) -> NDArray[np.float64] | None:
        """Return the weights of the entries of `component`; None where edges have none."""
        first, last = self.adjacency.starts[self.starts[number : number + 2]]
        return None if self.weights is None else self.weights[first:last]


@lru_cache(maxsize=8)
def canonical_order(graph: Graph) -> CanonicalOrder:
    """Return the canonical order of a graph; kept for the next call.

    Nodes get colours by eight rounds of colour refinement (Weisfeiler and Leman 1968). A component is searched breadth
    first from a node of its rarest colour, and neighbours come in the order of their colours. Nodes that this does not
    tell apart, such as the leaves of a star, come in the order of their ids, or of their numbers without ids.

    >>> paths = [Graph.from_edges(pairs, num_nodes=5) for pairs in ([[3, 0], [0, 2]], [[1, 4], [4, 2]])]
    >>> [canonical_order(path).component(0).neighbours.tolist() for path in paths]
    [[1, 2, 0, 0], [1, 2, 0, 0]]
    """
    connected = np.flatnonzero(graph.degrees)
    number_of = np.cumsum(graph.degrees > 0) - 1
    starts, neighbours = graph.adjacency
    rows = Adjacency(np.append(starts[connected], starts[-1:]), number_of[neighbours])
    colours, ranks = _refined_colours(rows), _ranks(graph)[connected]
    shape = len(connected), len(connected)
    matrix = csr_array((np.ones(len(neighbours), dtype=np.int8), rows.neighbours, rows.starts), shape=shape)
    members = _ranked_components(connected_components(matrix, directed=False)[1], colours, ranks)
    ranked = np.lexsort((ranks, colours, members))
    places = np.empty(len(ranked), dtype=np.int64)
    places[ranked] = np.arange(len(ranked))
    searched = ranked[_breadth_first(_renumbered(rows, ranked, places), members[ranked], colours[ranked])]
    order = searched[np.argsort(members[searched], kind="stable")]
    places[order] = np.arange(len(order))
    sizes = np.bincount(members)
    nodes, weights = connected[order], entry_weights(graph)
    if weights is not None:
        weights = (
            csr_array((weights, neighbours, starts), shape=(graph.num_nodes,) * 2)[nodes][:, nodes]
            .sorted_indices()
            .data
        )
    return CanonicalOrder(nodes, np.append(0, np.cumsum(sizes)), _renumbered(rows, order, places), weights)


def entry_weights(graph: Graph) -> NDArray[np.float64] | None:
    """Return the weights of the entries of a graph's adjacency, `[2 edges]`; None where edges have none."""
    if (weights := graph.edge_weights) is None:
        return None
    sources, targets = graph.edge_index
    return np.tile(weights, 2)[np.lexsort((targets, sources))]


def _ranks(graph: Graph) -> NDArray[np.int64]:
    """Return the rank of each node among all ids as text, `[nodes]`; numbers without ids."""
    ranks = np.arange(graph.num_nodes)
    if graph.node_ids is not None:
        ranks[np.argsort(np.array(graph.names, dtype=object), kind="stable")] = np.arange(graph.num_nodes)
    return ranks


def _refined_colours(rows: Adjacency) -> NDArray[np.uint64]:
    """Return a colour of each node, `[nodes]`: a hash of what is around it."""
    colours = mix(np.diff(rows.starts).astype(np.uint64))
    for _ in range(_ROUNDS):
        around = np.add.reduceat(mix(colours)[rows.neighbours], rows.starts[:-1])
        colours = mix(colours * np.uint64(3) + around)
    return colours


def _ranked_components(
    members: NDArray[np.int32], colours: NDArray[np.uint64], ranks: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the rank of each node's component, `[nodes]`: by size, by the colours in it, and by ids."""
    sizes = np.bincount(members)
    inside, named = np.zeros(len(sizes), dtype=np.uint64), np.full(len(sizes), np.iinfo(np.int64).max)
    np.add.at(inside, members, mix(colours))
    np.minimum.at(named, members, ranks)
    places = np.empty(len(sizes), dtype=np.int64)
    places[np.lexsort((named, inside, -sizes))] = np.arange(len(sizes))
    return places[members]


def _renumbered(rows: Adjacency, order: NDArray[np.int64], places: NDArray[np.int64]) -> Adjacency:
    """Return the rows in another order, with neighbours by their places in it, each row sorted."""
    degrees = np.diff(rows.starts)[order]
    starts = np.append(0, np.cumsum(degrees))
    entries = np.arange(starts[-1]) + np.repeat(rows.starts[order] - starts[:-1], degrees)
    matrix = csr_array(
        (np.ones(len(entries), dtype=np.int8), places[rows.neighbours[entries]], starts),
        shape=(len(order), len(order)),
    )
    matrix.sort_indices()
    return Adjacency(matrix.indptr, matrix.indices)


def _breadth_first(rows: Adjacency, members: NDArray[np.int64], colours: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return nodes as a search from a node of the rarest colour of each component finds them.

    Nodes are sorted by component and colour. One search from a node that is joined to all these begins everywhere.
    """
    count = len(members)
    firsts = np.flatnonzero(np.append(True, (members[1:] != members[:-1]) | (colours[1:] != colours[:-1])))
    frequencies = np.diff(np.append(firsts, count))
    rarest = firsts[np.lexsort((firsts, frequencies, members[firsts]))]
    roots = rarest[np.append(True, members[rarest][1:] != members[rarest][:-1])]
    starts = np.append(rows.starts, rows.starts[-1] + len(roots))
    neighbours = np.append(rows.neighbours, roots)
    matrix = csr_array((np.ones(len(neighbours), dtype=np.int8), neighbours, starts), shape=(count + 1, count + 1))
    found = breadth_first_order(matrix, count, directed=True, return_predecessors=False)
    return np.asarray(found[1:], dtype=np.int64)
