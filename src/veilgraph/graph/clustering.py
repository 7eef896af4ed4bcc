"""Bags of graphs that METIS has no room for: a partition in a few passes over the nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import ReconstructionError
from veilgraph.graph import Adjacency, Graph
from veilgraph.graph.metis import Cut
from veilgraph.graph.metis_pool import cut_aside, cut_together
from veilgraph.progress import say, tracked

_PASSES = 10
_SLACK = 1.03  # as METIS
_BLOCK_NODES = 4096
_BLOCKS_PER_PART = 4
_TIE = 1e-6  # of a neighbour


def stream_partition(adjacency: Adjacency, num_parts: int, *, seed: int = 0) -> NDArray[np.int64]:
    r"""Restreamed linear deterministic greedy partitioning (Stanton and Kliot 2012, Nishimura and Ugander 2013).

    Nodes come one block after another, and each joins the part

    .. math:: \arg\max_i |N(v) \cap P_i| \left(1 - \frac{|P_i|}{c}\right), \qquad c = 1.03\, n / C

    that holds most of its neighbours and still has room; ten passes, each starting from the last one's parts. No part
    exceeds c. Time is linear in edges, and memory is a byte for each node beside the adjacency. It cuts more edges
    than METIS does, which the bags can bear: they are to be local, not to be optimal.

    Args:
        adjacency: of the graph.
        num_parts: C.
        seed: of the choice between parts that are equally good.
    """
    nodes = len(adjacency.starts) - 1
    capacity = int(np.ceil(_SLACK * nodes / num_parts))
    rng = np.random.default_rng(seed)
    parts = np.full(nodes, num_parts, dtype=np.min_scalar_type(num_parts))  # C stands for "nowhere yet"
    sizes = np.zeros(num_parts, dtype=np.int64)
    # Nodes of one block do not see each other's choice, so a block is small beside a part.
    width = max(1, min(_BLOCK_NODES, nodes // (_BLOCKS_PER_PART * num_parts)))
    blocks = [slice(start, min(start + width, nodes)) for start in range(0, nodes, width)]
    for block in tracked(blocks * _PASSES, f"bags, {_PASSES} passes over blocks of nodes"):
        sizes -= np.bincount(parts[block], minlength=num_parts + 1)[:num_parts]
        inside = _neighbours_in_parts(adjacency, block, parts, num_parts)
        ties = _TIE * rng.random(inside.shape, dtype=np.float32)
        scores = (inside + ties) * (1 - sizes / capacity)
        parts[block] = _best_with_room(scores, capacity - sizes)
        sizes += np.bincount(parts[block], minlength=num_parts)
    return parts.astype(np.int64)


def _neighbours_in_parts(
    adjacency: Adjacency, block: slice, parts: NDArray[np.unsignedinteger], num_parts: int
) -> NDArray[np.int64]:
    """[nodes of the block, parts]: how many neighbours a node has in each part."""
    starts = adjacency.starts[block.start : block.stop + 1]
    rows = np.repeat(np.arange(len(starts) - 1) * (num_parts + 1), np.diff(starts))
    cells = rows + parts[adjacency.neighbours[starts[0] : starts[-1]]]
    counts = np.bincount(cells, minlength=(len(starts) - 1) * (num_parts + 1))
    return counts.reshape(-1, num_parts + 1)[:, :num_parts]


def _best_with_room(scores: NDArray[np.float64], room: NDArray[np.int64]) -> NDArray[np.int64]:
    """The best part of each row; where more rows want a part than it has room for, those that want it most get it.

    >>> _best_with_room(np.array([[3.0, 1.0], [5.0, 1.0], [1.0, 2.0]]), np.array([1, 2])).tolist()
    [1, 0, 1]
    """
    choice: NDArray[np.int64] = scores.argmax(axis=1)
    while (full := np.bincount(choice, minlength=len(room)) > room).any():
        part = int(full.argmax())
        wanting = np.flatnonzero(choice == part)
        leaving = wanting[np.argsort(-scores[wanting, part], kind="stable")][room[part] :]
        scores[leaving, part] = -np.inf
        choice[leaving] = scores[leaving].argmax(axis=1)
    return choice


MOST_METIS_EDGES = 5_000_000
"""METIS takes about 200 bytes for each edge beside the graph, and time that grows faster than edges do."""

_FEW = 8
"""So few parts are cut by halving, as METIS advises."""


def cluster(graph: Graph, num_clusters: int, *, seed: int = 0) -> NDArray[np.int64]:
    """The cluster of each node: parts of about n/C nodes with few edges between them, the same for a seed.

    Graphs of more than `MOST_METIS_EDGES` edges are partitioned by `stream_partition`.

    >>> two_triangles = Graph.from_edges([[0, 1, 2, 3, 4, 5, 2], [1, 2, 0, 4, 5, 3, 3]], num_nodes=6)
    >>> parts = cluster(two_triangles, 2)
    >>> bool((parts[:3] == parts[0]).all() and (parts[3:] == parts[3]).all() and parts[0] != parts[3])
    True
    """
    (parts,) = clusterings(graph, [num_clusters], seed=seed)
    return parts


def clusterings(graph: Graph, counts: Sequence[int], *, seed: int = 0, workers: int = 1) -> list[NDArray[np.int64]]:
    """`cluster` for several numbers of clusters; as many processes as allowed share the work."""
    cuts = _cuts(graph, counts, seed)
    if graph.num_edges > MOST_METIS_EDGES:
        return [_streamed(graph, count, seed) for count in counts]
    return _by_count(graph, counts, cuts, cut_together(*_metis_input(graph), cuts, workers=workers) if cuts else [])


def clusterings_aside(graph: Graph, counts: Sequence[int]) -> Callable[[], list[NDArray[np.int64]]]:
    """`clusterings` by another process while this one goes on; what is handed back waits for it."""
    cuts = _cuts(graph, counts, seed=0)
    if graph.num_edges > MOST_METIS_EDGES or not cuts:
        return lambda: clusterings(graph, counts)
    finished = cut_aside(partial(_metis_input, graph), cuts)
    return lambda: _by_count(graph, counts, cuts, finished())


def _cuts(graph: Graph, counts: Sequence[int], seed: int) -> list[Cut]:
    """What METIS is to do; nothing for a single cluster."""
    for count in counts:
        if not 1 <= count <= graph.num_nodes:
            raise ReconstructionError(
                f"num_clusters is {count} but there are {graph.num_nodes} nodes: choose 1 to {graph.num_nodes}"
            )
    return [Cut(count, recursive=count <= _FEW, seed=seed) for count in counts if count > 1]


def _by_count(
    graph: Graph, counts: Sequence[int], cuts: Sequence[Cut], parts: Sequence[NDArray[np.int64]]
) -> list[NDArray[np.int64]]:
    found = {1: np.zeros(graph.num_nodes, dtype=np.int64)}
    found |= {each.parts: part for each, part in zip(cuts, parts, strict=True)}
    return [found[count] for count in counts]


def bisections(graph: Graph, depth: int, trees: int, *, workers: int = 1) -> list[NDArray[np.int64]]:
    """Halves of the graph with few edges between them, halves of these, and so on: a code of `depth` bits per node.

    The first l bits of a code number 2^l parts, each of which is cut in two by the next bit. Seeds decide between
    cuts that are about equally good, so that there are several trees of parts.

    Args:
        graph: what to cut.
        depth: how often.
        trees: in how many ways.
        workers: processes that may work at the same time.

    >>> path = Graph.from_edges([range(7), range(1, 8)], num_nodes=8)
    >>> [codes] = bisections(path, 2, 1)
    >>> [len(set(codes[i : i + 2].tolist())) for i in (0, 2, 4, 6)], len(set((codes[:4] >> 1).tolist()))
    ([1, 1, 1, 1], 1)
    """
    if not 0 <= depth <= math.log2(graph.num_nodes):
        raise ReconstructionError(f"depth is {depth} but {graph.num_nodes} nodes cannot be halved so often")
    if depth == 0:  # METIS has nothing to do
        return [np.zeros(graph.num_nodes, dtype=np.int64)] * trees
    # METIS numbers the parts of recursive bisection in the order of its tree. It hands its seed to C's srand, where 0
    # and 1 often are the same.
    cuts = [Cut(2**depth, recursive=True, seed=seed) for seed in range(1, trees + 1)]
    return cut_together(*_metis_input(graph), cuts, workers=workers)


def _streamed(graph: Graph, count: int, seed: int) -> NDArray[np.int64]:
    say(f"bags: {graph.num_edges:,} edges are too many for METIS, nodes are streamed into {count} bags")
    return stream_partition(graph.adjacency, count, seed=seed)


def _metis_input(graph: Graph) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """METIS breaks ties by the order of neighbours, so that another order would move every published figure a bit."""
    sources, targets = graph.edge_index.astype(np.int32)
    return graph.adjacency.starts.astype(np.int32), targets[np.argsort(sources, kind="stable")]
