"""The same people in another order, and beside people who say nothing, get the same classes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.public_data import real_folder
from veilgraph.datasets import PrivateGraph, csbm, load
from veilgraph.experiments import simulate
from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.models import Veil
from veilgraph.privacy.budget import PrivacyBudget

AGREEMENT = 0.995
"""Share of people who must keep their class: sums are rounded in another order, and some people are undecided."""


def collected(private: PrivateGraph, epsilon_y: float) -> PerturbedGraph:
    """Return reports of people with ids."""
    nodes, graph = private.graph.num_nodes, private.graph
    named = replace(private, graph=replace(graph, node_ids=tuple(f"person {node}" for node in range(nodes))))
    sampled = min(4, private.schema.num_features)
    budget = PrivacyBudget(2.0, epsilon_y, sampled) if sampled else PrivacyBudget(epsilon_y=epsilon_y)
    return simulate(named, budget, Split.random(nodes, seed=0), rng=np.random.default_rng(0))


def regrouped(perturbed: PerturbedGraph, rows: NDArray[np.int64], edges: NDArray[np.int64]) -> PerturbedGraph:
    """Return a table with the person of a row of the first in each row; row -1 is a new person who reported nothing."""
    known, ids = rows >= 0, perturbed.graph.names
    names = [ids[row] if row >= 0 else f"new {number}" for number, row in enumerate(rows)]
    arrays: dict[str, Any] = {name: getattr(perturbed, name)[rows] for name in ("features", "labels")}
    arrays |= {name: getattr(perturbed, name)[rows] & known for name in ("has_features", "has_label")}
    arrays["labels"][~known] = perturbed.labels[~perturbed.has_label][0]
    return replace(perturbed, graph=Graph.from_edges(edges, len(rows), node_ids=names), **arrays)


def shuffled(perturbed: PerturbedGraph, seed: int = 1) -> tuple[PerturbedGraph, NDArray[np.int64]]:
    """Return the same people in another order, and the new row of each."""
    rows = np.random.default_rng(seed).permutation(perturbed.graph.num_nodes)
    places = np.argsort(rows)
    return regrouped(perturbed, rows, places[perturbed.graph.edges]), places


def with_isolated(perturbed: PerturbedGraph) -> tuple[PerturbedGraph, NDArray[np.int64]]:
    """Return the people with a fifth as many others, who have no neighbours and reported nothing."""
    nodes = perturbed.graph.num_nodes
    rows = np.append(np.arange(nodes), np.full(nodes // 5, -1))
    return regrouped(perturbed, rows, perturbed.graph.edges), np.arange(nodes)


def twice(perturbed: PerturbedGraph) -> PerturbedGraph:
    """Return two copies of the people, their links and their reports."""
    nodes, edges = perturbed.graph.num_nodes, perturbed.graph.edges
    names = [f"{copy} {name}" for copy in ("first", "second") for name in perturbed.graph.names]
    graph = Graph.from_edges(np.concatenate([edges, edges + nodes], axis=1), 2 * nodes, node_ids=names)
    names_of_arrays = ("features", "labels", "has_features", "has_label")
    arrays: dict[str, Any] = {name: np.concatenate([getattr(perturbed, name)] * 2) for name in names_of_arrays}
    return replace(perturbed, graph=graph, **arrays)


def twins_agree(perturbed: PerturbedGraph) -> float:
    """Return the share of silent people whose copy gets the same class; a report is in a fold by the id of its copy."""
    first, second = np.split(fit(twice(perturbed)).argmax(1), 2)
    return float((first == second)[~perturbed.has_label].mean())


def fit(perturbed: PerturbedGraph) -> NDArray[np.float32]:
    nodes = perturbed.graph.num_nodes
    return Veil().fit(perturbed, Split.random(nodes, seed=0, eligible=perturbed.has_label)).predict_proba()


@pytest.mark.parametrize("changed", [shuffled, with_isolated])
def test_people_keep_their_class_in_another_table(changed: Any) -> None:
    perturbed = collected(csbm(800, num_classes=3, mean_degree=5, num_features=4, seed=0), 1.0)
    (again, places), before = changed(perturbed), fit(perturbed)
    after = fit(again)[places]
    assert (after.argmax(1) == before.argmax(1)).mean() >= AGREEMENT
    assert np.median(np.abs(after - before)) < 1e-3


def test_copies_of_a_person_get_the_same_class() -> None:
    assert twins_agree(collected(csbm(800, num_classes=3, mean_degree=5, num_features=4, seed=0), 1.0)) >= AGREEMENT


@pytest.mark.slow
@pytest.mark.parametrize("changed", [shuffled, with_isolated])
@pytest.mark.parametrize("name", ["cora", "citeseer", "lastfm"])
def test_people_of_real_graphs_keep_their_class_in_another_table(name: str, changed: Any) -> None:
    perturbed = collected(load(name, real_folder()), 1.0)
    (again, places), before = changed(perturbed), fit(perturbed)
    assert (fit(again)[places].argmax(1) == before.argmax(1)).mean() >= AGREEMENT


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cora", "citeseer", "lastfm"])
def test_copies_of_a_person_of_a_real_graph_get_the_same_class(name: str) -> None:
    assert twins_agree(collected(load(name, real_folder()), 1.0)) >= AGREEMENT
