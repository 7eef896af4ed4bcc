"""Spectral views: the optimum of a penalised likelihood, the same in every basis and every order of classes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize

from veilgraph.datasets import PrivateGraph, csbm
from veilgraph.evaluation import accuracy
from veilgraph.experiments import simulate
from veilgraph.graph import Graph, Split
from veilgraph.models import LabelVeil, StructureOnly
from veilgraph.models.veil.cross_fitting import CrossFitting
from veilgraph.models.veil.spectral import DegreeCorrected, logistic_log_posterior, neighbour_means, spectral_views
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms import GRR, SubsetSelection
from veilgraph.reconstruct.operators import GraphOperators


def cross_fitted(private: PrivateGraph, epsilon: float, size: int = 1) -> CrossFitting:
    nodes = private.graph.num_nodes
    perturbed = simulate(
        private,
        PrivacyBudget(epsilon_y=epsilon),
        Split.random(nodes, seed=0),
        rng=np.random.default_rng(0),
        label=lambda k, e: GRR(k, e) if size == 1 else SubsetSelection(k, e, size),
    )
    return CrossFitting.random(perturbed, seed=0)


PRIVATE = csbm(300, num_classes=3, homophily=0.7, num_features=1, seed=0)
COLUMNS = GraphOperators(PRIVATE.graph).decompositions.eigenvectors(16)[:, :5]


def test_no_other_weights_have_a_greater_penalised_likelihood() -> None:
    labels = cross_fitted(PRIVATE, 2.0, 2)
    kept = labels.kept[labels.reports.nodes, -1]

    def logits(flat: Any) -> torch.Tensor:
        scores = COLUMNS.double() @ torch.as_tensor(flat).view(5, 3) + labels.reports.prior.double().log()
        return scores.log_softmax(1)

    def loss_and_gradient(flat: Any) -> tuple[float, Any]:
        weights = torch.tensor(flat, requires_grad=True)
        reports = labels.likelihood.log_likelihood(logits(weights)[labels.reports.nodes])[kept]
        loss = 5 * weights.square().sum() - reports.sum()
        return float(loss.detach()), torch.autograd.grad(loss, weights)[0]

    best = minimize(loss_and_gradient, np.zeros(15), jac=True).x
    found = logistic_log_posterior(COLUMNS, labels)[:, -1]
    # The iterations end near the optimum: probabilities agree to three digits.
    assert (found.exp() - logits(best).exp()).abs().max() < 5e-3


def test_a_rotation_of_the_columns_and_the_order_of_classes_change_nothing() -> None:
    labels = cross_fitted(PRIVATE, 1.0)
    rotation = torch.linalg.qr(torch.randn(5, 5, generator=torch.Generator().manual_seed(0))).Q
    one, other = (logistic_log_posterior(columns, labels) for columns in (COLUMNS, COLUMNS @ rotation))
    assert torch.allclose(one, other, atol=1e-3)
    labels, names = cross_fitted(PRIVATE, 1.0), np.array([2, 0, 1])
    renamed = CrossFitting(
        perturbed=replace(labels.perturbed, labels=names[labels.perturbed.labels]), folds=labels.folds
    )
    one, other = (logistic_log_posterior(COLUMNS, each) for each in (labels, renamed))
    assert torch.allclose(other[:, :, names], one, atol=1e-4)


def test_a_fold_is_estimated_without_its_own_reports() -> None:
    labels = cross_fitted(PRIVATE, 1.0)
    fold = (labels.folds == 2).numpy()
    reports = labels.perturbed.labels.copy()
    reports[fold] = np.roll(reports[fold], 1)  # class shares, and so the prior, stay the same
    other = CrossFitting(perturbed=replace(labels.perturbed, labels=reports), folds=labels.folds)
    before, after = (logistic_log_posterior(COLUMNS, each) for each in (labels, other))
    assert torch.equal(before[:, 2], after[:, 2])
    assert not torch.equal(before[:, -1], after[:, -1])


def test_uninformative_reports_give_the_prior() -> None:
    labels = cross_fitted(PRIVATE, 1e-4)
    found = logistic_log_posterior(COLUMNS, labels).exp()
    assert torch.allclose(found, labels.reports.prior.expand_as(found), atol=1e-2)


def test_without_privacy_two_classes_that_avoid_each_other_are_separated() -> None:
    private = csbm(600, num_classes=2, homophily=0.05, num_features=1, seed=0)
    labels = cross_fitted(private, math.inf)
    views = spectral_views(labels, GraphOperators(private.graph))
    for view in views.values():
        found = view.log_probabilities(labels.reports.prior, (1.0,))[:, -1].argmax(1).numpy()
        assert (found == private.labels).mean() > 0.9


def test_every_graph_has_the_same_views() -> None:
    for nodes in (8, 40, 200):
        private = csbm(nodes, num_classes=2, num_features=1, mean_degree=3, seed=0)
        views = spectral_views(cross_fitted(private, 1.0), GraphOperators(private.graph))
        assert list(views) == ["spectral 16", "spectral 64"]


def test_veil_learns_where_neighbours_avoid_each_other() -> None:
    differences = []
    for seed in range(3):
        private = csbm(900, num_classes=3, homophily=0.02, mean_degree=20, num_features=1, seed=seed)
        split = Split.random(900, seed=seed)
        perturbed = simulate(private, PrivacyBudget(epsilon_y=1.0), split, rng=np.random.default_rng(seed))
        ours, control = (
            accuracy(method.fit(perturbed, split).predict(), private, split.test)
            for method in (LabelVeil(), StructureOnly())
        )
        differences.append(ours - control)
    # 225 test nodes, three draws: chance has a standard error of at most sqrt(2 * 0.25 / 675) = 0.027.
    assert np.mean(differences) > 5 * 0.027


def test_degree_corrected_columns_rotate_with_the_eigenvectors_and_have_rows_of_equal_norm() -> None:
    operators = GraphOperators(PRIVATE.graph)
    rotation = torch.linalg.qr(torch.randn(5, 5, generator=torch.Generator().manual_seed(0))).Q
    # [nodes, parts, columns]
    one, other = (DegreeCorrected.of(each, operators)[:].view(-1, 4, 5) for each in (COLUMNS, COLUMNS @ rotation))
    assert torch.allclose(one @ rotation, other, atol=1e-4)
    for part in (one[:, 1], one[:, 3]):
        norms = part.norm(dim=1)
        assert torch.allclose(norms[norms > 0], torch.tensor(math.sqrt(5)), atol=1e-4)


def test_an_isolated_node_has_no_mean_over_neighbours() -> None:
    lonely = Graph.from_edges([[0, 1], [1, 2]], num_nodes=4)
    operators = GraphOperators(lonely)
    columns = DegreeCorrected.of(operators.decompositions.eigenvectors(2), operators)[:]
    assert torch.isfinite(columns).all()
    assert (columns[3, 4:] == 0).all()


def test_means_over_neighbours_are_those_of_the_matrix() -> None:
    edges = np.random.default_rng(1).integers(0, 15, (2, 20))
    operators = GraphOperators(Graph.from_edges(edges, num_nodes=15))
    columns = torch.randn(15, 20, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(neighbour_means(columns, operators), operators.neighbours(columns), atol=1e-6)
