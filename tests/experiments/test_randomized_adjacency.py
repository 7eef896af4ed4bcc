"""Randomized adjacency is drawn as its definition says."""

from __future__ import annotations

import math

import numpy as np

from veilgraph.datasets import csbm
from veilgraph.experiments.randomized_adjacency import false_neighbours, randomized_adjacency


def test_randomized_adjacency_keeps_and_adds_pairs_as_both_ends_would() -> None:
    graph = csbm(1000, num_classes=2, mean_degree=10, num_features=0, seed=0).graph
    keep = 1 / (1 + math.exp(-2.0))
    noisy = randomized_adjacency(graph, 2.0, np.random.default_rng(0))
    true, found = (set(map(tuple, each.edges.T.tolist())) for each in (graph, noisy))
    # Binomial counts: five standard deviations.
    kept = len(true & found)
    assert abs(kept - 5000 * keep**2) < 5 * math.sqrt(5000 * keep**2 * (1 - keep**2)) + 5000 * (1 - keep) ** 2
    added, expected = len(found - true), (1000 * 999 / 2 - 5000) * (1 - keep) ** 2
    # Drawn pairs that repeat another, are true or have equal ends are lost: about 1 in 50 here.
    assert 0.96 * expected < added < expected + 5 * math.sqrt(expected)


def test_a_small_graph_can_have_the_false_neighbours_of_more_people() -> None:
    graph = csbm(1000, num_classes=2, mean_degree=10, num_features=0, seed=0).graph
    noisy = randomized_adjacency(graph, 6.0, np.random.default_rng(0), people=1_000_000)
    added = 2 * (noisy.num_edges - graph.num_edges) / 1000  # of 10,000 bits of true pairs 50 are lost
    # Of 6 false neighbours each; 3,000 pairs have a standard deviation of 55.
    assert abs(added - false_neighbours(1_000_000, 6.0)) < 5 * 0.11 + 0.1


def test_without_noise_the_graph_stays_as_it_is() -> None:
    graph = csbm(100, num_classes=2, mean_degree=6, num_features=0, seed=0).graph
    np.testing.assert_array_equal(randomized_adjacency(graph, 60.0, np.random.default_rng(0)).edges, graph.edges)
