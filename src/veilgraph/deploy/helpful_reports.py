"""Whose reports would help most: uncertainty that a walk from the uncertain people finds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from veilgraph.graph import Graph

_RESTART, _STEPS = 0.3, 10


def expected_help(graph: Graph, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Return a score for each node: how much uncertainty of its surroundings its report would reach, [nodes].

    Predictions weigh reports by walks on the graph. So the report of v reaches u about as much as a walk from u with
    restarts is at v (personalised PageRank). It matters as much as the prediction for u is uncertain:

    .. math:: h_v = \sum_u \bigl(1 - \max_x p_u(x)\bigr)\, \pi_u(v), \qquad
        \pi_u = 0.3\, e_u + 0.7\, A D^{-1} \pi_u

    Args:
        graph: the public graph.
        probabilities: class probabilities that use no label report of the node itself, [nodes, classes].

    >>> path = Graph.from_edges([[0, 1], [1, 2]], num_nodes=4)
    >>> expected_help(path, np.tile([0.5, 0.5], (4, 1))).round(2).tolist()
    [0.4, 0.7, 0.4, 0.15]
    """
    uncertain = 1 - probabilities.max(axis=1).astype(np.float64)
    ends, starts = graph.edge_index
    degrees = np.maximum(graph.degrees, 1)
    walks = uncertain
    for _ in range(_STEPS):
        arriving = np.bincount(ends, (walks / degrees)[starts], minlength=graph.num_nodes)
        walks = _RESTART * uncertain + (1 - _RESTART) * arriving
    return np.asarray(walks)
