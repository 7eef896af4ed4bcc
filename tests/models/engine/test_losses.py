"""Losses against values computed by hand, for one replica and for several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.linalg import block_diag
from torch import Tensor

from veilgraph.graph import Graph, PerturbedGraph
from veilgraph.models.engine.losses import (
    ProportionLoss,
    cross_entropy,
    noisy_log_likelihood,
    reported_targets,
    weighted_targets,
)
from veilgraph.privacy.mechanisms import GRR, GRRFS, SubsetSelection
from veilgraph.privacy.schema import FeatureSchema
from veilgraph.reconstruct import Bags
from veilgraph.reconstruct.sparse import csr_from_entries

Replica = tuple[list[list[float]], list[list[float]]]
"""Weights of the members of each bag, and its proportions."""


def bags(*replicas: Replica) -> Bags:
    dense = torch.from_numpy(block_diag(*[membership for membership, _ in replicas])).to(torch.float32)
    rows, columns = dense.nonzero().T
    proportions = torch.tensor([each for _, proportions in replicas for each in proportions])
    return Bags(
        membership=csr_from_entries(rows, columns, dense[rows, columns], (dense.shape[0], dense.shape[1])),
        proportions=proportions,
        standard_errors=torch.zeros_like(proportions),
        sizes=torch.ones(len(proportions)),
        draws=torch.tensor([draw for draw, (membership, _) in enumerate(replicas) for _ in membership]),
    )


def stacked(*probabilities: list[list[float]]) -> Tensor:
    """Return [replicas, classes, nodes] from a row for each node, for each replica."""
    return torch.tensor(probabilities).mT.contiguous()


def proportion_loss(probabilities: Tensor, *replicas: Replica) -> list[float]:
    losses: list[float] = ProportionLoss(bags(*replicas))(probabilities).tolist()
    return losses


# Bag 0 holds nodes 0 and 1, bag 1 holds node 2.
THREE_NODES = [[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]]
TWO_BAGS: Replica = ([[0.5, 0.5, 0], [0, 0, 1]], [[0.6, 0.4], [0.5, 0.5]])
FIRST_BAG = 0.7 * math.log(0.7 / 0.6) + 0.3 * math.log(0.3 / 0.4)
SECOND_BAG = 0.2 * math.log(0.2 / 0.5) + 0.8 * math.log(0.8 / 0.5)


def test_the_proportion_loss_of_a_hand_computed_example() -> None:
    [loss] = proportion_loss(stacked(THREE_NODES), TWO_BAGS)
    assert loss == pytest.approx((FIRST_BAG + SECOND_BAG) / 2, abs=1e-6)


def test_replicas_with_different_numbers_of_bags_use_their_own() -> None:
    one_bag: Replica = ([[0.0, 0.0, 1.0]], [[0.5, 0.5]])
    other_nodes = [[0.5, 0.5], [0.5, 0.5], [0.2, 0.8]]
    losses = proportion_loss(
        stacked(THREE_NODES, other_nodes, THREE_NODES), TWO_BAGS, one_bag, ([[0.5, 0.5, 0]], [[0.6, 0.4]])
    )
    assert losses == pytest.approx([(FIRST_BAG + SECOND_BAG) / 2, SECOND_BAG, FIRST_BAG], abs=1e-6)


def test_the_divergence_is_of_the_prediction_from_the_estimate_and_not_the_reverse() -> None:
    [loss] = proportion_loss(stacked([[0.5, 0.5]]), ([[1.0]], [[0.9, 0.1]]))
    assert loss == pytest.approx(0.5 * math.log(0.5 / 0.9) + 0.5 * math.log(0.5 / 0.1), abs=1e-6)


def test_a_perfect_prediction_has_no_loss_and_a_proportion_of_zero_a_large_finite_one() -> None:
    probabilities = stacked([[0.5, 0.5]]).requires_grad_()
    loss = ProportionLoss(bags(([[1.0]], [[1.0, 0.0]])))(probabilities).sum()
    assert 1 < loss.item() < 10
    loss.backward()  # type: ignore[no-untyped-call]
    assert probabilities.grad is not None
    assert probabilities.grad.isfinite().all()
    assert proportion_loss(stacked([[0.3, 0.7]]), ([[1.0]], [[0.3, 0.7]])) == pytest.approx([0], abs=1e-6)


def test_the_cross_entropy_is_a_mean_over_the_marked_nodes_of_each_replica() -> None:
    labels = torch.tensor([0, 1, 1])
    targets = torch.stack(
        [weighted_targets(labels, torch.tensor(nodes), 2) for nodes in ([True, False, True], [False, True, False])]
    )
    losses = cross_entropy(stacked(THREE_NODES, THREE_NODES).log(), targets)
    assert losses.tolist() == pytest.approx([-(math.log(0.9) + math.log(0.8)) / 2, -math.log(0.5)], abs=1e-6)


def reports(labels: Sequence[int], epsilon: float) -> PerturbedGraph:
    """Return reports of three classes by every node of a path."""
    nodes = len(labels)
    return PerturbedGraph(
        graph=Graph.from_edges([range(nodes - 1), range(1, nodes)], nodes),
        schema=FeatureSchema.binary(1, classes=["a", "b", "c"]),
        features=np.zeros((nodes, 1), dtype=np.int8),
        labels=np.array(labels),
        has_features=np.ones(nodes, dtype=np.bool_),
        has_label=np.ones(nodes, dtype=np.bool_),
        feature_mechanism=GRRFS((2,), sampled=1, epsilon=1.0),
        label_mechanism=GRR(3, epsilon),
    )


def test_the_noisy_likelihood_passes_predictions_through_the_channel_of_each_replica() -> None:
    nodes = [[0.5, 0.3, 0.2], [0.0, 0.0, 1.0], [0.2, 0.2, 0.6]]
    score = noisy_log_likelihood(
        [reports([0, 1, 2], 1.0), reports([0, 1, 2], 2.0)],
        # Different numbers of nodes: padding of the shorter row must not count.
        [np.array([True, True, False]), np.array([False, False, True])],
        torch.device("cpu"),
    )
    first, second = (GRR(3, epsilon).channel for epsilon in (1.0, 2.0))
    p, q = float(first.keep), float(first.other)
    of_first = (math.log(0.5 * p + 0.5 * q) + math.log(q)) / 2
    of_second = math.log(0.6 * float(second.keep) + 0.4 * float(second.other))
    found = score(stacked(nodes, nodes).clamp(min=1e-30).log())
    assert found.tolist() == pytest.approx([of_first, of_second], abs=1e-6)


def sets(codes: Sequence[tuple[int, ...]], epsilon: float) -> PerturbedGraph:
    """Return label sets of two of three classes by every node of a path."""
    mechanism = SubsetSelection(3, epsilon, 2)
    single = reports([0] * len(codes), epsilon)
    return replace(single, labels=mechanism.encode(codes), label_mechanism=mechanism)


def test_the_noisy_likelihood_of_a_set_counts_every_class_that_it_names() -> None:
    nodes = [[0.5, 0.3, 0.2], [0.0, 0.0, 1.0]]
    score = noisy_log_likelihood(
        [sets([(0, 2), (0, 1)], 1.0), reports([0, 1], 1.0)], [np.array([True, True])] * 2, torch.device("cpu")
    )
    inside, outside = (
        float(SubsetSelection(3, 1.0, 2).likelihood.keep),
        float(SubsetSelection(3, 1.0, 2).likelihood.other),
    )
    p, q = float(GRR(3, 1.0).channel.keep), float(GRR(3, 1.0).channel.other)
    of_sets = (math.log(0.7 * inside + 0.3 * outside) + math.log(outside)) / 2
    of_single = (math.log(0.5 * p + 0.5 * q) + math.log(q)) / 2
    found = score(stacked(nodes, nodes).clamp(min=1e-30).log())
    assert found.tolist() == pytest.approx([of_sets, of_single], abs=1e-6)


def test_the_classes_of_a_set_share_the_weight_of_its_report() -> None:
    nodes = torch.tensor([[True, False, True]] * 2)
    targets = reported_targets([sets([(0, 2), (0, 1), (1, 2)], 1.0), reports([1, 0, 2], 1.0)], nodes)
    assert targets[0].tolist() == [[0.25, 0, 0], [0, 0, 0.25], [0.25, 0, 0.25]]
    assert targets[1].tolist() == [[0, 0, 0], [0.5, 0, 0], [0, 0, 0.5]]
