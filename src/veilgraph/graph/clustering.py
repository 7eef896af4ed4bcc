"""Clusterings of a graph: by METIS, or by streaming for graphs that are too large for METIS."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import ReconstructionError
from veilgraph.graph.canonical_order import CanonicalOrder, canonical_order
from veilgraph.graph.graph import Adjacency, Graph, GraphSize
from veilgraph.graph.metis import (
    PartitionRequest,
    start_metis_partitions,
)
from veilgraph.progress import say, tracked

MAX_METIS_EDGES = 5_000_000
"""METIS takes about 200 bytes for each edge beside the graph, and its time grows faster than linearly."""

MIN_PART_SIZE = 16
"""Number of nodes below which a part is not bisected."""

BISECTION_VECTORS = 16
"""Leading eigenvectors by which a graph is bisected that is too large for METIS."""

BISECTION_SPACE = 64
"""Eigenvectors that are computed for it, as many as for spectral views: trees do not depend on which came first."""

_TREES, _TREES_OF_LARGE_GRAPHS = 16, 8
_SPECTRAL_TREES, _SPECTRAL_DEPTH = 4, 10
_LARGE = 2**15

_MAX_RECURSIVE_PARTS = 8
"""Up to this number of parts METIS bisects recursively, as its manual advises."""

_METIS_UNITS = 100
"""METIS reads weights of edges as whole numbers, here with a mean of 100: their sum has 32 bits."""

_PASSES = 10
_SLACK = 1.03  # as METIS
_BLOCK_NODES = 4096
_BLOCKS_PER_PART = 4
_TIE = 1e-6  # in units of one neighbour


def cluster(graph: Graph, num_clusters: int, *, seed: int = 0) -> NDArray[np.int64]:
    """Return the cluster of each node, `[nodes]`: clusters of about n/C nodes with few edges between them.

    Graphs of more than `MAX_METIS_EDGES` edges are clustered by `stream_partition`.

    >>> two_triangles = Graph.from_edges([[0, 1, 2, 3, 4, 5, 2], [1, 2, 0, 4, 5, 3, 3]], num_nodes=6)
    >>> clusters = cluster(two_triangles, 2)
    >>> bool((clusters[:3] == clusters[0]).all() and (clusters[3:] == clusters[3]).all() and clusters[0] != clusters[3])
    True
    """
    (clusters,) = clusterings(graph, [num_clusters], seed=seed)
    return clusters


def clusterings(
    graph: Graph,
    counts: Sequence[int],
    *,
    seed: int = 0,
    workers: int = 1,
    max_metis_edges: int = MAX_METIS_EDGES,
) -> list[NDArray[np.int64]]:
    """Return `cluster` for several numbers of clusters.

    Args:
        graph: graph to cluster.
        counts: numbers of clusters.
        seed: seed of METIS or of the stream.
        workers: maximum number of worker processes.
        max_metis_edges: graphs of more edges are clustered by `stream_partition`.
    """
    requests = _requests(graph, counts, seed)
    if graph.num_edges > max_metis_edges:
        return [_streamed(graph, count, seed) for count in counts]
    parts = start_metis_partitions(*_metis_input(graph), requests, workers=workers)() if requests else []
    return _by_count(graph, counts, requests, parts)


def start_clusterings(graph: Graph, counts: Sequence[int]) -> Callable[[], list[NDArray[np.int64]]]:
    """Start `clusterings` in worker processes; the returned function waits for the result."""
    requests = _requests(graph, counts, seed=0)
    if graph.num_edges > MAX_METIS_EDGES or not requests:
        return lambda: clusterings(graph, counts)
    result = start_metis_partitions(*_metis_input(graph), requests)
    return lambda: _by_count(graph, counts, requests, result())


@dataclass(frozen=True, eq=False)
class Bisections:
    """Nested bisections of a graph, in several trees.

    Attributes:
        depths: `[components]`, how often each component is bisected, in descending order.
        trees: number of the smallest part of each node, `[nodes]`, for each tree. A component of depth d has 2^d parts,
            which follow those of the components before it. Bits of a number within the component are the sides of its
            bisections. Nodes without neighbours are in no component and have any number.
    """

    depths: NDArray[np.int64]
    trees: Sequence[NDArray[np.signedinteger[Any]]]


def bisections(graph: Graph, trees: int, *, workers: int = 1) -> Bisections:
    """Bisect each component of a graph recursively, until its parts have fewer than 2 `MIN_PART_SIZE` nodes.

    METIS decides between about equally good cuts by its seed, so that several seeds give several trees. It reads the
    nodes of a component in their `canonical_order`. So trees do not depend on the rows of a table, nor on other
    components.

    Args:
        graph: graph to bisect.
        trees: number of trees.
        workers: maximum number of worker processes.

    >>> path = Graph.from_edges([range(63), range(1, 64)], num_nodes=64)
    >>> found = bisections(path, 1)
    >>> [codes] = found.trees
    >>> found.depths.tolist(), [len(set(codes[i : i + 16].tolist())) for i in (0, 16, 32, 48)]
    ([2], [1, 1, 1, 1])
    """
    return start_bisections(graph, trees, workers=workers)()


def bisection_plan(graph: GraphSize, *, max_edges: int = MAX_METIS_EDGES) -> tuple[int, int]:
    """Return the depth and the number of the trees for a graph that is one component.

    One that is too large for METIS has fewer and shallower trees: few eigenvectors show no small parts.

    >>> bisection_plan(Graph.from_edges([range(1023), range(1, 1024)], num_nodes=1024))
    (6, 16)
    """
    depth = _depth(graph.num_nodes)
    if graph.num_edges > max_edges:
        return min(depth, _SPECTRAL_DEPTH), 1 if depth == 0 else _SPECTRAL_TREES
    return depth, 1 if depth == 0 else _TREES_OF_LARGE_GRAPHS if graph.num_edges > _LARGE else _TREES


def _depth(nodes: int) -> int:
    """Return how often a component is halved, so that its parts have at least `MIN_PART_SIZE` nodes."""
    return max(0, int(math.log2(max(nodes, 1) / MIN_PART_SIZE)))


_prefetched: WeakKeyDictionary[Graph, tuple[int, Callable[[], Bisections]]] = WeakKeyDictionary()


def prefetch_bisections(graph: Graph) -> None:
    """Start the bisections of `bisection_plan` in worker processes, for the first call of `start_bisections`.

    A command that reads a graph calls it before it imports torch, which takes longer than a second. A graph that is
    too large for METIS is bisected later.
    """
    if graph.num_edges > MAX_METIS_EDGES:
        return
    _, trees = bisection_plan(graph)
    _prefetched[graph] = trees, start_bisections(graph, trees, workers=os.cpu_count() or 1)


def start_bisections(graph: Graph, trees: int, *, workers: int = 1) -> Callable[[], Bisections]:
    """Start `bisections` in worker processes; the returned function waits for the result.

    With one worker, or on a small graph, the returned function does the work.
    """
    known, prefetched = _prefetched.pop(graph, (0, None))
    if prefetched is not None and known == trees:
        return prefetched
    order = canonical_order(graph)
    depths = np.array([_depth(size) for size in order.sizes.tolist()], dtype=np.int64)
    started = [
        _start_component(order, number, depth, trees, workers) for number, depth in enumerate(depths[depths > 0])
    ]
    return lambda: _joined(graph, order, depths, trees, [wait() for wait in started])


def _start_component(
    order: CanonicalOrder, number: int, depth: int, trees: int, workers: int
) -> Callable[[], list[NDArray[np.int64]]]:
    """Start the bisections of a component; the returned function waits for a code of each of its nodes and each tree.

    METIS numbers the parts of recursive bisection in the order of its tree. Seeds start at 1: METIS passes its seed to
    C's srand, where 0 and 1 often are the same.
    """
    requests = [PartitionRequest(2 ** int(depth), recursive=True, seed=seed) for seed in range(1, trees + 1)]
    starts, neighbours = (each.astype(np.int32) for each in order.component(number))
    weights = order.component_weights(number)
    whole = None if weights is None else np.maximum(weights * _METIS_UNITS, 1).astype(np.int32)
    return start_metis_partitions(starts, neighbours, requests, whole, workers=workers)


def _joined(
    graph: Graph, order: CanonicalOrder, depths: NDArray[np.int64], trees: int, found: list[list[NDArray[np.int64]]]
) -> Bisections:
    """Return the bisections of a graph from those of the components that have any."""
    firsts = np.repeat(np.cumsum(2**depths) - 2**depths, order.sizes)
    codes = np.zeros((trees, graph.num_nodes), dtype=np.int64)
    for number, tree in enumerate(codes):
        inside = np.concatenate([np.empty(0, dtype=np.int64), *(each[number] for each in found)])
        tree[order.nodes] = firsts
        tree[order.nodes[: len(inside)]] += inside
    return Bisections(depths, list(codes))


def stream_partition(adjacency: Adjacency, num_parts: int, *, seed: int = 0) -> NDArray[np.int64]:
    r"""Partition a graph by restreamed linear deterministic greedy.

    Stanton and Kliot 2012 (linear deterministic greedy); Nishimura and Ugander 2013 (restreaming).

    Nodes come in blocks, and each joins the part with most of its neighbours, weighted by the room that is left:

    .. math:: \arg\max_i |N(v) \cap P_i| \left(1 - \frac{|P_i|}{c}\right), \qquad c = 1.03\, n / C

    There are ten passes, each of which starts from the parts of the previous one. No part exceeds c. Time is linear in
    the edges, and memory is a byte for each node beside the adjacency. METIS cuts fewer edges, but bags need to be
    local and not optimal.

    Args:
        adjacency: neighbours of every node.
        num_parts: number of parts, C.
        seed: seed of the choice between equally good parts.
    """
    nodes = len(adjacency.starts) - 1
    capacity = int(np.ceil(_SLACK * nodes / num_parts))
    rng = np.random.default_rng(seed)
    parts = np.full(nodes, num_parts, dtype=np.min_scalar_type(num_parts))  # C: not in any part yet
    sizes = np.zeros(num_parts, dtype=np.int64)
    # Nodes of one block do not see each other's choice, so a block is small compared with a part.
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
    """Count the neighbours of each node of a block in each part, `[nodes of the block, parts]`."""
    starts = adjacency.starts[block.start : block.stop + 1]
    rows = np.repeat(np.arange(len(starts) - 1) * (num_parts + 1), np.diff(starts))
    cells = rows + parts[adjacency.neighbours[starts[0] : starts[-1]]]
    counts = np.bincount(cells, minlength=(len(starts) - 1) * (num_parts + 1))
    return counts.reshape(-1, num_parts + 1)[:, :num_parts]


def _best_with_room(scores: NDArray[np.float64], room: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the part with the highest score for each row, `[rows]`, within the room that each part has.

    If more rows choose a part than it has room for, the rows with the highest scores get it.


    >>> _best_with_room(np.array([[3.0, 1.0], [5.0, 1.0], [1.0, 2.0]]), np.array([1, 2])).tolist()
    [1, 0, 1]
    """
    choice: NDArray[np.int64] = scores.argmax(axis=1)
    while (full := np.bincount(choice, minlength=len(room)) > room).any():
        part = int(full.argmax())
        candidates = np.flatnonzero(choice == part)
        leaving = candidates[np.argsort(-scores[candidates, part], kind="stable")][room[part] :]
        scores[leaving, part] = -np.inf
        choice[leaving] = scores[leaving].argmax(axis=1)
    return choice


def _streamed(graph: Graph, count: int, seed: int) -> NDArray[np.int64]:
    say(f"bags: {graph.num_edges:,} edges are too many for METIS, nodes are streamed into {count} bags")
    return stream_partition(graph.adjacency, count, seed=seed)


def _requests(graph: Graph, counts: Sequence[int], seed: int) -> list[PartitionRequest]:
    """Return the requests to METIS; a single cluster needs none."""
    for count in counts:
        if not 1 <= count <= graph.num_nodes:
            raise ReconstructionError(
                f"num_clusters is {count} but there are {graph.num_nodes} nodes: choose 1 to {graph.num_nodes}"
            )
    return [
        PartitionRequest(count, recursive=count <= _MAX_RECURSIVE_PARTS, seed=seed) for count in counts if count > 1
    ]


def _by_count(
    graph: Graph,
    counts: Sequence[int],
    requests: Sequence[PartitionRequest],
    parts: Sequence[NDArray[np.int64]],
) -> list[NDArray[np.int64]]:
    found = {1: np.zeros(graph.num_nodes, dtype=np.int64)}
    found |= {request.num_parts: part for request, part in zip(requests, parts, strict=True)}
    return [found[count] for count in counts]


def _metis_input(graph: Graph) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return starts and neighbours for METIS, neighbours in the order of `edge_index`.

    METIS breaks ties by the order of neighbours: another order would change all published figures a little.
    """
    sources, targets = graph.edge_index.astype(np.int32)
    return graph.adjacency.starts.astype(np.int32), targets[np.argsort(sources, kind="stable")]
