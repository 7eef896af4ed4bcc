"""People about whom nothing is known: neither they nor anyone whom links join them to has sent a report."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from veilgraph.distributed.exchange import current_exchange
from veilgraph.distributed.graph_rows import rows_of_part
from veilgraph.graph import PerturbedGraph
from veilgraph.graph.graph import Adjacency
from veilgraph.graph.partition import GraphPart

_BLOCK_NODES = 2**18


def unknown_people(perturbed: PerturbedGraph) -> NDArray[np.bool_]:
    """Return about whom nothing is known, `[nodes]`: no path of links joins them to a report.

    On a part of a graph, all processes call this together.
    """
    graph, known = perturbed.graph, perturbed.has_report
    if not isinstance(graph, GraphPart):
        return ~joined_to(graph.adjacency, known)
    exchange = current_exchange()
    _, halo = rows_of_part(graph, exchange)
    while True:
        extended = halo.extend(known.astype(np.uint8)).astype(np.bool_)
        reached = joined_to(graph.extended.adjacency, extended)[graph.own_rows]
        more = exchange.sum(np.array([np.count_nonzero(reached & ~known)]))[0]
        known = reached
        if not more:
            return ~known


def joined_to(adjacency: Adjacency, people: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return whom a path joins to one of some people, `[nodes]`, these people included.

    >>> from veilgraph.graph import Graph
    >>> graph = Graph.from_edges([[0, 1, 3], [1, 2, 4]], num_nodes=6)
    >>> joined_to(graph.adjacency, np.arange(6) == 0).tolist()
    [True, True, True, False, False, False]
    """
    starts, neighbours = adjacency
    joined = people.copy()
    frontier = np.flatnonzero(people)
    while len(frontier):
        found = []
        for first in range(0, len(frontier), _BLOCK_NODES):
            nodes = frontier[first : first + _BLOCK_NODES]
            counts = (starts[nodes + 1] - starts[nodes]).astype(np.int64)
            ends = np.cumsum(counts)
            places = np.repeat(starts[nodes] - (ends - counts), counts) + np.arange(counts.sum())
            reached = neighbours[places]
            new = np.unique(reached[~joined[reached]])
            joined[new] = True
            found.append(new)
        frontier = np.concatenate(found)
    return joined
