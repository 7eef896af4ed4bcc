"""Spectral regression: eigenvectors without regularisation, and no need for homophily."""

from __future__ import annotations

import numpy as np
import torch
from studies.rivals.forward_gnn import POSITIONS
from studies.rivals.spectral_regression import COUNTS, RIDGES

from studies.rivals import ForwardGNN, SpectralRegression
from veilgraph.datasets import csbm
from veilgraph.evaluation import accuracy
from veilgraph.experiments import simulate
from veilgraph.graph import Graph, Split
from veilgraph.graph.spectrum import leading_eigenvectors
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.reconstruct.operators import GraphOperators


def test_without_regularisation_the_leading_eigenvector_is_the_root_of_the_degrees() -> None:
    star = Graph.from_edges([[0, 0, 0], [1, 2, 3]], num_nodes=4)
    # D^-1/2 A D^-1/2 has the eigenvector sqrt(degree) for 1, and its mirror image for -1: both have these magnitudes.
    expected = np.sqrt(np.array([3, 1, 1, 1]) / 6)
    assert np.allclose(np.abs(leading_eigenvectors(star, 2, regularised=False)), expected[:, None], atol=1e-5)


def test_classes_that_avoid_each_other_are_found() -> None:
    private = csbm(400, num_classes=2, homophily=0.1, mean_degree=10, num_features=0, seed=0)
    split = Split.random(400, seed=0)
    reports = simulate(private, PrivacyBudget(epsilon_y=2.0), split, rng=np.random.default_rng(0))
    rival = SpectralRegression(device="cpu").fit(reports, split)
    assert (rival.count_ in COUNTS, rival.ridge_ in RIDGES) == (True, True)
    # Chance is 1/2: five standard errors of 100 test nodes are 0.25.
    assert accuracy(rival.predict(), private, split.test) > 0.75


def test_the_forward_corrected_gnn_reads_positions_where_nobody_was_asked_for_features() -> None:
    private = csbm(80, num_classes=2, num_features=4, seed=0)
    operators, split = GraphOperators(private.graph), Split.random(80, seed=0)
    alone, asked = (
        simulate(private, budget, split, rng=np.random.default_rng(0))
        for budget in (PrivacyBudget(epsilon_y=1.0), PrivacyBudget(1.0, 1.0, 2))
    )
    method = ForwardGNN(feature_hops=2)
    assert torch.equal(method.network_inputs(alone, operators), operators.decompositions.eigenvectors(POSITIONS))
    assert method.network_inputs(asked, operators).shape == (80, 4)
    assert [method.input_columns(each) for each in (alone, asked)] == [POSITIONS, 4]
