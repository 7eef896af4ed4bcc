"""Our own method: public structure, randomized labels and randomized features in one posterior."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.errors import FitError
from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.learn.belief import BeliefPropagation, copying_strengths
from veilgraph.learn.communities import community_beliefs
from veilgraph.learn.coupling import Coupling, estimate_coupling
from veilgraph.learn.diffusion import diffusions
from veilgraph.learn.evidence import report_evidence
from veilgraph.learn.held_out import HeldOutLabels
from veilgraph.learn.method import Method, check_fit_input
from veilgraph.learn.pool import Beliefs, Expert, Pool, Surroundings, calibrate, fit_pool, model_average, opinions
from veilgraph.learn.threads import threads_for
from veilgraph.reconstruct.operators import GraphOperators, operators_of
from veilgraph.reconstruct.propagation import repeated_product

WEAK, STRONG = 2.0, 4.0
"""By how much a sweep of belief propagation amplifies faint evidence."""

REACHES = (1, 2, 3)
"""Sweeps, in units of the hops after which a neighbourhood would cover the graph."""

FEATURE_RESTARTS = (1.0, 0.5, 0.2, 0.05)
"""How far feature evidence spreads: at 1 it is a node's own report."""

_COMMUNITIES = "communities"
_MOST_COPYING = 0.9
_MOST_SWEEPS = 40
_FEATURE_STEPS = 16
_CPU = torch.device("cpu")


@dataclass(kw_only=True)
class Veil(Method):
    r"""A posterior over classes, from everything that the server knows.

    Several views of the same reports each give a class distribution for every node: label shares in its
    surroundings at eight ranges, belief propagation at two strengths (the greater one with class couplings learned from
    edges where classes do more than attract themselves), each stopped at three points, and the communities of all sizes
    that it may belong to. Every view is computed without a fold of the label reports in turn, calibrated and pooled by
    how well it explains the reports that it did not see,

    .. math:: \max_{w \ge 0, b} \sum_{v \in L} \ln [p_v P]_{y'_v} - 50 \|w - w_0\|^2 - 15 \|b\|^2,
        \qquad \ln p_v = \sum_e w_e \ln p_{e,v} + b

    with P the label channel and w_0 the weights of Bayesian model averaging, communities having half of the chances
    beforehand. Feature reports join as log-likelihoods under report rates of each class, if unseen label reports become
    likelier by more than the numbers spent on it. A node's own label report counts once: p_v P[., y'_v] with p_v from
    the version without it.

    Nothing is set per data set and no clean label is seen. `split` only says which nodes were meant to train; all
    reports are used, and folds judge.

    Args:
        seed: of the folds and of the random signs that measure how many reports an estimate rests on.

    Attributes:
        settings: after fitting, the calibration of each view.
        pool: after fitting, the weights of the views.
        feature_pool: after fitting, the weights with feature evidence; None where it did not pay.

    >>> Veil().uses_features
    True
    """

    name: ClassVar[str] = "veil"

    seed: int = 0
    settings: dict[str, tuple[float, ...]] = field(init=False, default_factory=dict, repr=False, compare=False)
    pool: Pool | None = field(init=False, default=None, repr=False, compare=False)
    feature_pool: Pool | None = field(init=False, default=None, repr=False, compare=False)
    _probabilities: NDArray[np.float32] | None = field(init=False, default=None, repr=False, compare=False)

    def fit(self, perturbed: PerturbedGraph, split: Split) -> Self:
        """Compute every view with and without each fold, calibrate, pool."""
        check_fit_input(perturbed, split)
        with threads_for(perturbed.graph.num_nodes):
            self._fit(self._needed(perturbed))
        return self

    def _fit(self, perturbed: PerturbedGraph) -> None:
        labels, operators = HeldOutLabels.of(perturbed, seed=self.seed), operators_of(perturbed.graph, _CPU)
        experts = structural_experts(labels, operators, seed=self.seed)
        self.settings = {name: calibrate(expert, labels) for name, expert in experts.items()}
        terms = opinions(experts, self.settings, labels)
        held = _out_of_fold(terms, labels)
        self.pool = fit_pool(held, labels, model_average(held, labels, _beforehand(self.settings)))
        self.feature_pool = _fit_feature_pool(self.pool, terms, labels, operators)
        self._probabilities = self._posterior(self.pool, terms, labels, operators)

    def predict_proba(self, perturbed: PerturbedGraph | None = None) -> NDArray[np.float32]:
        """Of the fitted graph, or of another one: its own reports, with the calibration and weights of this one."""
        if self._probabilities is None or self.pool is None:
            raise FitError("Veil was not fitted yet: call fit(perturbed, split) first")
        if perturbed is None:
            return self._probabilities
        if (classes := perturbed.schema.num_classes) != self._probabilities.shape[1]:
            raise FitError(f"the graph has {classes} classes, Veil was fitted for {self._probabilities.shape[1]}")
        if not perturbed.has_label.any():
            raise FitError("no labelled nodes: at least one node must report its label")
        perturbed = self._needed(perturbed)
        labels, operators = HeldOutLabels.of(perturbed, seed=self.seed), operators_of(perturbed.graph, _CPU)
        experts = structural_experts(labels, operators, seed=self.seed)
        return self._posterior(self.pool, opinions(experts, self.settings, labels), labels, operators)

    def _needed(self, perturbed: PerturbedGraph) -> PerturbedGraph:
        """The reports that this method asks people for."""
        if self.uses_features:
            return perturbed
        return replace(perturbed, has_features=np.zeros_like(perturbed.has_features))

    def _posterior(
        self, pool: Pool, terms: Tensor, labels: HeldOutLabels, operators: GraphOperators
    ) -> NDArray[np.float32]:
        pooled = pool.combine(terms)
        if self.feature_pool is not None and labels.perturbed.has_features.any():
            pooled = self.feature_pool.combine(torch.cat([terms, feature_terms(pooled, labels, operators)]))
        final = pooled[:, -1].clone()
        final[labels.nodes] = labels.out_of_fold(pooled) + labels.evidence[labels.nodes, -1]
        probabilities: NDArray[np.float32] = final.softmax(dim=1).numpy()
        return probabilities


@dataclass(kw_only=True)
class LabelVeil(Veil):
    """`Veil` for a collection that asks for labels alone and spends nothing on features.

    >>> LabelVeil().uses_features
    False
    """

    name: ClassVar[str] = "veil_labels"
    uses_features: ClassVar[bool] = False


def structural_experts(labels: HeldOutLabels, operators: GraphOperators, *, seed: int) -> dict[str, Expert]:
    """Every view that needs no features, by name."""
    experts: dict[str, Expert] = {
        f"surroundings {restart} {steps}": Surroundings(diffusion)
        for (restart, steps), diffusion in diffusions(labels, operators.symmetric.matrix, seed=seed).items()
    }
    sweeps = sweep_counts(operators.graph)
    for name, propagation in _propagations(labels).items():
        found = propagation.sweep(labels.evidence, list(sweeps.values()))
        experts |= {f"beliefs {name} {reach}": Beliefs(found[count]) for reach, count in sweeps.items()}
    return experts | {_COMMUNITIES: Beliefs(community_beliefs(labels, operators), usual=1.0)}


def _beforehand(names: Iterable[str]) -> Tensor:
    """Half a chance for communities, the other half for all that looks from nodes to their neighbours."""
    communities = torch.tensor([name == _COMMUNITIES for name in names])
    return torch.where(communities, 0.5, 0.5 / (len(communities) - 1))


def sweep_counts(graph: Graph) -> dict[int, int]:
    """Sweeps for each of `REACHES`: multiples of ln n / ln(mean degree), from the public graph alone.

    >>> sweep_counts(Graph.from_edges([[0, 1, 2, 3], [1, 2, 3, 0]], num_nodes=4))  # ln 4 / ln 2
    {1: 2, 2: 4, 3: 6}
    """
    mean_degree = 2 * graph.num_edges / graph.num_nodes
    reach = math.log(graph.num_nodes) / math.log(max(mean_degree, 1.5))
    return {times: min(_MOST_SWEEPS, max(1, round(times * reach))) for times in REACHES}


def _propagations(labels: HeldOutLabels) -> dict[str, BeliefPropagation]:
    graph, equal = labels.perturbed.graph, torch.full_like(labels.prior, 1 / labels.num_classes)
    weak, strong = (copying_strengths(graph, gain, most=_MOST_COPYING) for gain in (WEAK, STRONG))
    coupling = estimate_coupling(labels)
    if coupling is None or coupling.plain:
        copying = BeliefPropagation(graph=graph, prior=labels.prior, strengths=strong)
    else:
        copying = _learned_propagation(graph, coupling)
    return {"weak": BeliefPropagation(graph=graph, prior=equal, strengths=weak), "strong": copying}


def _learned_propagation(graph: Graph, coupling: Coupling) -> BeliefPropagation:
    """Strengths that amplify as those of copying do, but never beyond the coupling that was estimated."""
    strengths = copying_strengths(graph, STRONG / max(coupling.strength, 1e-3), most=1.0)
    return BeliefPropagation(graph=graph, prior=coupling.ends, strengths=strengths, coupling=coupling.matrix)


def feature_terms(pooled: Tensor, labels: HeldOutLabels, operators: GraphOperators) -> Tensor:
    """Evidence of feature reports [terms, n, F + 1, c], own and of the surroundings, in units of its spread."""
    evidence = report_evidence(labels.perturbed, (pooled + labels.evidence).softmax(dim=2))
    own = evidence.reshape(len(evidence), -1)
    terms = []
    for restart in FEATURE_RESTARTS:
        columns = own
        for _ in range(_FEATURE_STEPS if restart < 1 else 0):
            columns = torch.add(
                restart * own, repeated_product(operators.symmetric.matrix, columns, 1), alpha=1 - restart
            )
        terms.append(columns.reshape(evidence.shape) / columns.std().clamp(min=1e-6))
    return torch.stack(terms)


def _fit_feature_pool(pool: Pool, terms: Tensor, labels: HeldOutLabels, operators: GraphOperators) -> Pool | None:
    """The pool with feature evidence, if unseen reports gain more than one nat for each number that it adds."""
    if not labels.perturbed.has_features.any():
        return None
    extra = feature_terms(pool.combine(terms), labels, operators)
    without, held = _out_of_fold(terms, labels), _out_of_fold(torch.cat([terms, extra]), labels)
    joint = fit_pool(held, labels, torch.cat([pool.weights, torch.zeros(len(extra))]))
    # The views alone get the same second chance from the same centre: what they gain by it is not the features'.
    again = fit_pool(without, labels, pool.weights)
    before, after = (labels.log_likelihood(p.combine(h)).sum() for p, h in ((again, without), (joint, held)))
    return joint if float(after - before) > len(extra) else None


def _out_of_fold(terms: Tensor, labels: HeldOutLabels) -> Tensor:
    return torch.stack([labels.out_of_fold(term) for term in terms])
