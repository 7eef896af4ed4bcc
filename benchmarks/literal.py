"""Algorithms 1 and 2 as the paper prints them: one loop per line of pseudocode, nothing shared, nothing skipped.

The yardstick for speed, and the reference that tests compare the package with.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from veilgraph.graph import Graph

Rows = list[list[float]]


def neighbours_of(graph: Graph) -> list[list[int]]:
    """N(v) of every node."""
    neighbours: list[list[int]] = [[] for _ in range(graph.num_nodes)]
    for u, v in graph.edges.T.tolist():
        neighbours[u].append(v)
        neighbours[v].append(u)
    return neighbours


def propagate(rows: Rows, neighbours: list[list[int]], hops: int) -> Rows:
    """K times: every node's row becomes the mean over itself and its neighbours."""
    for _ in range(hops):
        updated = []
        for v, around in enumerate(neighbours):
            closed = [v, *around]
            updated.append([sum(rows[u][j] for u in closed) / len(closed) for j in range(len(rows[v]))])
        rows = updated
    return rows


def feature_frequencies(
    graph: Graph, reports: NDArray[np.integer], domain_sizes: Sequence[int], epsilon: float, sampled: int, hops: int
) -> list[Rows]:
    """Algorithm 1 up to its argmax: for each feature, pi~ of every node and value."""
    neighbours = neighbours_of(graph)
    d, m = len(domain_sizes), sampled
    estimates = []
    for i, gamma in enumerate(domain_sizes):
        one_hot = [[float(value == j) for j in range(gamma)] for value in reports[:, i].tolist()]
        observed = propagate(one_hot, neighbours, hops)
        p = math.exp(epsilon) / (math.exp(epsilon) + gamma - 1)
        q = 1 / (math.exp(epsilon) + gamma - 1)
        offset = (m - d - m * gamma * q) / (m * gamma * (p - q))
        estimates.append([[d * share / (m * (p - q)) + offset for share in row] for row in observed])
    return estimates


def label_frequencies(
    graph: Graph, labels: NDArray[np.integer], labelled: NDArray[np.bool_], classes: int, epsilon: float, hops: int
) -> Rows:
    """Algorithm 2 up to its argmax: pi~ = P^-1 lambda' of every node."""
    rows = [
        [float(known and label == k) for k in range(classes)]
        for label, known in zip(labels.tolist(), labelled.tolist(), strict=True)
    ]
    observed = propagate(rows, neighbours_of(graph), hops)
    p = math.exp(epsilon) / (math.exp(epsilon) + classes - 1)
    q = 1 / (math.exp(epsilon) + classes - 1)
    inverse = np.linalg.inv(np.full((classes, classes), q) + np.eye(classes) * (p - q))
    return [(inverse @ np.array(row)).tolist() for row in observed]
