"""The views of Veil: class probabilities of every node from each kind of evidence, feature reports included."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor

from veilgraph.graph import Graph, PerturbedGraph
from veilgraph.models.engine.device import map_in_threads
from veilgraph.models.veil.belief_propagation import BeliefPropagation, degree_scaled_strengths
from veilgraph.models.veil.calibration import BeliefView, View
from veilgraph.models.veil.class_affinity import ClassAffinity, estimate_class_affinity
from veilgraph.models.veil.communities import community_log_posterior
from veilgraph.models.veil.cross_fitting import CrossFitting
from veilgraph.models.veil.pagerank import pagerank_views, personalised_pagerank
from veilgraph.models.veil.spectral import spectral_views
from veilgraph.reconstruct.operators import GraphOperators

WEAK_GAIN, STRONG_GAIN = 2.0, 4.0
"""Factors by which one iteration of belief propagation amplifies weak evidence."""

ITERATION_MULTIPLES = (1, 2, 3)
"""Numbers of iterations, in multiples of the hops after which a neighbourhood would cover the graph."""

FEATURE_RESTARTS = (1.0, 0.5, 0.2, 0.05)
"""Restart probabilities for feature likelihoods; at 1 a node has its own report only."""

COMMUNITIES = "communities"
"""Name of the view of communities."""

_MAX_STRENGTH = 0.9
_MAX_ITERATIONS = 40
_FEATURE_STEPS = 16
_BLOCK = 64
_MIN_RATE = 1e-4


def structural_views(labels: CrossFitting, operators: GraphOperators, *, seed: int) -> dict[str, View]:
    """Return every view that needs no features, by name."""
    # The slowest first, so that the shorter ones fill the threads evenly. Communities wait for the bisections of the
    # graph, which other processes compute meanwhile.
    tasks = [
        *(partial(_belief_views, labels, *item) for item in _belief_propagations(labels).items()),
        partial(spectral_views, labels, operators),
        partial(_pagerank_views, labels, operators, seed),
        partial(_community_view, labels, operators),
    ]
    *beliefs, spectral, pagerank, communities = map_in_threads(lambda task: task(), tasks, "Veil, kinds of views")
    return {name: view for views in (pagerank, *beliefs, spectral, communities) for name, view in views.items()}


def _community_view(labels: CrossFitting, operators: GraphOperators) -> dict[str, View]:
    return {COMMUNITIES: BeliefView(community_log_posterior(labels, operators), expected_factor=1.0)}


def _pagerank_views(labels: CrossFitting, operators: GraphOperators, seed: int) -> dict[str, View]:
    views = pagerank_views(labels, operators.symmetric.matrix, seed=seed)
    return {f"pagerank {restart} {steps}": view for (restart, steps), view in views.items()}


def _belief_views(labels: CrossFitting, name: str, propagation: BeliefPropagation) -> dict[str, View]:
    counts = iteration_counts(propagation.graph)
    beliefs = propagation.propagate(labels.local_evidence, list(counts.values()))
    return {f"beliefs {name} {multiple}": BeliefView(beliefs[count]) for multiple, count in counts.items()}


def iteration_counts(graph: Graph) -> dict[int, int]:
    """Return the number of iterations for each of `ITERATION_MULTIPLES`: multiples of ln n / ln(mean degree).

    >>> iteration_counts(Graph.from_edges([[0, 1, 2, 3], [1, 2, 3, 0]], num_nodes=4))  # ln 4 / ln 2
    {1: 2, 2: 4, 3: 6}
    """
    mean_degree = 2 * graph.num_edges / graph.num_nodes
    hops = math.log(graph.num_nodes) / math.log(max(mean_degree, 1.5))
    return {multiple: min(_MAX_ITERATIONS, max(1, round(multiple * hops))) for multiple in ITERATION_MULTIPLES}


def _belief_propagations(labels: CrossFitting) -> dict[str, BeliefPropagation]:
    graph, equal = labels.perturbed.graph, torch.full_like(labels.prior, 1 / labels.num_classes)
    weak, strong = (degree_scaled_strengths(graph, gain, maximum=_MAX_STRENGTH) for gain in (WEAK_GAIN, STRONG_GAIN))
    affinity = estimate_class_affinity(labels)
    if affinity is None or affinity.uniformly_assortative:
        stronger = BeliefPropagation(graph=graph, prior=labels.prior, edge_strengths=strong)
    else:
        stronger = _affinity_propagation(graph, affinity)
    propagations = {
        "weak": BeliefPropagation(graph=graph, prior=equal, edge_strengths=weak),
        "strong": stronger,
    }
    return {name: propagation.to(labels.device) for name, propagation in propagations.items()}


def _affinity_propagation(graph: Graph, affinity: ClassAffinity) -> BeliefPropagation:
    """Return belief propagation with an estimated affinity; strengths of at most 1 never exceed the estimate."""
    strengths = degree_scaled_strengths(graph, STRONG_GAIN / max(affinity.spectral_radius, 1e-3), maximum=1.0)
    return BeliefPropagation(graph=graph, prior=affinity.end_shares, edge_strengths=strengths, affinity=affinity.matrix)


def feature_terms(pooled: Tensor, labels: CrossFitting, operators: GraphOperators) -> Tensor:
    """Return feature log-likelihoods [terms, nodes, K + 1, classes], one term for each of `FEATURE_RESTARTS`.

    Each term is divided by its standard deviation.

    Args:
        pooled: Log-probabilities of the pool without features, [nodes, K + 1, classes].
        labels: Label reports in folds.
        operators: The graph.
    """
    likelihood = feature_log_likelihood(labels.perturbed, (pooled + labels.local_evidence).softmax(dim=2))
    ranges = [(restart, _FEATURE_STEPS if restart < 1 else 0) for restart in FEATURE_RESTARTS]
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
