"""Veil learns from weights, directions and kinds of links, and does not depend on how they are written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from veilgraph.datasets import PrivateGraph
from veilgraph.errors import FitError
from veilgraph.experiments.simulation import label_rng, simulate
from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.models.veil.model import Veil
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.schema import FeatureSchema

NODES, CLASSES = 360, 3
Told = dict[str, Any]


def _pairs(rng: np.random.Generator, per_node: int) -> NDArray[np.int64]:
    """Return random pairs of different nodes, each once."""
    pairs = np.sort(rng.integers(0, NODES, (2, NODES * per_node)), axis=0)
    return np.unique(pairs[:, pairs[0] != pairs[1]], axis=1)


def _made(told: str, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64], Told]:
    """Return labels, links that join people whatever their classes, and what tells more.

    Links within a class weigh more, or are often of a kind of their own; or links go from each class to the next.
    """
    rng = np.random.default_rng([seed, 5])
    labels = rng.integers(0, CLASSES, NODES)
    pairs = _pairs(rng, 12)
    first, second = labels[pairs]
    if told == "directed":
        turned = np.where(first == second, rng.random(len(first)) < 0.5, (first - second) % CLASSES == 1)
        return labels, np.where(turned, pairs[::-1], pairs), {"directed": True}
    if told == "weights":
        return labels, pairs, {"weights": np.where(first == second, 4.0, 1.0) * rng.lognormal(0, 0.3, len(first))}
    kinds = np.where((first == second) & (rng.random(len(first)) < 0.6), "friend", "other")
    return labels, pairs, {"kinds": kinds.tolist()}


def _collected(graph: Graph, labels: NDArray[np.int64], seed: int) -> tuple[PerturbedGraph, Split]:
    schema = FeatureSchema(columns=(), classes=tuple("abc"))
    records = np.zeros((NODES, 0), dtype=np.int64)
    private = PrivateGraph(name="made", graph=graph, schema=schema, features=records, labels=labels)
    split = Split.random(NODES, seed=seed)
    return simulate(private, PrivacyBudget(epsilon_y=2.0), split, rng=label_rng(seed)), split


def _accuracy(told: str, seed: int, *, known: bool) -> float:
    labels, links, extra = _made(told, seed)
    perturbed, split = _collected(Graph.from_edges(links, NODES, **(extra if known else {})), labels, seed)
    found = Veil(seed=seed).fit(perturbed, split).predict_proba().argmax(axis=1)
    return float((found == labels)[split.test].mean())


@pytest.mark.parametrize("told", ["weights", "directed", "kinds"])
def test_what_is_known_about_links_finds_classes_that_the_ends_hide(told: str) -> None:
    """A difference of 20 points over 180 test people is five standard errors."""
    with_links, without = ([_accuracy(told, seed, known=known) for seed in (100, 101)] for known in (True, False))
    assert np.mean(with_links) > np.mean(without) + 0.2


@pytest.fixture(scope="module")
def fitted() -> tuple[Veil, PerturbedGraph, Told]:
    labels, links, extra = _made("weights", 0)
    perturbed, split = _collected(Graph.from_edges(links, NODES, **extra), labels, 0)
    return Veil().fit(perturbed, split), perturbed, {"edges": links, "num_nodes": NODES} | extra


def test_the_unit_of_weights_changes_no_bit(fitted: tuple[Veil, PerturbedGraph, Told]) -> None:
    method, perturbed, told = fitted
    scaled = replace(perturbed, graph=Graph.from_edges(**told | {"weights": 8 * told["weights"]}))
    again = Veil().fit(scaled, Split.random(NODES, seed=0))
    assert np.array_equal(again.predict_proba(), method.predict_proba())


def test_equal_weights_change_no_bit(fitted: tuple[Veil, PerturbedGraph, Told]) -> None:
    _, perturbed, told = fitted
    graphs = (Graph.from_edges(told["edges"], NODES, weights=each) for each in (None, [2] * len(told["weights"])))
    plain, equal = (
        Veil().fit(replace(perturbed, graph=graph), Split.random(NODES, seed=0)).predict_proba() for graph in graphs
    )
    assert np.array_equal(plain, equal)


def test_reversing_all_links_changes_nothing_beyond_rounding() -> None:
    labels, links, extra = _made("directed", 0)
    forth, back = (Graph.from_edges(ends, NODES, **extra) for ends in (links, links[::-1]))
    perturbed, split = _collected(forth, labels, 0)
    one, other = (Veil().fit(replace(perturbed, graph=graph), split).predict_proba() for graph in (forth, back))
    assert not np.array_equal(one.argmax(axis=1), np.full(NODES, one.argmax(axis=1)[0]))
    np.testing.assert_allclose(one, other, atol=1e-4)


def test_another_graph_needs_what_the_fit_knew_about_links(fitted: tuple[Veil, PerturbedGraph, Told]) -> None:
    method, perturbed, told = fitted
    np.testing.assert_allclose(method.predict_proba(perturbed), method.predict_proba(), atol=1e-6)
    with pytest.raises(FitError, match="do not tell 'weights', which the model was trained with: give a table with"):
        method.predict_proba(replace(perturbed, graph=Graph.from_edges(told["edges"], NODES)))
