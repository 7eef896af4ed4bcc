"""Couplings: unbiased from two randomized ends, and silent where there is only noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from veilgraph.datasets import csbm
from veilgraph.experiments import simulate
from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.models.veil.class_affinity import Coupling, estimate_coupling
from veilgraph.models.veil.cross_fitting import HeldOutLabels
from veilgraph.privacy.budget import PrivacyBudget


def coupling_of(epsilon_y: float, seed: int = 0, **population: float) -> Coupling:
    private = csbm(2000, num_features=2, seed=seed, **population)  # type: ignore[arg-type]
    perturbed = simulate(
        private, PrivacyBudget(1.0, epsilon_y, 1), Split.random(2000, seed=seed), rng=np.random.default_rng(seed)
    )
    found = estimate_coupling(HeldOutLabels.of(perturbed, seed=seed))
    assert found is not None
    return found


@pytest.mark.parametrize("homophily", [0.2, 0.5, 0.9])
def test_without_noise_it_is_how_much_likelier_than_chance_edges_join_classes(homophily: float) -> None:
    found = coupling_of(math.inf, num_classes=2, homophily=homophily)
    # Summed over classes, K_xx f_x^2 is the share of edges within a class. About 5600 of the 10000 edges have two
    # reports, so it has a standard error of at most sqrt(0.25 / 5600) = 0.0067.
    within = (found.matrix.diag() * found.ends.square()).sum()
    assert within.item() == pytest.approx(homophily, abs=5 * 0.0067)


def test_debiasing_brings_the_coupling_back() -> None:
    clean = coupling_of(math.inf, num_classes=2, homophily=0.2)
    noisy = coupling_of(2.0, num_classes=2, homophily=0.2)
    # The gain is tanh(1) = 0.76: a standard error of 0.0067 / 0.76^2 in the homophily, twice that in K.
    assert torch.allclose(noisy.matrix, clean.matrix, atol=5 * 2 * 0.0067 / 0.58)
    assert not noisy.plain


@pytest.mark.parametrize("seed", range(3))
def test_classes_that_attract_themselves_alike_are_plain(seed: int) -> None:
    assert coupling_of(0.5, seed, num_classes=4, homophily=0.8).plain


def test_without_an_edge_between_two_reports_there_is_nothing_to_learn() -> None:
    private = csbm(50, num_features=2, num_classes=2)
    graph = Graph.from_edges([[0], [1]], num_nodes=50)
    split = Split.random(50, seed=0)
    perturbed = simulate(private, PrivacyBudget(1.0, 1.0, 1), split, rng=np.random.default_rng(0))
    alone = perturbed.has_label.copy()
    alone[:2] = [True, False]
    perturbed = PerturbedGraph(
        **{**{f: getattr(perturbed, f) for f in perturbed.__dataclass_fields__}, "graph": graph, "has_label": alone}
    )
    assert estimate_coupling(HeldOutLabels.of(perturbed, seed=0)) is None
