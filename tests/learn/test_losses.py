"""Losses against values computed by hand."""

from __future__ import annotations

import math

import pytest
import torch

from veilgraph.learn.losses import noisy_log_likelihood, proportion_loss
from veilgraph.mechanisms import GRR
from veilgraph.reconstruct import Bags


def bags(membership: list[list[float]], proportions: list[list[float]]) -> Bags:
    return Bags(
        membership=torch.tensor(membership),
        proportions=torch.tensor(proportions),
        standard_errors=torch.zeros(len(proportions), len(proportions[0])),
        sizes=torch.ones(len(proportions)),
    )


def test_the_proportion_loss_of_a_hand_computed_example() -> None:
    # Bag 0 holds nodes 0 and 1, bag 1 holds node 2.
    probabilities = torch.tensor([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])
    two_bags = bags([[0.5, 0.5, 0], [0, 0, 1]], [[0.6, 0.4], [0.5, 0.5]])
    first = 0.7 * math.log(0.7 / 0.6) + 0.3 * math.log(0.3 / 0.4)
    second = 0.2 * math.log(0.2 / 0.5) + 0.8 * math.log(0.8 / 0.5)
    assert float(proportion_loss(probabilities, two_bags)) == pytest.approx((first + second) / 2, abs=1e-6)


def test_the_divergence_is_of_the_prediction_from_the_estimate_and_not_the_reverse() -> None:
    one_bag = bags([[1.0]], [[0.9, 0.1]])
    loss = float(proportion_loss(torch.tensor([[0.5, 0.5]]), one_bag))
    assert loss == pytest.approx(0.5 * math.log(0.5 / 0.9) + 0.5 * math.log(0.5 / 0.1), abs=1e-6)


def test_a_proportion_of_zero_costs_much_but_not_infinitely() -> None:
    loss = proportion_loss(torch.tensor([[0.5, 0.5]], requires_grad=True), bags([[1.0]], [[1.0, 0.0]]))
    assert 1 < float(loss.detach()) < 10
    loss.backward()  # type: ignore[no-untyped-call]


def test_a_perfect_prediction_costs_nothing() -> None:
    assert float(proportion_loss(torch.tensor([[0.3, 0.7]]), bags([[1.0]], [[0.3, 0.7]]))) == pytest.approx(0, abs=1e-6)


def test_the_noisy_likelihood_passes_predictions_through_the_channel() -> None:
    channel = GRR(3, 1.0).channel
    p, q = float(channel.keep), float(channel.other)
    probabilities = torch.tensor([[0.5, 0.3, 0.2], [0.0, 0.0, 1.0]])
    expected = (math.log(0.5 * p + 0.5 * q) + math.log(q)) / 2
    found = noisy_log_likelihood(probabilities, torch.tensor([0, 1]), channel)
    assert float(found) == pytest.approx(expected, abs=1e-6)
