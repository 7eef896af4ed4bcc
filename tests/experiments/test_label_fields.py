"""Plausible labels: they have the wanted shares and assortativity, and depend on the graph alone."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import expm

from veilgraph.datasets import csbm
from veilgraph.errors import RunError
from veilgraph.experiments.label_fields import LabelFields, assortativity, chance_homophily, divide
from veilgraph.graph import Graph

MODEL = csbm(1200, num_classes=4, mean_degree=8, homophily=0.9, num_features=0, seed=0)


@pytest.mark.parametrize("wanted", [0.0, 0.2, 0.5])
def test_labels_have_the_wanted_assortativity(wanted: float) -> None:
    fields = LabelFields(graph=MODEL.graph, num_classes=4)
    for seed in range(3):
        labels = fields.draw(np.random.default_rng(seed), wanted=wanted)
        # Nodes are mixed independently. With 1,200 nodes of 8 neighbours the standard deviation is at most about 0.03.
        assert abs(assortativity(MODEL.graph, labels) - wanted) < 0.1


def test_no_more_is_reached_than_the_graph_allows() -> None:
    fields, rng = LabelFields(graph=MODEL.graph, num_classes=4), np.random.default_rng(0)
    labels = fields.draw(rng, wanted=1.0)
    assert 0 < fields.largest_assortativity < 1
    assert assortativity(MODEL.graph, labels) < 1


def test_labels_of_a_ring_may_be_independent_of_its_edges() -> None:
    """No node keeps its class: the probabilities of all nodes vanish at one scale, up to rounding."""
    ring = Graph.from_edges([list(range(60)), [(node + 1) % 60 for node in range(60)]], num_nodes=60)
    fields = LabelFields(graph=ring, num_classes=2)
    for seed in range(200):
        assert set(fields.draw(np.random.default_rng(seed), homophily=0.2).tolist()) <= {0, 1}


def test_the_graph_decides_what_is_reached() -> None:
    # Classes can follow the blocks of a block model, and nothing in a graph without them.
    without = csbm(1200, num_classes=4, mean_degree=8, homophily=0.25, num_features=0, seed=0)
    structured, random = (LabelFields(graph=each.graph, num_classes=4) for each in (MODEL, without))
    assert structured.largest_assortativity > random.largest_assortativity + 0.1


def test_shares_are_unequal_and_none_is_tiny() -> None:
    rng = np.random.default_rng(0)
    fields = LabelFields(graph=MODEL.graph, num_classes=4)
    drawn = np.array([fields.draw_shares(rng) for _ in range(200)])
    assert np.abs(drawn.sum(axis=1) - 1).max() < 1e-12
    assert drawn.min() > 0.03
    assert drawn.max() > 0.6
    # A homophily of 0.3 rules out shares of which chance alone gives more.
    assert max(chance_homophily(fields.draw_shares(rng, homophily=0.3)) for _ in range(50)) < 0.3


@pytest.mark.parametrize("homophily", [0.4, 0.6])
def test_labels_have_a_known_homophily(homophily: float) -> None:
    fields, rng = LabelFields(graph=MODEL.graph, num_classes=4), np.random.default_rng(0)
    first, second = MODEL.graph.edges
    for labels in (fields.draw(rng, homophily=homophily) for _ in range(10)):
        assert abs((labels[first] == labels[second]).mean() - homophily) < 0.1


def test_the_same_seed_draws_the_same_labels() -> None:
    first, second = (
        LabelFields(graph=MODEL.graph, num_classes=4, seed=1).draw(np.random.default_rng(2), wanted=0.4)
        for _ in range(2)
    )
    assert (first == second).all()


def adjacency(graph: Graph) -> NDArray[np.float64]:
    dense = np.zeros((graph.num_nodes, graph.num_nodes))
    dense[tuple(graph.edges)] = 1
    return dense + dense.T


@pytest.mark.parametrize("time", [1.0, 16.0, 256.0])
def test_noise_diffuses_by_the_heat_kernel(time: float) -> None:
    graph = csbm(80, num_classes=2, mean_degree=6, num_features=0, seed=0).graph
    dense = adjacency(graph)
    walk = dense / dense.sum(axis=1, keepdims=True).clip(1)
    white = np.random.default_rng(3).standard_normal((80, 2))
    expected = expm(-time * (np.eye(80) - walk)) @ white
    found = LabelFields(graph=graph, num_classes=2).diffuse(white, time)
    assert np.abs(found - expected).max() < 1e-6


def test_division_gives_each_class_its_share() -> None:
    rng = np.random.default_rng(0)
    for shares in ([0.5, 0.5], [0.9, 0.1], [0.6, 0.3, 0.1]):
        found = np.bincount(divide(rng.standard_normal((2000, len(shares))), np.array(shares))) / 2000
        assert np.abs(found - shares).max() < 0.03


def test_chance_is_the_probability_that_two_people_are_of_one_class() -> None:
    rng = np.random.default_rng(0)
    labels = rng.choice(3, size=(2, 100_000), p=[0.5, 0.3, 0.2])
    same = (labels[0] == labels[1]).mean()
    assert abs(same - chance_homophily(np.array([0.5, 0.3, 0.2]))) < 5 * np.sqrt(0.25 / 100_000)


@pytest.mark.parametrize("edges", [[[0, 0], [1, 2]], [[0, 0, 0], [1, 2, 3]], [[0, 1, 2], [1, 2, 3]]])
def test_tiny_graphs_have_labels_of_at_least_two_classes(edges: list[list[int]]) -> None:
    graph = Graph.from_edges(edges, num_nodes=1 + max(map(max, edges)))
    fields, rng = LabelFields(graph=graph, num_classes=2), np.random.default_rng(0)
    for _ in range(20):
        assert len(set(fields.draw(rng, wanted=rng.random()).tolist())) == 2


@pytest.mark.parametrize("classes", [1, 4, 5])
def test_classes_need_nodes(classes: int) -> None:
    with pytest.raises(RunError, match=f"{classes} classes and 4 nodes"):
        LabelFields(graph=Graph.from_edges([[0, 1, 2], [1, 2, 3]], num_nodes=4), num_classes=classes)
