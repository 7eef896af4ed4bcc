"""Randomized response on every bit of the adjacency matrix: the known way to collect a private graph."""

from __future__ import annotations

import math

import numpy as np

from veilgraph.graph import Graph


def randomized_adjacency(graph: Graph, epsilon: float, rng: np.random.Generator, *, people: int | None = None) -> Graph:
    """Return the pairs that both ends report after randomized response on every bit of the adjacency matrix.

    A true pair stays with probability p^2, p = 1 / (1 + e^-epsilon), and any other pair appears with (1 - p)^2. One
    entry of one list has epsilon, a relationship that both ends report twice as much. A report has a bit for each
    person.

    Args:
        graph: the true graph.
        epsilon: budget of one entry of a list.
        rng: source of randomness.
        people: draw as many false neighbours for each person as among this many people; default: those of the graph.
    """
    nodes, keep = graph.num_nodes, 1 / (1 + math.exp(-epsilon))
    kept = graph.edges[:, rng.random(graph.num_edges) < keep**2]
    others = nodes * (nodes - 1) // 2 - graph.num_edges
    chance = min((1 - keep) ** 2 * (people or nodes) / nodes, 1.0)
    pairs = rng.integers(0, nodes, size=(2, int(rng.binomial(others, chance))))
    # A drawn pair is a true one or a repetition with a probability of about degree / nodes: few are lost.
    return Graph.from_edges(np.concatenate([kept, pairs], axis=1), nodes, node_ids=graph.node_ids)


def false_neighbours(people: int, epsilon: float) -> float:
    """Return how many false neighbours a person has on average, where a pair counts if both ends report it.

    >>> round(false_neighbours(2708, 4.0), 1), round(false_neighbours(10_000_000, 4.0), -2)
    (0.9, 3200.0)
    """
    return people / (1 + math.exp(epsilon)) ** 2


def report_bytes(people: int) -> int:
    """Return the size of a report: one bit for each person.

    >>> report_bytes(22470)
    2809
    """
    return -(-people // 8)
