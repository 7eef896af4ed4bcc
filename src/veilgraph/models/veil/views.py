"""The views of Veil: class probabilities of every node from each kind of evidence in label reports."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor

from veilgraph.graph import Graph
from veilgraph.graph.relations import relations
from veilgraph.models.veil.attribute_views import attribute_views
from veilgraph.models.veil.belief_propagation import BeliefPropagation, degree_scaled_strengths
from veilgraph.models.veil.block_model import block_model_log_posterior, degree_model_log_posterior
from veilgraph.models.veil.calibration import BeliefView, View
from veilgraph.models.veil.class_affinity import ClassAffinity, estimate_class_affinity
from veilgraph.models.veil.communities import community_log_posterior
from veilgraph.models.veil.cross_fitting import CrossFitting
from veilgraph.models.veil.pagerank import pagerank_views
from veilgraph.models.veil.spectral import spectral_views
from veilgraph.progress import say
from veilgraph.reconstruct.operators import GraphOperators
from veilgraph.reconstruct.threads import map_in_threads

Result = TypeVar("Result")

WEAK_GAIN, STRONG_GAIN = 2.0, 4.0
"""Factors by which one iteration of belief propagation amplifies weak evidence."""

ITERATION_MULTIPLES = (1, 2, 3)
"""Numbers of iterations, in multiples of the hops after which a neighbourhood would cover the graph.

The weaker belief propagation stops at the first.
"""

COMMUNITIES = "communities"
"""Name of the view of communities."""

OF = " of "
"""What stands between the name of a view and that of the relation whose graph it is about."""

DEGREES = "block model with degrees"
"""Name of the view of the block model whose classes differ in affinity and degree."""

_ATTRIBUTES = "public attributes"
_MAX_STRENGTH = 0.9
_MAX_ITERATIONS = 40


Read = Callable[[str, View], Result]
"""Function from the name of a view and the view to what is kept of it."""


Remember = Callable[[str, Callable[[], dict[str, Result]]], dict[str, Result]]
"""Function from a kind of views and what computes them to what is kept of them, by name."""


def read_views(
    labels: CrossFitting,
    operators: GraphOperators,
    read: Read[Result],
    *,
    seed: int,
    related: Mapping[str, Graph] | None = None,
    remember: Remember[Result] = lambda _, compute: compute(),
) -> dict[str, Result]:
    """Return what `read` keeps of every view that needs no features, by name; views of public attributes come last.

    The plan of the reports says how many kinds of views are in memory at once, and in how many parts.

    Args:
        labels: Label reports in folds.
        operators: Matrices of the graph.
        read: What is kept of a view.
        seed: Seed of the random signs.
        related: Relations of which there are views, by name; default: those of the graph.
        remember: Returns what is kept of a kind of views; default: computes it.
    """
    # The slowest first, so that the shorter ones fill the threads evenly. Communities wait for the bisections of the
    # graph, which other processes compute meanwhile.
    affinity = estimate_class_affinity(labels)
    related = relations(labels.perturbed.graph) if related is None else related
    kinds: dict[str, Callable[[], dict[str, View]]] = {
        "block model": partial(_block_view, labels, affinity),
        DEGREES: partial(_degree_view, labels, affinity),
        "strong beliefs": partial(_strong_views, labels, affinity),
        "weak beliefs": partial(_weak_view, labels),
        "spectral": partial(spectral_views, labels, operators),
        "PageRank": partial(_pagerank_views, labels, operators, seed),
        COMMUNITIES: partial(_community_view, labels, operators),
    }
    kinds |= {name: partial(_relation_views, name, _on(graph, labels)) for name, graph in related.items()}
    if (public := labels.perturbed.public) is not None:
        kinds[_ATTRIBUTES] = partial(attribute_views, public, labels, operators)
    at_once = labels.plan.views_at_once

    def computed(kind: str) -> dict[str, Result]:
        if at_once == 1:
            say(f"Veil: {kind}")
        views = kinds[kind]()
        return {name: read(name, views.pop(name)) for name in list(views)}

    def kept(kind: str) -> dict[str, Result]:
        return remember(kind, partial(computed, kind))

    found = dict(zip(kinds, map_in_threads(kept, list(kinds), "Veil, kinds of views", at_once=at_once), strict=True))
    own = ("PageRank", "weak beliefs", "strong beliefs", "block model", DEGREES, "spectral", COMMUNITIES)
    order = (*own, *related, _ATTRIBUTES)
    return {name: each for kind in order for name, each in found.get(kind, {}).items()}


def _on(graph: Graph, labels: CrossFitting) -> CrossFitting:
    """Return the same reports in the same folds, on another graph of the same nodes."""
    return replace(labels, perturbed=replace(labels.perturbed, graph=graph, public=None))


def _relation_views(relation: str, labels: CrossFitting) -> dict[str, View]:
    """Return the views of a relation, under their own names and that of the relation.

    They are the two that bring most reports together for each node. With all kinds of views, one of them is likelier
    to explain weak reports by luck, and the pool would follow links that say nothing.

    Args:
        relation: Name of the relation.
        labels: Label reports in folds, on the graph of the relation.
    """
    views = _block_view(labels, estimate_class_affinity(labels)) | _community_view(labels, labels.reports.operators)
    return {f"{name}{OF}{relation}": view for name, view in views.items()}


def _block_view(labels: CrossFitting, affinity: ClassAffinity | None) -> dict[str, View]:
    return {"block model": _model_view(block_model_log_posterior(labels, affinity), labels)}


def _degree_view(labels: CrossFitting, affinity: ClassAffinity | None) -> dict[str, View]:
    return {DEGREES: _model_view(degree_model_log_posterior(labels, affinity), labels)}


def _community_view(labels: CrossFitting, operators: GraphOperators) -> dict[str, View]:
    return {COMMUNITIES: _model_view(community_log_posterior(labels, operators), labels)}


def _model_view(log_posterior: Tensor, labels: CrossFitting) -> View:
    return BeliefView.of_model(log_posterior - labels.reports.prior.log())


def _pagerank_views(labels: CrossFitting, operators: GraphOperators, seed: int) -> dict[str, View]:
    views = pagerank_views(labels, operators, seed=seed)
    return {f"pagerank {restart} {steps}": view for (restart, steps), view in views.items()}


def _weak_view(labels: CrossFitting) -> dict[str, View]:
    """Return belief propagation with equal priors, after the first number of iterations."""
    graph, equal = labels.perturbed.graph, torch.full_like(labels.reports.prior, 1 / labels.reports.num_classes)
    strengths = degree_scaled_strengths(labels.reports.operators, WEAK_GAIN, maximum=_MAX_STRENGTH)
    propagation = BeliefPropagation(graph=graph, prior=equal, edge_strengths=strengths).to(labels.device)
    (beliefs,) = _propagated(labels, propagation, [iteration_counts(labels.reports.operators)[1]])
    return {"beliefs weak": BeliefView(beliefs)}


def _strong_views(labels: CrossFitting, affinity: ClassAffinity | None) -> dict[str, View]:
    counts = iteration_counts(labels.reports.operators)
    found = _propagated(labels, _strong_propagation(labels, affinity), list(counts.values()))
    prior = labels.reports.prior.log()
    return {
        f"beliefs strong {multiple}": BeliefView(each - prior) for multiple, each in zip(counts, found, strict=True)
    }


def _propagated(labels: CrossFitting, propagation: BeliefPropagation, counts: Sequence[int]) -> list[Tensor]:
    """Return the log-beliefs after each number of iterations, [nodes, K + 1 or 1, classes]."""

    def beliefs(sets: slice) -> list[Tensor]:
        found = propagation.propagate(labels.evidence_of(sets), counts)
        return [found[count] for count in counts]

    return labels.by_sets(beliefs)


def iteration_counts(graph: GraphOperators) -> dict[int, int]:
    """Return the number of iterations for each of `ITERATION_MULTIPLES`: multiples of ln n / ln(mean degree).

    n is the number of nodes that have neighbours.

    >>> from veilgraph.graph import Graph
    >>> iteration_counts(GraphOperators(Graph.from_edges([[0, 1, 2, 3], [1, 2, 3, 0]], num_nodes=4)))  # ln 4 / ln 2
    {1: 2, 2: 4, 3: 6}
    """
    mean_degree = 2 * graph.num_edges / graph.num_joined
    hops = math.log(graph.num_joined) / math.log(max(mean_degree, 1.5))
    return {multiple: min(_MAX_ITERATIONS, max(1, round(multiple * hops))) for multiple in ITERATION_MULTIPLES}


def _strong_propagation(labels: CrossFitting, affinity: ClassAffinity | None) -> BeliefPropagation:
    """Return belief propagation by copying, or with the affinity where classes do more than attract themselves.

    With an affinity, strengths of at most 1 never exceed the estimate.
    """
    graph, operators = labels.perturbed.graph, labels.reports.operators
    if affinity is None or affinity.uniformly_assortative:
        strengths = degree_scaled_strengths(operators, STRONG_GAIN, maximum=_MAX_STRENGTH)
        return BeliefPropagation(graph=graph, prior=labels.reports.prior, edge_strengths=strengths).to(labels.device)
    strengths = degree_scaled_strengths(operators, STRONG_GAIN / max(affinity.spectral_radius, 1e-3), maximum=1.0)
    return BeliefPropagation(
        graph=graph, prior=affinity.end_shares, edge_strengths=strengths, affinity=affinity.matrix
    ).to(labels.device)
