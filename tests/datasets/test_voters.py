"""The embedded voters: drawn by the stated law, with the properties that the docstring claims."""

from __future__ import annotations

from functools import cache

import numpy as np

from veilgraph.datasets import PrivateGraph, voters


@cache
def embedded() -> PrivateGraph:
    return voters()


def test_two_draws_are_equal() -> None:
    again = voters()
    assert again.fingerprint == embedded().fingerprint


def test_the_graph_is_simple_of_the_stated_size_with_hubs() -> None:
    graph = embedded().graph
    low, high = graph.edges
    assert graph.num_nodes == 2000
    assert (low < high).all()
    assert np.unique(graph.edges, axis=1).shape[1] == graph.num_edges == 8000
    degrees = embedded().graph.degrees
    assert np.median(degrees) < degrees.mean() < degrees.max() / 10


def test_parties_differ_in_size_and_the_largest_has_about_its_share() -> None:
    private = embedded()
    sizes = np.bincount(private.labels, minlength=private.schema.num_classes)
    assert private.schema.num_classes == 10
    assert sizes.min() > 0
    assert sizes.max() > 5 * np.median(sizes)
    # Leading parties follow the shares 1 / (c H_10); places differ in size, with a relative deviation of 1 / sqrt(2),
    # so the share of the largest party deviates by about sqrt(0.34 * 0.66 * 1.5 / 40) = 0.09.
    share = (embedded().labels == 0).mean()
    assert abs(share - 1 / sum(1 / c for c in range(1, 11))) < 3 * 0.09


def test_homophily_is_moderate_and_well_above_chance() -> None:
    private = embedded()
    shares = np.bincount(private.labels) / private.graph.num_nodes
    # 0.9 of edges within a place; there, both are loyal with probability 0.81; anything else agrees by chance.
    assert 0.9 * 0.81 - 0.03 < private.homophily < 0.9 * (0.81 + 0.19 * shares.max()) + 0.1
    assert private.homophily > 3 * (shares**2).sum()


def test_every_answer_says_something_about_the_party_and_no_answer_decides_it() -> None:
    private = embedded()
    largest = private.features[private.labels == 0]
    for codes in largest.T:
        # The preferred answer has probability 0.3 + 0.7 / 3 = 0.53; five standard deviations to each side.
        top = np.bincount(codes, minlength=3).max() / len(codes)
        assert abs(top - (0.3 + 0.7 / 3)) < 5 * (0.53 * 0.47 / len(codes)) ** 0.5
