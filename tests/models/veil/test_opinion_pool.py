"""The opinion pool: out-of-fold reports decide, and priors where the reports cannot."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.support.label_views import cross_fitted, true_log_probabilities
from veilgraph.graph.shards import ShardGraph
from veilgraph.models.veil.cross_fitting import CrossFitting
from veilgraph.models.veil.opinion_pool import (
    Derivatives,
    NegativeLogLikelihood,
    OpinionPool,
    fit_pool,
    model_averaging_weights,
    projected_newton,
    wider_pool,
)
from veilgraph.privacy.mechanisms import SubsetSelection


def test_an_informed_view_takes_the_weight_of_an_uninformed_one() -> None:
    private, labels = cross_fitted(2.0)
    informed, uninformed = true_log_probabilities(private, 0.99), torch.full((800, 3), 1 / 3).log()
    terms = torch.stack([uninformed, informed])[:, labels.reports.nodes]
    weights = model_averaging_weights(terms, labels, torch.tensor([0.9, 0.1]))
    assert weights[1] > 0.999
    pool = fit_pool(terms, labels, weights)
    assert (pool.weights >= 0).all()
    columns = labels.reports.degree_columns[labels.reports.nodes]
    assert (pool.combine(terms, columns).argmax(1) == terms[1].argmax(1)).all()


def test_one_informed_view_among_noise_takes_all_weight_as_reports_grow() -> None:
    private, labels = cross_fitted(1.0)
    noise = torch.randn(16, 800, 3, generator=torch.Generator().manual_seed(0)).log_softmax(2)
    terms = torch.cat([noise, true_log_probabilities(private, 0.9).unsqueeze(0)])[:, labels.reports.nodes]
    prior_weights = torch.full((17,), 1 / 17)
    weights = []
    for reports in (30, 120, 600):
        fewer = labels.subsample(reports)
        chosen = torch.isin(labels.reports.nodes, fewer.reports.nodes)
        weights.append(float(model_averaging_weights(terms[:, chosen], fewer, prior_weights)[-1]))
    assert weights == sorted(weights)
    assert weights[-1] > 0.99
    pool = fit_pool(terms, labels, model_averaging_weights(terms, labels, prior_weights))
    assert pool.weights.argmax() == 16
    assert pool.weights[16] > 2 * pool.weights[:16].sum()


def test_model_averaging_takes_the_square_root_of_the_likelihood() -> None:
    private, labels = cross_fitted(0.3)
    terms = torch.stack([torch.full((800, 3), 1 / 3).log(), true_log_probabilities(private, 0.5)])
    terms = terms[:, labels.reports.nodes]
    low, high = labels.likelihood.log_likelihood(terms).sum(1).tolist()
    weights = model_averaging_weights(terms, labels, torch.tensor([0.8, 0.2]))
    assert float(weights[1] / weights[0]) == pytest.approx(math.exp((high - low) / 2) / 4, rel=1e-3)


def test_uninformative_reports_leave_prior_weights_and_the_pool_at_its_centre() -> None:
    _, labels = cross_fitted(0.01)
    noise = torch.randn(2, 800, 3, generator=torch.Generator().manual_seed(0)).log_softmax(2)[:, labels.reports.nodes]
    # p - q = 0.0022: the likelihood of one report varies by at most 1%, that of 600 by sqrt(600) times as much.
    prior_weights = torch.tensor([0.7, 0.3])
    assert torch.allclose(model_averaging_weights(noise, labels, prior_weights), prior_weights, atol=0.06)
    centre = torch.tensor([0.5, 0.5])
    # A report's likelihood varies by at most p - q = 0.0022 of 1/3: the penalty's curvature of 100 dominates.
    assert torch.allclose(fit_pool(noise, labels, centre).weights, centre, atol=0.05)


def test_terms_are_added_for_their_own_gain_alone() -> None:
    private, labels = cross_fitted(1.0)
    flat, right = torch.full((800, 3), 1 / 3).log(), true_log_probabilities(private, 0.9)
    terms = torch.stack([flat, right])[:, labels.reports.nodes]
    noise = torch.randn(2, 600, 3, generator=torch.Generator().manual_seed(0))
    # At these weights the views say nothing: fitted again, they gain far more than 1 for each of two terms.
    idle = OpinionPool(weights=torch.tensor([1.0, 0.0]), bias=torch.zeros(3, 3), objective=0.0)
    refitted = fit_pool(terms, labels, idle.weights).combine(terms, labels.reports.degree_columns[labels.reports.nodes])
    assert labels.likelihood.log_likelihood(refitted).sum() > labels.likelihood.log_likelihood(terms[0]).sum() + 20
    assert wider_pool(idle, terms, noise, labels) is None
    added = wider_pool(replace(idle, weights=idle.weights[:1]), terms[:1], torch.cat([noise, terms[1:]]), labels)
    assert added is not None
    assert added.weights[1:].argmax() == 2


def test_combining_gives_distributions() -> None:
    generator = torch.Generator().manual_seed(0)
    bias, columns = torch.randn(3, 2, generator=generator), torch.randn(7, 3, generator=generator)
    pool = OpinionPool(weights=torch.tensor([0.5, 0.2]), bias=bias, objective=0.0)
    terms = torch.randn(2, 7, 4, 2, generator=generator)
    combined = pool.combine(terms, columns)
    assert torch.allclose(combined.exp().sum(-1), torch.ones(7, 4))
    alone = pool.combine(terms[:, 5:6], columns[5:6])
    assert torch.allclose(combined[5:6], alone)


@pytest.mark.parametrize("size", [1, 2])
def test_derivatives_equal_those_of_automatic_differentiation(size: int) -> None:
    _, labels = cross_fitted(1.0, label=lambda k, e: SubsetSelection(k, e, size))
    generator = torch.Generator().manual_seed(0)
    terms = torch.randn(4, 800, 3, generator=generator).log_softmax(2)[:, labels.reports.nodes].double()

    def negative_log_likelihood(numbers: torch.Tensor) -> torch.Tensor:
        biases = columns @ numbers[4:].view(3, 3)
        pooled = (torch.tensordot(numbers[:4], terms, dims=1) + biases).log_softmax(dim=1)
        return -labels.likelihood.log_likelihood(pooled).sum()

    derivative: Any = torch.autograd.functional
    columns = labels.reports.degree_columns[labels.reports.nodes].double()
    point = torch.rand(13, generator=generator, dtype=torch.float64)
    likelihood = NegativeLogLikelihood(terms, labels)
    value, gradient, (observed, complete) = likelihood.derivatives(point[:4], point[4:].view(3, 3))
    assert value == pytest.approx(float(negative_log_likelihood(point)))
    assert torch.allclose(gradient, derivative.jacobian(negative_log_likelihood, point))
    assert torch.allclose(observed, derivative.hessian(negative_log_likelihood, point))
    assert torch.linalg.eigvalsh(complete).min() > -1e-9


def test_no_other_weights_have_a_greater_objective() -> None:
    private, labels = cross_fitted(1.0)
    rng = torch.Generator().manual_seed(0)
    terms = torch.stack(
        [
            (true_log_probabilities(private, 0.6) + spread * torch.randn(800, 3, generator=rng)).log_softmax(1)
            for spread in (1, 2)
        ]
    )[:, labels.reports.nodes]
    centre = torch.tensor([0.5, 0.5])
    pool = fit_pool(terms, labels, centre)

    def objective(weights: torch.Tensor, bias: torch.Tensor) -> float:
        other = OpinionPool(weights=weights, bias=bias, objective=0.0)
        penalty = 50 * (weights - centre).square().sum() + 15 * bias.square().sum()
        columns = labels.reports.degree_columns[labels.reports.nodes]
        return float(labels.likelihood.log_likelihood(other.combine(terms, columns)).double().sum() - penalty)

    assert pool.objective == pytest.approx(objective(pool.weights, pool.bias), abs=1e-3)
    for _ in range(20):
        step = 0.05 * torch.randn(11, generator=rng)
        assert objective((pool.weights + step[:2]).clamp(min=0), pool.bias + step[2:].view(3, 3)) < pool.objective


def test_on_shards_rounding_of_terms_changes_weights_by_rounding_alone() -> None:
    """Processes add sums up in another order: their terms differ in the last bit."""
    private, whole = cross_fitted(1.0)
    graph = ShardGraph(num_nodes=800, edges=private.graph.edges, identity="a graph")
    labels = CrossFitting.random(replace(whole.perturbed, graph=graph), seed=0)
    rng = torch.Generator().manual_seed(0)
    noise = 2 * torch.randn(12, 800, 3, generator=rng)
    terms = (true_log_probabilities(private, 0.6) + noise).log_softmax(2)[:, labels.reports.nodes]
    pool = fit_pool(terms, labels, torch.full((12,), 1 / 12))
    for _ in range(4):
        signs = torch.randint(-1, 2, terms.shape, generator=rng)
        again = fit_pool(terms * (1 + 2**-23 * signs), labels, torch.full((12,), 1 / 12))
        # Rounding errors of 600 reports, each of 1e-7 or less, are divided by a curvature of 100 or more.
        assert torch.allclose(again.weights, pool.weights, rtol=0, atol=1e-6)
        assert torch.allclose(again.bias, pool.bias, rtol=0, atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_at_the_minimum_variables_are_stationary_or_at_zero(count: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    factor = torch.randn(count + 2, count, generator=generator, dtype=torch.float64)
    matrix, target = factor.T @ factor + torch.eye(count), torch.randn(count, generator=generator, dtype=torch.float64)

    def bowl(point: Tensor) -> Derivatives:
        offset = point - target
        return Derivatives(float(offset @ matrix @ offset) / 2, matrix @ offset, (matrix,))

    nonnegative = count - count // 3
    point, value = projected_newton(bowl, torch.ones(count, dtype=torch.float64), nonnegative)
    gradient = bowl(point).gradient
    assert value == bowl(point).value
    assert (point[:nonnegative] >= 0).all()
    assert torch.allclose(gradient[nonnegative:], torch.zeros(count - nonnegative, dtype=torch.float64), atol=1e-3)
    bound = point[:nonnegative] == 0
    assert (gradient[:nonnegative][bound] >= -1e-3).all()
    assert (gradient[:nonnegative][~bound].abs() <= 1e-3).all()


def test_a_hessian_that_is_not_positive_definite_is_skipped() -> None:
    def valley(point: Tensor) -> Derivatives:
        return Derivatives(
            float((point.square() - 1).square().sum()), 4 * point * (point.square() - 1), hessians(point)
        )

    def hessians(point: Tensor) -> tuple[Tensor, ...]:
        return (12 * point.square() - 4).diag(), (12 * point.square()).diag()

    point, value = projected_newton(valley, torch.tensor([0.1], dtype=torch.float64), nonnegative=0)
    assert abs(float(point) - 1) < 1e-4
    assert value < 1e-8


def test_without_a_positive_definite_hessian_it_follows_the_gradient() -> None:
    point, _ = projected_newton(
        lambda x: Derivatives(float((x - 3).square().sum()), 2 * (x - 3), (-torch.eye(1),)),
        torch.zeros(1),
        nonnegative=1,
    )
    assert abs(float(point) - 3) < 1e-2
