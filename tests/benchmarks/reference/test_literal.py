"""The paper's loops and the package compute the same results, so their times are comparable."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from benchmarks.performance.workload import BUDGET, Workload
from benchmarks.reference.literal_run import literal_reports, literal_run, literal_training

from benchmarks.reference import literal
from tests.support.uncalibrated import uncalibrated
from veilgraph.datasets import csbm
from veilgraph.evaluation import accuracy
from veilgraph.experiments import simulate
from veilgraph.models import RGNN, StructureOnly
from veilgraph.models.engine.backbones import HIDDEN, SAGE, ReplicaSettings
from veilgraph.models.engine.replica_networks import ReplicaNetworks, stack_propagated_inputs
from veilgraph.models.structure_only import RESTARTS, STEPS
from veilgraph.reconstruct import bag_proportions, cluster, reconstruct_features, reconstruct_labels
from veilgraph.reconstruct.features import ReportCodes
from veilgraph.reconstruct.labels import named_classes
from veilgraph.reconstruct.operators import operators_of

CPU = torch.device("cpu")
SETTINGS = RGNN(feature_hops=3, label_hops=2, num_clusters=5, llp_weight=0.7, dropout=0.0, epochs=8, seed=3)


@pytest.fixture(scope="module")
def workload() -> Workload:
    return Workload.of(csbm(300, num_features=12, num_classes=3, seed=1))


def test_all_forms_of_a_hop_give_the_same_mean(workload: Workload) -> None:
    rows = torch.rand(300, 2, generator=torch.Generator().manual_seed(0))
    printed = literal.node_hop(workload.graph)(rows)
    mean = operators_of(workload.graph, CPU).mean
    # Means of a few dozen numbers below 1, added in another order.
    assert torch.allclose(literal.message_hop(workload.graph)(rows), printed, atol=1e-6)
    assert torch.allclose(literal.product_hop(mean.matrix)(rows), printed, atol=1e-6)


def test_randomizers_keep_a_value_as_often_as_the_mechanisms_say(workload: Workload) -> None:
    private, split = workload.private, workload.split
    perturbed = literal_reports(private, BUDGET, split, seed=0)
    kept = (perturbed.features == private.features).mean()
    channel = ReportCodes.of(workload.perturbed).channels[0]
    # m features of each person are drawn without repetition, so this is at most the independent case's variance.
    error = (float(channel.keep) * (1 - float(channel.keep)) / private.features.size) ** 0.5
    assert kept == pytest.approx(float(channel.keep), abs=4 * error)
    known = split.labelled
    keep = float(perturbed.label_mechanism.channel.keep)
    same = (perturbed.labels == private.labels)[known].mean()
    assert same == pytest.approx(keep, abs=4 * (keep * (1 - keep) / known.sum()) ** 0.5)
    assert (perturbed.labels[~known] == 0).all()


def test_inputs_targets_and_bags_are_those_of_the_package(workload: Workload) -> None:
    perturbed, split = workload.perturbed, workload.split
    training = literal_training(perturbed, BUDGET, split, SETTINGS, CPU)
    mean = operators_of(workload.graph, CPU).mean
    features = reconstruct_features(perturbed, SETTINGS.hops[0], mean=mean)
    gain = float(features.channels[0].gain)
    assert torch.allclose(training.inputs, features.inputs(), atol=1e-5 / gain)
    ours = reconstruct_labels(perturbed, SETTINGS.hops[1], mean=mean).distribution.argmax(1)[training.train]
    assert torch.equal(training.targets, ours)
    bags = bag_proportions(perturbed, cluster(workload.graph, SETTINGS.num_clusters), split.train)
    assert torch.allclose(torch.stack([share for _, share in training.bags]), bags.proportions, atol=1e-5)
    assert [len(members) for members, _ in training.bags] == bags.sizes.tolist()


def test_epochs_have_the_losses_and_scores_of_the_package(workload: Workload) -> None:
    method = replace(SETTINGS, device="cpu").fit(workload.perturbed, workload.split)
    training = literal_training(workload.perturbed, BUDGET, workload.split, SETTINGS, CPU)
    _give_weights_of_the_package(training, workload)
    for _ in range(SETTINGS.epochs):
        training.epoch()
    # Eight steps of 0.01; rounding in single precision grows a little with each.
    assert training.losses == pytest.approx(method.curve_.train_loss, abs=2e-4)
    assert training.scores == pytest.approx(method.curve_.validation_score, abs=2e-4)
    assert np.allclose(training.predict(), uncalibrated(method, method.predict_proba()), atol=1e-3)


def test_a_whole_literal_run_learns_what_the_package_learns(workload: Workload) -> None:
    private, split = workload.private, workload.split
    budget = replace(BUDGET, epsilon_y=6.0)  # almost every label is right, so that 300 nodes are enough
    settings = replace(SETTINGS, dropout=0.5, epochs=60, device="cpu")
    perturbed = simulate(private, budget, split, rng=np.random.default_rng(0))
    with torch.random.fork_rng():  # weights and dropout of the literal run come from torch's global generator
        torch.manual_seed(0)
        theirs = accuracy(literal_run(private, budget, split, settings, CPU), private, split.test)
    ours = accuracy(settings.fit(perturbed, split).predict(), private, split.test)
    error = (0.25 / split.test.sum()) ** 0.5  # of a share, at most
    assert theirs > 1 / 3 + 3 * error
    assert theirs == pytest.approx(ours, abs=3 * 2**0.5 * error)


def test_the_control_selects_the_same_setting(workload: Workload) -> None:
    perturbed, split = workload.perturbed, workload.split
    held_out = torch.from_numpy(split.validation & perturbed.has_label)
    labels = torch.from_numpy(perturbed.labels)[held_out]
    chosen = literal.structure_only(
        workload.graph,
        named_classes(perturbed) * torch.from_numpy(split.train).unsqueeze(1),
        RESTARTS,
        STEPS,
        lambda scores: float((scores[held_out].argmax(1) == labels).sum()),
    )
    method = StructureOnly(device="cpu").fit(perturbed, split)
    assert chosen == (method.restart_, method.steps_)


def test_a_projection_is_the_nearest_distribution() -> None:
    found = literal.simplex(torch.tensor([1.4, -0.2, 0.4]))
    assert found.tolist() == pytest.approx([1.0, 0.0, 0.0], abs=1e-6)
    assert literal.simplex(torch.tensor([0.5, 0.5, 0.0])).tolist() == pytest.approx([0.5, 0.5, 0.0], abs=1e-6)


def _give_weights_of_the_package(training: literal.Training, workload: Workload) -> None:
    """Load the initial weights that the package draws for the seed."""
    operators = operators_of(workload.graph, CPU)
    networks = ReplicaNetworks(
        SAGE,
        operators,
        stack_propagated_inputs(SAGE, operators, [lambda: training.inputs]),
        num_classes=workload.private.schema.num_classes,
        settings=[ReplicaSettings(seed=SETTINGS.seed, dropout=0.0, learning_rate=0.01, weight_decay=0.0)],
    )
    [weights] = networks.weights_by_replica()
    columns, classes = training.inputs.shape[1], weights["second.bias"].shape[0]
    first, second = weights["first.weight"], weights["second.weight"]
    assert first.shape == (HIDDEN, 2 * columns)
    training.module.load_state_dict(
        {
            "first.lin_l.weight": first[:, :columns],
            "first.lin_l.bias": weights["first.bias"].flatten(),
            "first.lin_r.weight": first[:, columns:],
            "second.lin_l.weight": second[:classes],
            "second.lin_l.bias": weights["second.bias"].flatten(),
            "second.lin_r.weight": second[classes:],
        }
    )
