"""The pool: unseen reports decide, priors where they cannot."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from veilgraph.datasets import PrivateGraph, csbm
from veilgraph.experiments import simulate
from veilgraph.graph import Split
from veilgraph.models.veil.cross_fitting import HeldOutLabels
from veilgraph.models.veil.opinion_pool import Beliefs, Pool, _Surprise, calibrate, fit_pool, model_average
from veilgraph.privacy.budget import PrivacyBudget


def setting(epsilon_y: float) -> tuple[PrivateGraph, HeldOutLabels]:
    private = csbm(800, num_classes=3, num_features=2, seed=0)
    split = Split.random(800, seed=0)
    perturbed = simulate(private, PrivacyBudget(1.0, epsilon_y, 1), split, rng=np.random.default_rng(0))
    return private, HeldOutLabels.of(perturbed, seed=0)


def truth(private: PrivateGraph, labels: HeldOutLabels, sure: float) -> torch.Tensor:
    """Opinions that are right about everybody and say so with a given confidence."""
    shares = torch.nn.functional.one_hot(torch.from_numpy(private.labels), 3) * (sure - (1 - sure) / 2) + (1 - sure) / 2
    return shares.float().log()


def test_a_view_that_knows_gets_the_weight_of_one_that_guesses() -> None:
    private, labels = setting(2.0)
    knows, guesses = truth(private, labels, 0.99), torch.full((800, 3), 1 / 3).log()
    terms = torch.stack([guesses, knows])[:, labels.nodes]
    weights = model_average(terms, labels, torch.tensor([0.9, 0.1]))
    assert weights[1] > 0.999
    pool = fit_pool(terms, labels, weights)
    assert (pool.weights >= 0).all()
    assert (pool.combine(terms).argmax(1) == terms[1].argmax(1)).all()


def test_where_nothing_can_be_told_chances_are_those_of_beforehand() -> None:
    _, labels = setting(0.01)
    noise = torch.randn(2, 800, 3, generator=torch.Generator().manual_seed(0)).log_softmax(2)[:, labels.nodes]
    # p - q = 0.0022: the likelihood of one report moves by at most 1%, that of 600 by sqrt(600) times as much.
    beforehand = torch.tensor([0.7, 0.3])
    assert torch.allclose(model_average(noise, labels, beforehand), beforehand, atol=0.06)


def test_where_nothing_can_be_told_weights_stay_where_they_were() -> None:
    _, labels = setting(0.01)
    noise = torch.randn(2, 800, 3, generator=torch.Generator().manual_seed(0)).log_softmax(2)[:, labels.nodes]
    centre = torch.tensor([0.5, 0.5])
    # A report's likelihood moves by at most p - q = 0.0022 of 1/3: the penalty's curvature of 100 holds the weights.
    assert torch.allclose(fit_pool(noise, labels, centre).weights, centre, atol=0.05)


@pytest.mark.parametrize("factor", [0.5, 2.0, 4.0])
def test_calibration_undoes_wrong_confidence(factor: float) -> None:
    private, labels = setting(3.0)
    rng = torch.Generator().manual_seed(0)
    evidence = truth(private, labels, 0.6) + 0.8 * torch.randn(800, 3, generator=rng)
    right = calibrate(Beliefs(evidence.unsqueeze(1).expand(-1, 6, -1)), labels)[0]
    wrong = calibrate(Beliefs(evidence.unsqueeze(1).expand(-1, 6, -1) * factor), labels)[0]
    # The grid has steps of a factor 1.26, and the prior pulls a little.
    assert wrong * factor == pytest.approx(right, rel=0.35)


def test_combining_gives_distributions() -> None:
    pool = Pool(weights=torch.tensor([0.5, 0.2]), bias=torch.tensor([0.1, -0.1]), objective=0.0)
    terms = torch.randn(2, 7, 3, 2, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(pool.combine(terms).exp().sum(-1), torch.ones(7, 3))


def test_the_surprise_of_reports_has_the_slope_that_differentiation_gives() -> None:
    _, labels = setting(1.0)
    generator = torch.Generator().manual_seed(0)
    terms = torch.randn(4, 800, 3, generator=generator).log_softmax(2)[:, labels.nodes].double()

    def surprise(numbers: torch.Tensor) -> torch.Tensor:
        pooled = (torch.tensordot(numbers[:4], terms, dims=1) + numbers[4:]).log_softmax(dim=1)
        return -labels.log_likelihood(pooled).sum()

    derivative: Any = torch.autograd.functional
    point = torch.rand(7, generator=generator, dtype=torch.float64)
    value, gradient, (observed, complete) = _Surprise(terms, labels)(point[:4], point[4:])
    assert value == pytest.approx(float(surprise(point)))
    assert torch.allclose(gradient, derivative.jacobian(surprise, point))
    assert torch.allclose(observed, derivative.hessian(surprise, point))
    assert torch.linalg.eigvalsh(complete).min() > -1e-9


def test_weights_are_where_no_other_weights_explain_reports_better() -> None:
    private, labels = setting(1.0)
    rng = torch.Generator().manual_seed(0)
    terms = torch.stack(
        [
            (truth(private, labels, 0.6) + spread * torch.randn(800, 3, generator=rng)).log_softmax(1)
            for spread in (1, 2)
        ]
    )[:, labels.nodes]
    centre = torch.tensor([0.5, 0.5])
    pool = fit_pool(terms, labels, centre)

    def objective(weights: torch.Tensor, bias: torch.Tensor) -> float:
        other = Pool(weights=weights, bias=bias, objective=0.0)
        penalty = 50 * (weights - centre).square().sum() + 15 * bias.square().sum()
        return float(labels.log_likelihood(other.combine(terms)).double().sum() - penalty)

    assert pool.objective == pytest.approx(objective(pool.weights, pool.bias), abs=1e-3)
    for _ in range(20):
        aside = 0.05 * torch.randn(5, generator=rng)
        assert objective((pool.weights + aside[:2]).clamp(min=0), pool.bias + aside[2:]) < pool.objective
