"""Our own method: public structure, randomized labels and randomized features in one posterior."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.errors import FitError
from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.models.base import DEFAULT_MEMORY, FitTask, Method, PendingFit, check_fit_input, check_is_fitted
from veilgraph.models.engine.device import in_threads, resolve_device, side_by_side
from veilgraph.models.veil.batch_planner import plan_sharing
from veilgraph.models.veil.belief_propagation import BeliefPropagation, copying_strengths
from veilgraph.models.veil.class_affinity import Coupling, estimate_coupling
from veilgraph.models.veil.communities import community_beliefs, halvings
from veilgraph.models.veil.cross_fitting import HeldOutLabels
from veilgraph.models.veil.feature_likelihood import report_evidence
from veilgraph.models.veil.log_softmax import log_softmax
from veilgraph.models.veil.opinion_pool import (
    Beliefs,
    Expert,
    Pool,
    Setting,
    Surroundings,
    calibrate,
    fit_pool,
    model_average,
    opinions,
)
from veilgraph.models.veil.pagerank import diffusions, personalised_pagerank
from veilgraph.reconstruct.operators import GraphOperators, operators_of

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
        device: "auto", "cpu" or "cuda"; between devices answers differ by the rounding of sums.

    Attributes:
        settings_: after fitting, the calibration of each view.
        pool_: after fitting, the weights of the views.
        feature_pool_: after fitting, the weights with feature evidence; None where it did not pay.

    >>> Veil().uses_features
    True
    """

    name: ClassVar[str] = "veil"

    seed: int = 0
    device: str = "cpu"
    settings_: dict[str, Setting] = field(init=False, repr=False, compare=False)
    pool_: Pool = field(init=False, repr=False, compare=False)
    feature_pool_: Pool | None = field(init=False, default=None, repr=False, compare=False)
    probabilities_: NDArray[np.float32] = field(init=False, repr=False, compare=False)

    def fit(self, perturbed: PerturbedGraph, split: Split) -> Self:
        """Compute every view with and without each fold, calibrate, pool."""
        check_fit_input(perturbed, split)
        _fit_sharing([FitTask(method=self, perturbed=perturbed, split=split)])
        return self

    @classmethod
    def start_together(
        cls, runs: Sequence[FitTask[Self]], *, memory: int = DEFAULT_MEMORY
    ) -> Iterator[PendingFit[Self]]:
        """Fit many: runs of the same label reports share all views of them, others are fitted side by side in threads.

        The same as fitting each on its own, up to the rounding of sums.
        """
        for run in runs:
            check_fit_input(run.perturbed, run.split)
        for batch in plan_sharing(runs, memory):
            batch[0][0].method._halved(batch[0][0].perturbed.graph)  # once, and not by every thread
            with side_by_side(resolve_device(batch[0][0].method.device)):
                in_threads(_fit_sharing, batch)
            yield PendingFit([run for sharing in batch for run in sharing])

    def predict_proba(self, perturbed: PerturbedGraph | None = None) -> NDArray[np.float32]:
        """Of the fitted graph, or of another one: its own reports, with the calibration and weights of this one."""
        check_is_fitted(self)
        if perturbed is None:
            return self.probabilities_
        if (classes := perturbed.schema.num_classes) != self.probabilities_.shape[1]:
            raise FitError(f"the graph has {classes} classes, Veil was fitted for {self.probabilities_.shape[1]}")
        if not perturbed.has_label.any():
            raise FitError("no labelled nodes: at least one node must report its label")
        labels, operators = self._known(perturbed)
        with side_by_side(labels.device):
            experts = structural_experts(labels, operators, seed=self.seed)
            return self._posterior(self.pool_, opinions(experts, self.settings_, labels), labels, operators)

    def _known(self, perturbed: PerturbedGraph) -> tuple[HeldOutLabels, GraphOperators]:
        """The needed reports and the graph, where this method computes."""
        device = resolve_device(self.device)
        labels = HeldOutLabels.of(self._needed(perturbed), seed=self.seed, device=device)
        return labels, self._halved(perturbed.graph)

    def _halved(self, graph: Graph) -> GraphOperators:
        """The graph with the nested halves that communities are made of, by as many processes as torch has threads."""
        operators = operators_of(graph, resolve_device(self.device))
        operators.bisections(*halvings(graph), workers=torch.get_num_threads())
        return operators

    def _needed(self, perturbed: PerturbedGraph) -> PerturbedGraph:
        """The reports that this method asks people for."""
        if self.uses_features:
            return perturbed
        return replace(perturbed, has_features=np.zeros_like(perturbed.has_features))

    def _finish(self, settings: dict[str, Setting], pool: Pool, terms: Tensor, perturbed: PerturbedGraph) -> None:
        """What depends on features: whether they pay, and the answer."""
        labels, operators = self._known(perturbed)
        self.settings_, self.pool_ = settings, pool
        self.feature_pool_ = _fit_feature_pool(pool, terms, labels, operators)
        self.probabilities_ = self._posterior(pool, terms, labels, operators)

    def _posterior(
        self, pool: Pool, terms: Tensor, labels: HeldOutLabels, operators: GraphOperators
    ) -> NDArray[np.float32]:
        pooled = pool.combine(terms)
        if self.feature_pool_ is not None and labels.perturbed.has_features.any():
            pooled = self.feature_pool_.combine(torch.cat([terms, feature_terms(pooled, labels, operators)]))
        final = pooled[:, -1].clone()
        final[labels.nodes] = labels.out_of_fold(pooled) + labels.evidence[labels.nodes, -1]
        probabilities: NDArray[np.float32] = log_softmax(final).exp().cpu().numpy()
        return probabilities


@dataclass(kw_only=True)
class LabelVeil(Veil):
    """`Veil` for a collection that asks for labels alone and spends nothing on features.

    >>> LabelVeil().uses_features
    False
    """

    name: ClassVar[str] = "veil_labels"
    uses_features: ClassVar[bool] = False


def _fit_sharing(runs: Sequence[FitTask[Veil]]) -> None:
    """Fit runs of the same label reports: what does not depend on features is computed once."""
    method = runs[0].method
    labels, operators = method._known(runs[0].perturbed)
    with side_by_side(labels.device):
        experts = structural_experts(labels, operators, seed=method.seed)
        chosen = in_threads(partial(calibrate, labels=labels), list(experts.values()))
        settings = dict(zip(experts, chosen, strict=True))
        terms = opinions(experts, settings, labels)
        held = _out_of_fold(terms, labels)
        pool = fit_pool(held, labels, model_average(held, labels, _beforehand(settings, labels.device)))
        in_threads(lambda run: run.method._finish(dict(settings), pool, terms, run.perturbed), runs)


def structural_experts(labels: HeldOutLabels, operators: GraphOperators, *, seed: int) -> dict[str, Expert]:
    """Every view that needs no features, by name."""
    # Those that take longest first: what is left then fills the threads evenly.
    views = [
        partial(_communities, labels, operators),
        *(partial(_beliefs, labels, *view) for view in _propagations(labels).items()),
        partial(_surroundings, labels, operators, seed),
    ]
    communities, *beliefs, around = in_threads(lambda view: view(), views)
    return {name: expert for found in (around, *beliefs, communities) for name, expert in found.items()}


def _communities(labels: HeldOutLabels, operators: GraphOperators) -> dict[str, Expert]:
    return {_COMMUNITIES: Beliefs(community_beliefs(labels, operators), usual=1.0)}


def _surroundings(labels: HeldOutLabels, operators: GraphOperators, seed: int) -> dict[str, Expert]:
    found = diffusions(labels, operators.symmetric.matrix, seed=seed)
    return {f"surroundings {restart} {steps}": Surroundings(found[restart, steps]) for restart, steps in found}


def _beliefs(labels: HeldOutLabels, name: str, propagation: BeliefPropagation) -> dict[str, Expert]:
    sweeps = sweep_counts(propagation.graph)
    found = propagation.sweep(labels.evidence, list(sweeps.values()))
    return {f"beliefs {name} {reach}": Beliefs(found[count]) for reach, count in sweeps.items()}


def _beforehand(names: Iterable[str], device: torch.device) -> Tensor:
    """Half a chance for communities, the other half for all that looks from nodes to their neighbours."""
    communities = torch.tensor([name == _COMMUNITIES for name in names], device=device)
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
    found = {"weak": BeliefPropagation(graph=graph, prior=equal, strengths=weak), "strong": copying}
    return {name: propagation.to(labels.device) for name, propagation in found.items()}


def _learned_propagation(graph: Graph, coupling: Coupling) -> BeliefPropagation:
    """Strengths that amplify as those of copying do, but never beyond the coupling that was estimated."""
    strengths = copying_strengths(graph, STRONG / max(coupling.strength, 1e-3), most=1.0)
    return BeliefPropagation(graph=graph, prior=coupling.ends, strengths=strengths, coupling=coupling.matrix)


def feature_terms(pooled: Tensor, labels: HeldOutLabels, operators: GraphOperators) -> Tensor:
    """Evidence of feature reports [terms, n, F + 1, c], own and of the surroundings, in units of its spread."""
    evidence = report_evidence(labels.perturbed, (pooled + labels.evidence).softmax(dim=2))
    ranges = [(restart, _FEATURE_STEPS if restart < 1 else 0) for restart in FEATURE_RESTARTS]
    spread = personalised_pagerank(operators.symmetric.matrix, evidence.flatten(1), ranges)
    return torch.stack([columns.view_as(evidence) / columns.std().clamp(min=1e-6) for columns in spread.values()])


def _fit_feature_pool(pool: Pool, terms: Tensor, labels: HeldOutLabels, operators: GraphOperators) -> Pool | None:
    """The pool with feature evidence, if unseen reports gain more than one nat for each number that it adds."""
    if not labels.perturbed.has_features.any():
        return None
    extra = feature_terms(pool.combine(terms), labels, operators)
    without, held = _out_of_fold(terms, labels), _out_of_fold(torch.cat([terms, extra]), labels)
    joint = fit_pool(held, labels, torch.cat([pool.weights, pool.weights.new_zeros(len(extra))]))
    # The views alone get the same second chance from the same centre: what they gain by it is not the features'.
    again = fit_pool(without, labels, pool.weights)
    before, after = (labels.log_likelihood(p.combine(h)).sum() for p, h in ((again, without), (joint, held)))
    return joint if float(after - before) > len(extra) else None


def _out_of_fold(terms: Tensor, labels: HeldOutLabels) -> Tensor:
    return torch.stack([labels.out_of_fold(term) for term in terms])
