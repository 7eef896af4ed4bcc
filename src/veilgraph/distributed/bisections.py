"""Nested bisections of a graph whose rows are spread over processes.

Small regions grow by label propagation. The graph of regions is small: the first process bisects it by METIS, and all
processes read the trees off their nodes' regions. Every decision follows from whole numbers and counters of nodes, so
the trees do not depend on the number of processes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from veilgraph.distributed.graph_rows import GraphRows, Halo
from veilgraph.distributed.label_propagation import edges_between, grow_regions
from veilgraph.graph.clustering import MAX_METIS_EDGES, bisection_plan
from veilgraph.graph.graph import GraphSize
from veilgraph.graph.metis import weighted_partition
from veilgraph.progress import tracked

MAX_REGIONS = 2048
"""Regions of one tree. A graph of as many nodes is bisected as it is."""

_MAX_DEPTH = 10
_TREES_OF_REGIONS = 2
"""Trees with the same regions; other trees have others."""


def row_bisection_plan(graph: GraphSize, *, max_edges: int = MAX_METIS_EDGES) -> tuple[int, int]:
    """Return the depth and the number of the trees for a graph: as `bisection_plan`, with at most ten levels."""
    depth, trees = bisection_plan(graph, max_edges=max_edges)
    return min(depth, _MAX_DEPTH), trees


def bisect_rows(rows: GraphRows, halo: Halo, depth: int, trees: int) -> list[NDArray[np.int32]]:
    """Bisect a graph recursively; return the codes of the own nodes `[own]` with `depth` bits for each tree.

    Codes are as in `graph.clustering.bisections`. Two trees have the same regions.

    Args:
        rows: neighbours of the own nodes.
        halo: exchange with the processes that hold the other rows.
        depth: number of levels.
        trees: number of trees.
    """
    if depth == 0:
        return [np.zeros(len(rows.numbers), dtype=np.int32)] * trees
    codes: list[NDArray[np.int32]] = []
    for seed in tracked(range(-(-trees // _TREES_OF_REGIONS)), "communities, sets of regions"):
        count = min(MAX_REGIONS, rows.num_global_nodes)
        regions = grow_regions(rows, halo, count, seed=seed)
        between = edges_between(rows, halo, regions, count)
        sizes = halo.exchange.sum(np.bincount(regions, minlength=count))
        found = np.zeros((0, count), dtype=np.int32)
        if halo.exchange.rank == 0:
            first = 1 + seed * _TREES_OF_REGIONS
            seeds = range(first, min(first + _TREES_OF_REGIONS, 1 + trees))
            joined = [weighted_partition(between, sizes, 2**depth, recursive=True, seed=each) for each in seeds]
            found = np.array(joined, dtype=np.int32)
        codes += [tree[regions] for tree in halo.exchange.gather(found)]
    return codes
