"""Randomized neighbour lists in simulations: the graph that a server makes of them, and what a report of one costs.

`RandomizedNeighbourList` is the mechanism. In the literature it is randomized adjacency: randomized response on every
bit of the adjacency matrix.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from veilgraph.graph import Graph
from veilgraph.privacy.mechanisms import RandomizedNeighbourList


def draw_mutual_pairs(graph: Graph, epsilon: float, rng: np.random.Generator, *, people: int | None = None) -> Graph:
    """Return the graph of all pairs who name each other, if every list of a graph is randomized and reported.

    A true pair stays with probability p^2, p = 1 / (1 + e^-epsilon), and any other pair appears with (1 - p)^2. Pairs
    are drawn at once, without the lists: a bit for every two people would take far longer.

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


@dataclass(frozen=True, kw_only=True)
class ListFacts:
    """What a randomized list costs, on average over people.

    Attributes:
        false_neighbours: false neighbours of a person, where a pair counts if both ends name each other.
        names: people that a report names, most of them by chance.
        answer_bytes: size of an answer, a bit for each person as text; the same for every list.
    """

    false_neighbours: float
    names: float
    answer_bytes: int


def list_facts(answer: RandomizedNeighbourList, mean_degree: float) -> ListFacts:
    """Return size and errors of randomized lists of a mean length.

    >>> facts = list_facts(RandomizedNeighbourList(2708, 4.0), mean_degree=3.9)
    >>> round(facts.false_neighbours, 1), round(facts.names), facts.answer_bytes
    (0.9, 52, 452)
    """
    people, channel = answer.num_people, answer.bit.channel
    names = mean_degree * float(channel.keep) + (people - mean_degree) * float(channel.other)
    return ListFacts(
        false_neighbours=answer.false_neighbours,
        names=names,
        answer_bytes=len(answer.longest_report),
    )
