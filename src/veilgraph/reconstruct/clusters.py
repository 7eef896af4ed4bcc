"""Bags for learning from label proportions: METIS partitions of the public graph."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import MissingExtraError, ReconstructionError
from veilgraph.graph import Graph

try:
    import pymetis
except ImportError:
    raise MissingExtraError("pymetis", "server") from None


def cluster(graph: Graph, num_clusters: int, *, seed: int = 0) -> NDArray[np.int64]:
    """The cluster of each node: parts of about n/C nodes with few edges between them, the same for a seed.

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
    sources, targets = graph.edge_index
    order = np.argsort(sources, kind="stable")
    starts = np.concatenate([[0], np.cumsum(graph.degrees)])
    adjacency = pymetis.CSRAdjacency(starts, targets[order])
    result = pymetis.part_graph(num_clusters, adjacency, options=pymetis.Options(seed=seed))
    return np.asarray(result.vertex_part, dtype=np.int64)
