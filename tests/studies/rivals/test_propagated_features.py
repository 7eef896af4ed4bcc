"""UPGNet and PrivGE: inputs by hand, the loss by hand, and accuracy against chance."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from studies.rivals.propagated_features import PropagatedFeatures
from studies.rivals.upgnet import soft_threshold

from studies.rivals import PrivGE, UPGNet
from veilgraph.datasets import csbm
from veilgraph.errors import FitError
from veilgraph.experiments import simulate
from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.models.base import FitTask
from veilgraph.models.engine.output_layer import ALL_NODES
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms import GRR, MultiBit
from veilgraph.privacy.schema import FeatureSchema
from veilgraph.reconstruct.operators import GraphOperators

SPLIT = Split(
    train=np.array([True, True, False]),
    validation=np.array([False, False, True]),
    test=np.array([False, False, False]),
)
# Two features of which one is sampled, at epsilon ln 3: estimates are 2 * (3 + 1) / (3 - 1) = 4 times the answers.
REPORTS = PerturbedGraph(
    graph=Graph.from_edges([[0, 1], [1, 2]], num_nodes=3),
    schema=FeatureSchema.binary(2, classes=["a", "b"]),
    features=np.array([[1, 0], [-1, 0], [0, 1]], dtype=np.int8),
    labels=np.array([0, 1, 0]),
    has_features=np.array([True, True, True]),
    has_label=np.array([True, True, True]),
    feature_mechanism=MultiBit((0.0,) * 2, (1.0,) * 2, sampled=1, epsilon=math.log(3)),
    label_mechanism=GRR(2, epsilon=math.log(3)),
)


def inputs_of(method: PropagatedFeatures, reports: PerturbedGraph = REPORTS) -> torch.Tensor:
    return method.network_inputs(reports, GraphOperators(reports.graph))


def test_upgnet_shrinks_multi_bit_estimates_and_averages_over_hops() -> None:
    # Shrunk by a quarter, answers are worth 3. With one hop, the weight of each edge is 1 / sqrt 2.
    expected = torch.tensor([[-3.0, 0.0], [3.0, 3.0], [-3.0, 0.0]]) / math.sqrt(2)
    assert torch.allclose(inputs_of(UPGNet(feature_hops=1, threshold=0.25)), expected, atol=1e-5)


def test_privge_restarts_at_the_estimates() -> None:
    hop = torch.tensor([[-4.0, 0.0], [4.0, 4.0], [-4.0, 0.0]]) / math.sqrt(2)
    own = torch.tensor([[4.0, 0.0], [-4.0, 0.0], [0.0, 4.0]])
    assert torch.allclose(inputs_of(PrivGE(feature_hops=1, restart=0.25)), 0.25 * own + 0.75 * hop, atol=1e-5)


def test_nodes_without_feature_reports_have_no_estimate() -> None:
    silent = replace(REPORTS, has_features=np.array([True, True, False]))
    assert torch.allclose(inputs_of(PrivGE(feature_hops=0), silent)[2], torch.zeros(2))


def test_node_feature_regularization_minimises_its_penalised_square() -> None:
    values, threshold = torch.tensor([-2.0, -0.3, 0.0, 0.7, 1.5]), 0.7
    grid = torch.linspace(-3, 3, 6001).unsqueeze(1)
    best = grid[((grid - values) ** 2 / 2 + threshold * grid.abs()).argmin(dim=0), 0]
    assert torch.allclose(soft_threshold(values, threshold), best, atol=1e-3)


def loss_of(reports: PerturbedGraph, predicted: torch.Tensor) -> float:
    task = FitTask(method=UPGNet(), perturbed=reports, split=SPLIT)
    loss = UPGNet.make_loss([task], GraphOperators(reports.graph), ALL_NODES)
    return float(loss(predicted.log().T.unsqueeze(0)))


def test_the_loss_is_the_likelihood_of_the_reports() -> None:
    predicted = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    # A report is right with probability 3/4: 3/4 * .9 + 1/4 * .1 = .7 and 3/4 * .8 + 1/4 * .2 = .65.
    assert loss_of(REPORTS, predicted) == pytest.approx(-(math.log(0.7) + math.log(0.65)) / 2, abs=1e-6)


def test_without_randomization_the_loss_is_the_cross_entropy_however_small_a_prediction_is() -> None:
    predicted = torch.tensor([[1e-30, 1.0], [0.2, 0.8], [0.6, 0.4]])
    exact = replace(REPORTS, label_mechanism=GRR(2, epsilon=math.inf))
    assert loss_of(exact, predicted) == pytest.approx(-(math.log(1e-30) + math.log(0.8)) / 2, rel=1e-5)


@pytest.mark.parametrize("method", [UPGNet, PrivGE])
def test_other_feature_reports_are_refused(method: type[PropagatedFeatures]) -> None:
    private = csbm(50, num_classes=2, num_features=3, seed=0)
    split = Split.random(50, seed=0)
    reports = simulate(private, PrivacyBudget(1.0, 1.0, 1), split, rng=np.random.default_rng(0))
    with pytest.raises(FitError, match="needs multi-bit reports, not those of GRRFS"):
        method(epochs=1).fit(reports, split)


def test_a_threshold_that_leaves_nothing_is_refused() -> None:
    with pytest.raises(FitError, match="threshold is 1"):
        UPGNet(threshold=1.0).fit(REPORTS, SPLIT)
