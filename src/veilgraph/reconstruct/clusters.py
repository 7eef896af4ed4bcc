"""Partitions of the public graph, by METIS where it has room: bags for learning from proportions, nested halves."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import MissingExtraError, ReconstructionError
from veilgraph.graph import Graph
from veilgraph.progress import say
from veilgraph.reconstruct.streaming import stream_partition

try:
    import pymetis
except ImportError:
    raise MissingExtraError("pymetis", "server") from None


MOST_METIS_EDGES = 5_000_000
"""METIS takes about 200 bytes for each edge beside the graph, and time that grows faster than edges do."""


def cluster(graph: Graph, num_clusters: int, *, seed: int = 0) -> NDArray[np.int64]:
    """The cluster of each node: parts of about n/C nodes with few edges between them, the same for a seed.

    Graphs of more than `MOST_METIS_EDGES` edges are partitioned by `stream_partition`.

    >>> two_triangles = Graph.from_edges([[0, 1, 2, 3, 4, 5, 2], [1, 2, 0, 4, 5, 3, 3]], num_nodes=6)
    >>> parts = cluster(two_triangles, 2)
    >>> bool((parts[:3] == parts[0]).all() and (parts[3:] == parts[3]).all() and parts[0] != parts[3])
    True
    """
    if not 1 <= num_clusters <= graph.num_nodes:
        raise ReconstructionError(
            f"num_clusters is {num_clusters} but there are {graph.num_nodes} nodes: choose 1 to {graph.num_nodes}"
        )
    if num_clusters == 1:  # METIS has nothing to do
        return np.zeros(graph.num_nodes, dtype=np.int64)
    if graph.num_edges > MOST_METIS_EDGES:
        say(f"bags: {graph.num_edges:,} edges are too many for METIS, nodes are streamed into {num_clusters} bags")
        return stream_partition(graph.adjacency, num_clusters, seed=seed)
    result = pymetis.part_graph(num_clusters, _metis_input(graph), options=pymetis.Options(seed=seed))
    return np.asarray(result.vertex_part, dtype=np.int64)


def bisect(graph: Graph, depth: int, *, seed: int = 0) -> NDArray[np.int64]:
    """Halves of the graph with few edges between them, halves of these, and so on: a code of `depth` bits per node.

    The first l bits of a code number 2^l parts, each of which is cut in two by the next bit. The seed decides between
    cuts that are about equally good, so that several seeds give several trees of parts.

    >>> path = Graph.from_edges([range(7), range(1, 8)], num_nodes=8)
    >>> codes = bisect(path, 2)
    >>> [len(set(codes[i : i + 2].tolist())) for i in (0, 2, 4, 6)], len(set((codes[:4] >> 1).tolist()))
    ([1, 1, 1, 1], 1)
    """
    if not 0 <= depth <= math.log2(graph.num_nodes):
        raise ReconstructionError(f"depth is {depth} but {graph.num_nodes} nodes cannot be halved so often")
    if depth == 0:  # METIS has nothing to do
        return np.zeros(graph.num_nodes, dtype=np.int64)
    # METIS numbers the parts of recursive bisection in the order of its tree.
    options = pymetis.Options(seed=seed)
    result = pymetis.part_graph(2**depth, _metis_input(graph), recursive=True, options=options)
    return np.asarray(result.vertex_part, dtype=np.int64)


def _metis_input(graph: Graph) -> pymetis.CSRAdjacency:
    """METIS breaks ties by the order of neighbours, so that another order would move every published figure a bit."""
    sources, targets = graph.edge_index.astype(np.int32)
    return pymetis.CSRAdjacency(graph.adjacency.starts, targets[np.argsort(sources, kind="stable")])
