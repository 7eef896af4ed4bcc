"""LPGNN against values computed by hand, and against chance."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from veilgraph.datasets import csbm
from veilgraph.errors import FitError
from veilgraph.evaluation import accuracy
from veilgraph.experiments import simulate
from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.models import LPGNN
from veilgraph.models.base import FitTask
from veilgraph.models.engine.output_layer import ALL_NODES
from veilgraph.models.lpgnn import multi_bit_values
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms import GRR, MultiBit
from veilgraph.privacy.mechanisms.registry import multi_bit
from veilgraph.privacy.schema import FeatureSchema
from veilgraph.reconstruct.operators import GraphOperators

PATH = Graph.from_edges([[0, 1], [1, 2]], num_nodes=3)
SPLIT = Split(
    train=np.array([True, True, False]),
    validation=np.array([False, False, True]),
    test=np.array([False, False, False]),
)
# Labels 0, 1, 0 were reported by GRR with p = 3/4, q = 1/4; the one feature is a single bit.
REPORTS = PerturbedGraph(
    graph=PATH,
    schema=FeatureSchema.binary(1, classes=["a", "b"]),
    features=np.array([[1], [-1], [1]], dtype=np.int8),
    labels=np.array([0, 1, 0]),
    has_features=np.array([True, True, True]),
    has_label=np.array([True, True, True]),
    feature_mechanism=MultiBit((0.0,), (1.0,), sampled=1, epsilon=1.0),
    label_mechanism=GRR(2, epsilon=math.log(3)),
)
PREDICTED = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])


def loss_of(
    method: LPGNN, perturbed: PerturbedGraph = REPORTS, predicted: torch.Tensor = PREDICTED, split: Split = SPLIT
) -> float:
    """Return the method's loss for given predictions."""
    task = FitTask(method=method, perturbed=perturbed, split=split)
    return float(LPGNN.make_loss([task], GraphOperators(perturbed.graph), ALL_NODES)(predicted.log().T.unsqueeze(0)))


def test_the_loss_equals_hand_computed_values_with_and_without_correction() -> None:
    # One hop with weights 1 / sqrt 2. Denoised: node 0 hears "1" only, node 1 hears "0" twice.
    # Through the channel, 1/4 + 1/2 of a prediction: (.7, .3), (.35, .65), (.55, .45).
    # Expected at node 0 for class 1: .65 / sqrt 2; at node 1 for class 0: (.7 + .55) / sqrt 2.
    expected = -(math.log(0.65 / math.sqrt(2)) + math.log(1.25 / math.sqrt(2))) / 2
    assert expected == pytest.approx(0.45039, abs=1e-5)
    assert loss_of(LPGNN(label_hops=1)) == pytest.approx(expected, abs=1e-6)
    # The same with the predictions themselves: .8 / sqrt 2 and (.9 + .6) / sqrt 2.
    expected = -(math.log(0.8 / math.sqrt(2)) + math.log(1.5 / math.sqrt(2))) / 2
    assert expected == pytest.approx(0.25541, abs=1e-5)
    assert loss_of(LPGNN(label_hops=1, forward_correction=False)) == pytest.approx(expected, abs=1e-6)


def test_without_hops_the_loss_is_the_corrected_likelihood_of_the_reports() -> None:
    # Nodes 0 and 1 reported 0 and 1: .7 and .65 after the channel.
    assert loss_of(LPGNN(label_hops=0)) == pytest.approx(-math.log(0.7 * 0.65) / 2, abs=1e-6)


def test_a_channel_without_noise_needs_no_correction() -> None:
    certain = replace(REPORTS, label_mechanism=GRR(2, epsilon=math.inf))
    corrected, plain = (loss_of(LPGNN(label_hops=1, forward_correction=on), certain) for on in (True, False))
    assert corrected == pytest.approx(plain, abs=1e-6)


def test_a_node_without_label_reports_in_reach_is_not_treated_as_class_0() -> None:
    # Node 1 is silent, so node 0 hears nothing: the term of node 1, which hears "0" twice, is all there is.
    silent = replace(REPORTS, has_label=np.array([True, False, True]))
    both_train = Split(train=np.array([True, True, False]), validation=SPLIT.validation, test=SPLIT.test)
    with pytest.raises(FitError, match="no label report is 1 hops from a training node"):
        loss_of(LPGNN(label_hops=1), silent, split=both_train)
    # Four nodes in a row: 0 hears only the silent 1, while 2 hears 3.
    longer = Graph.from_edges([[0, 1, 2], [1, 2, 3]], num_nodes=4)
    perturbed = replace(
        REPORTS,
        graph=longer,
        features=np.ones((4, 1), dtype=np.int8),
        labels=np.array([1, 1, 1, 1]),
        has_features=np.ones(4, dtype=np.bool_),
        has_label=np.array([True, False, True, True]),
    )
    split = Split(
        train=np.array([True, False, True, False]),
        validation=np.array([False, False, False, True]),
        test=np.array([False, True, False, False]),
    )
    predicted = torch.full((4, 2), 0.5)
    # At node 2 (degree 2) the expected share of class 1 is (1 / sqrt 4 + 1 / sqrt 2) / 2.
    loss = loss_of(LPGNN(label_hops=1), perturbed, predicted, split)
    assert loss == pytest.approx(-math.log((0.5 + math.sqrt(0.5)) / 2), abs=1e-6)


def test_replicas_keep_their_own_targets_and_channels() -> None:
    # The first two hand-computed losses above together, and a channel without noise as a third replica.
    methods = [LPGNN(label_hops=1), LPGNN(label_hops=1, forward_correction=False), LPGNN(label_hops=1)]
    reports = [REPORTS, REPORTS, replace(REPORTS, label_mechanism=GRR(2, epsilon=math.inf))]
    tasks = [FitTask(method=method, perturbed=each, split=SPLIT) for method, each in zip(methods, reports, strict=True)]
    losses = LPGNN.make_loss(tasks, GraphOperators(PATH), ALL_NODES)(PREDICTED.log().T.expand(3, -1, -1))
    assert losses.tolist() == pytest.approx([0.45039, 0.25541, 0.25541], abs=1e-5)


def test_every_replica_uses_its_own_number_of_hops() -> None:
    hops = [2, 0, 1, 2, 5]
    methods = [LPGNN(label_hops=each) for each in hops]
    tasks = [FitTask(method=method, perturbed=REPORTS, split=SPLIT) for method in methods]
    losses = LPGNN.make_loss(tasks, GraphOperators(PATH), ALL_NODES)(PREDICTED.log().T.expand(len(hops), -1, -1))
    assert losses.tolist() == pytest.approx([loss_of(method) for method in methods], abs=1e-6)
    assert len({round(loss, 3) for loss in losses.tolist()}) > 1  # the path is bipartite: odd and even hops


@pytest.mark.parametrize("hops", [0, 1, 3])
def test_inputs_are_unbiased_values_aggregated_over_hops(hops: int) -> None:
    private = csbm(40, num_features=(3,) * 5, mean_degree=4, seed=1)
    split = Split.random(40, seed=1)
    perturbed = simulate(private, PrivacyBudget(1.5, 1.0, 2), split, rng=np.random.default_rng(1), features=multi_bit)
    # d/m (upper - lower) / (2 (2p - 1)) x' + (lower + upper) / 2, with codes 0..2 and 2p - 1 = tanh(epsilon / 2).
    values = 5 / 2 * 2 / (2 * math.tanh(0.75)) * perturbed.features + 1
    adjacency = np.zeros((40, 40))
    adjacency[tuple(private.graph.edge_index)] = 1
    scale = np.diag(1 / np.sqrt(np.maximum(private.graph.degrees, 1)))
    expected = np.linalg.matrix_power(scale @ adjacency @ scale, hops) @ values
    found = LPGNN(feature_hops=hops).network_inputs(perturbed, GraphOperators(private.graph))
    assert np.allclose(found, expected, atol=1e-4)


def test_reports_of_another_mechanism_are_refused() -> None:
    private, split = csbm(40, num_features=5, seed=1), Split.random(40, seed=1)
    perturbed = simulate(private, PrivacyBudget(1.0, 1.0, 2), split, rng=np.random.default_rng(1))
    with pytest.raises(FitError, match="LPGNN needs multi-bit reports, not those of GRRFS"):
        LPGNN(epochs=1).fit(perturbed, split)


@pytest.mark.parametrize("hops", [{"feature_hops": -1}, {"label_hops": -1}])
def test_negative_hops_are_refused(hops: dict[str, int]) -> None:
    with pytest.raises(FitError, match="hops is -1"):
        LPGNN(epochs=1, **hops).fit(REPORTS, SPLIT)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(3))
def test_the_classes_of_a_block_model_are_learned(seed: int) -> None:
    # On the scale -1..1 the means of a feature that tells two classes apart differ by 1, which is
    # sqrt(m/d) tanh(1/2) = 0.23 deviations of a report. Two hops are worth about 50 reports (a weight of 1/10 returns,
    # the rest is spread over 90 nodes) and keep (0.8 - 0.2/3)^2 = 0.54 of the difference: 0.23 * sqrt(50) * 0.54 = 0.88
    # deviations, and over half of 40 features 0.88 * sqrt(20) = 3.9. Halfway between two classes an error has
    # probability Phi(-1.95) = 0.026, among four at most 0.08, where the weights are right. Chance is 1/4 with a
    # standard error of 0.027 for 250 test nodes: one half is 9 of them above it.
    private = csbm(1000, mean_degree=10, homophily=0.8, num_features=40, seed=seed)
    split = Split.random(1000, seed=seed)
    perturbed = simulate(
        private, PrivacyBudget(1.0, 2.0, 10), split, rng=np.random.default_rng(seed), features=multi_bit
    )
    method = LPGNN(feature_hops=2, label_hops=2, seed=seed).fit(perturbed, split)
    assert accuracy(method.predict(), private, split.test) > 0.5


def test_multi_bit_values_are_unbiased() -> None:
    mechanism = MultiBit((-2.0, 0.0, 10.0, 0.0), (2.0, 1.0, 20.0, 5.0), sampled=2, epsilon=2.0)
    true, people = np.array([-1.0, 0.9, 20.0, 2.5]), 200_000
    reports = mechanism.randomize(np.tile(true, (people, 1)), rng=np.random.default_rng(0))
    values = multi_bit_values(torch.from_numpy(reports), mechanism).to(torch.float64)
    # A report x' is -1, 0 or 1 with E x'^2 = m/d and E x' = m/d * (2p - 1) * t, t in -1..1 being the value's position.
    half_range = (np.array(mechanism.upper) - mechanism.lower) / 2
    position = (true - mechanism.lower) / half_range - 1
    gain = 2 / 4 * math.tanh(1.0)
    variance = (half_range / gain) ** 2 * (2 / 4 - (gain * position) ** 2)
    # Five standard errors.
    assert (abs(values.mean(0).numpy() - true) < 5 * np.sqrt(variance / people)).all()
