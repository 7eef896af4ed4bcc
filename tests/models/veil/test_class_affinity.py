"""Class affinity: unbiased from two randomized ends, and uniform where there is only noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from veilgraph.datasets import csbm
from veilgraph.experiments import simulate
from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.models.veil.class_affinity import ClassAffinity, estimate_class_affinity
from veilgraph.models.veil.cross_fitting import CrossFitting
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms import GRR, SubsetSelection
from veilgraph.privacy.mechanisms.registry import LabelRandomizer


def affinity_of(epsilon_y: float, seed: int = 0, *, label: LabelRandomizer = GRR, **population: float) -> ClassAffinity:
    private = csbm(2000, num_features=2, seed=seed, **population)  # type: ignore[arg-type]
    budget, split = PrivacyBudget(1.0, epsilon_y, 1), Split.random(2000, seed=seed)
    perturbed = simulate(private, budget, split, rng=np.random.default_rng(seed), label=label)
    found = estimate_class_affinity(CrossFitting.random(perturbed, seed=seed))
    assert found is not None
    return found


@pytest.mark.parametrize("homophily", [0.2, 0.5, 0.9])
def test_without_noise_the_diagonal_gives_the_share_of_edges_within_a_class(homophily: float) -> None:
    found = affinity_of(math.inf, num_classes=2, homophily=homophily)
    # Summed over classes, K_xx f_x^2 is the share of edges within a class. About 5600 of the 10000 edges have two
    # reports, so it has a standard error of at most sqrt(0.25 / 5600) = 0.0067.
    within = (found.matrix.diag() * found.end_shares.square()).sum()
    assert within.item() == pytest.approx(homophily, abs=5 * 0.0067)


def test_debiasing_recovers_the_affinity() -> None:
    clean = affinity_of(math.inf, num_classes=2, homophily=0.2)
    noisy = affinity_of(2.0, num_classes=2, homophily=0.2)
    # The gain is tanh(1) = 0.76: a standard error of 0.0067 / 0.76^2 in the homophily, twice that in K.
    assert torch.allclose(noisy.matrix, clean.matrix, atol=5 * 2 * 0.0067 / 0.58)
    assert not noisy.uniformly_assortative


def test_sets_recover_the_affinity_as_well() -> None:
    clean = affinity_of(math.inf, num_classes=4, homophily=0.2)
    sets = affinity_of(3.0, num_classes=4, homophily=0.2, label=lambda k, e: SubsetSelection(k, e, 2))
    # An entry of J' varies by at most 0.25^2 / 5600, J by that over (p - q)^4, and K by that over the shares of 1/4
    # of both ends. Five standard errors are allowed, and one of the clean estimate.
    gain = float(SubsetSelection(4, 3.0, 2).channel.gain)
    allowed = (5 * 0.25 / gain**2 + 0.25) / math.sqrt(5600) * 16
    assert (sets.matrix - clean.matrix).abs().max() < allowed
    assert (sets.matrix.diag() < 1).all()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("size", [2, 4])
def test_noise_of_sets_is_not_taken_for_affinity(seed: int, size: int) -> None:
    found = affinity_of(0.5, seed, num_classes=10, homophily=0.8, label=lambda k, e: SubsetSelection(k, e, size))
    assert found.uniformly_assortative


@pytest.mark.parametrize("seed", range(3))
def test_classes_that_attract_themselves_equally_are_uniformly_assortative(seed: int) -> None:
    assert affinity_of(0.5, seed, num_classes=4, homophily=0.8).uniformly_assortative


def test_without_an_edge_between_two_reports_there_is_no_estimate() -> None:
    private = csbm(50, num_features=2, num_classes=2)
    graph = Graph.from_edges([[0], [1]], num_nodes=50)
    split = Split.random(50, seed=0)
    perturbed = simulate(private, PrivacyBudget(1.0, 1.0, 1), split, rng=np.random.default_rng(0))
    alone = perturbed.has_label.copy()
    alone[:2] = [True, False]
    perturbed = PerturbedGraph(
        **{**{f: getattr(perturbed, f) for f in perturbed.__dataclass_fields__}, "graph": graph, "has_label": alone}
    )
    assert estimate_class_affinity(CrossFitting.random(perturbed, seed=0)) is None
