"""Feature evidence of Veil: log-likelihoods of feature reports under each class, propagated over the graph."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from veilgraph.graph import PerturbedGraph
from veilgraph.models.veil.cross_fitting import CrossFitting
from veilgraph.models.veil.pagerank import personalised_pagerank
from veilgraph.reconstruct.operators import GraphOperators

FEATURE_RESTARTS = (1.0, 0.5, 0.2, 0.05)
"""Restart probabilities for feature likelihoods; at 1 a node has its own report only."""

_STEPS = 16
_BLOCK = 64
_MIN_RATE = 1e-4


def feature_terms(pooled: Tensor, labels: CrossFitting, operators: GraphOperators) -> Tensor:
    """Return feature log-likelihoods [terms, nodes, K + 1, classes], one term for each of `FEATURE_RESTARTS`.

    Each term is divided by its standard deviation.

    Args:
        pooled: Log-probabilities of the pool without features, [nodes, K + 1, classes].
        labels: Label reports in folds.
        operators: The graph.
    """
    likelihood = feature_log_likelihood(labels.perturbed, (pooled + labels.local_evidence).softmax(dim=2))
    ranges = [(restart, _STEPS if restart < 1 else 0) for restart in FEATURE_RESTARTS]
    propagated = personalised_pagerank(operators.symmetric.matrix, likelihood.flatten(1), ranges)
    return torch.stack([columns.view_as(likelihood) / columns.std().clamp(min=1e-6) for columns in propagated.values()])


def feature_log_likelihood(perturbed: PerturbedGraph, soft_labels: Tensor) -> Tensor:
    r"""Return the naive-Bayes log-likelihood of each feature report under each class, [nodes, K + 1, classes].

    .. math:: e_v(x) = \sum_j \ln \theta_{j x'_{vj} x}

    theta is the rate at which people of class x report a value of feature j, from soft counts. Any mechanism will do:
    its noise is part of the rates. James-Stein shrinkage draws the rates of a feature towards the overall rates, so a
    feature that does not differ between classes contributes nothing.

    Args:
        perturbed: The feature reports.
        soft_labels: Class probabilities, [nodes, K + 1, classes].
    """
    nodes, training_sets, classes = soft_labels.shape
    device = soft_labels.device
    reporting = torch.from_numpy(perturbed.has_features).to(device)
    weights = (soft_labels * reporting.view(-1, 1, 1)).reshape(nodes, -1)
    totals, squares = weights.sum(0), weights.square().sum(0)
    likelihood = torch.zeros_like(weights)
    for columns, feature in _indicators(perturbed, device):
        rates = columns.T @ weights / totals.clamp(min=1)
        overall = columns[reporting].mean(0).unsqueeze(1)
        noise = (overall * (1 - overall)).clamp(min=_MIN_RATE) * (squares / totals.clamp(min=1).square())
        shrunk = overall + _shrinkage(rates - overall, noise, feature, (training_sets, classes)) * (rates - overall)
        likelihood += columns @ shrunk.clamp(min=_MIN_RATE).log()
    likelihood = (likelihood * reporting.unsqueeze(1)).reshape(nodes, training_sets, classes)
    return likelihood - likelihood.mean(dim=2, keepdim=True)


def _shrinkage(differences: Tensor, noise: Tensor, feature: Tensor, shape: tuple[int, int]) -> Tensor:
    """Return the James-Stein factor of each feature and training set: 1 - (degrees of freedom) / chi-squared, >= 0."""
    training_sets, classes = shape
    chi = (differences.square() / noise).reshape(-1, training_sets, classes).sum(2)
    count = int(feature.max()) + 1
    total = chi.new_zeros(count, training_sets).index_add_(0, feature, chi)
    freedom = torch.bincount(feature, minlength=count).sub(1).clamp(min=1) * (classes - 1)
    # Columns of one feature sum to 1, so with two values chi-squared counts each deviation about twice.
    scale = torch.bincount(feature, minlength=count) / torch.bincount(feature, minlength=count).sub(1).clamp(min=1)
    factor = (1 - (freedom * scale).unsqueeze(1) / total.clamp(min=_MIN_RATE)).clamp(min=0)
    return factor[feature].repeat_interleave(classes, dim=1)


def _indicators(perturbed: PerturbedGraph, device: torch.device) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield, for each block of features, one indicator column for each reported value.

    With the columns [nodes, values] come the numbers of their features within the block [values].
    """
    reports = np.where(
        perturbed.has_features[:, None], perturbed.features, perturbed.features[perturbed.has_features][:1]
    )
    for start in range(0, reports.shape[1], _BLOCK):
        block = reports[:, start : start + _BLOCK].astype(np.int64)
        values = [np.arange(low, high + 1) for low, high in zip(block.min(0), block.max(0), strict=True)]
        columns = np.concatenate([block[:, i : i + 1] == v for i, v in enumerate(values)], axis=1)
        columns &= perturbed.has_features[:, None]
        feature = np.repeat(np.arange(len(values)), [len(v) for v in values])
        yield torch.from_numpy(columns).to(device).float(), torch.from_numpy(feature).to(device)
