"""Veil: public structure, randomized labels and randomized features in one posterior."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.errors import FitError
from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.graph.relations import relations
from veilgraph.models.base import (
    DEFAULT_MEMORY,
    FitTask,
    Method,
    PendingFit,
    begin_fit,
    check_is_fitted,
)
from veilgraph.models.conformal import SAVED_TYPES, ConformalSets, calibrate_sets
from veilgraph.models.engine.device import resolve_device
from veilgraph.models.saved_state import FittedState, check_types
from veilgraph.models.unused_reports import UnusedReports
from veilgraph.models.veil.attribute_views import KIND as ATTRIBUTES
from veilgraph.models.veil.calibration import Parameters, View, calibrate, calibrated_log_probabilities, log_softmax
from veilgraph.models.veil.contamination import Contamination
from veilgraph.models.veil.contamination_estimate import (
    estimate_contamination,
    evidence_needed,
    greatest_contamination,
)
from veilgraph.models.veil.cross_fitting import CrossFitting, any_features
from veilgraph.models.veil.feature_evidence import FEATURE_RESTARTS, feature_terms
from veilgraph.models.veil.fit_memory import bytes_needed, plan_within
from veilgraph.models.veil.opinion_pool import OpinionPool, fit_pool, model_averaging_weights, wider_pool
from veilgraph.models.veil.view_checkpoint import ViewCheckpoint
from veilgraph.models.veil.views import COMMUNITIES, OF, read_views
from veilgraph.privacy.mechanisms import Mechanism
from veilgraph.progress import say
from veilgraph.reconstruct.operators import GraphOperators, operators_of
from veilgraph.reconstruct.threads import map_in_threads, num_workers, thread_workers

_COMMUNITIES_WEIGHT = 0.5
"""Prior weight of communities: where reports are weak, they bring the most of them together for each node."""

_RELATIONS_WEIGHT = 0.25
"""Prior weight of all relations together: what is known about links beside whom they join may say nothing."""

_MAX_REFITS, _SETTLED = 4, 0.02
"""Fits with contamination at most, and the change of its share from which on there is no other."""

_DEGREE_COLUMNS = 3
"""Number of columns by which the bias of the pool may depend on a node's degree."""

_GAIN = 0.5
"""Standard errors by which views of public attributes must explain reports better: odds of two to one."""

_TINY = 1e-30
"""Probability below which a class counts as impossible, so that logarithms are finite."""

VeilT = TypeVar("VeilT", bound="Veil")


@dataclass(kw_only=True)
class Veil(Method):
    r"""Posterior over classes from the graph, the label reports and the feature reports.

    Several views of the same reports each give class probabilities of every node:

    - personalised PageRank of the label reports at eight ranges;
    - belief propagation at two strengths, the stronger one after three numbers of iterations. It uses a class
      affinity learned from edges, where classes do more than attract themselves equally;
    - belief propagation of two stochastic block models with the field of the non-edges: one with a learned attraction,
      one that learns the affinity and the degrees of classes;
    - a mixture over communities of all sizes;
    - logistic regression on the leading 16 and 64 eigenvectors of the graph, which needs no homophily;
    - with `Graph.links`, the block model and communities of each of its `relations`;
    - with public attributes, logistic regression on their components, as they are and smoothed over the graph.

    Every view is cross-fitted: computed without each fold of the label reports in turn. It is calibrated, and views
    are combined in a logarithmic opinion pool, both by the likelihood of the reports left out,

    .. math:: \max_{w \ge 0, b} \sum_{v \in L} \ln \sum_x p_{v,x} P(y'_v | x) - 50 \|w - w_0\|^2 - 15 \|b\|^2,
        \qquad \ln p_v = \sum_e w_e \ln p_{e,v} + \phi_v b

    with P the label mechanism and w_0 the weights of Bayesian model averaging with the square root of the likelihood.
    phi_v is 1, the standardised rank of the node's degree, and a quadratic in it: classes may differ in degree.
    Communities have a prior weight of one half, other kinds of views share the rest equally. A label report may name
    one class or a set of them: P(y' | x) has one value for the classes that it names, and another for the rest.
    Feature reports enter as naive-Bayes log-likelihoods, if they raise the
    log-likelihood of out-of-fold label reports by more than the number of added weights. A node's own label report
    counts once: p_v P(y'_v | .) with p_v from the training set without it.

    Views of public attributes enter if they explain out-of-fold reports better by half a standard error of the gain.
    Otherwise Veil is what it is without attributes.

    Some label reports may not be randomized. If that explains the reports left out better, with odds of 100 to 1 for
    each class, views and pool are fitted again with the channel of `Contamination`. Public attributes are no evidence
    for it: a class that depends little on them would look like people who name it whatever is true.

    There is no parameter to set for a data set, and no true label is read. All label reports are used. `split` is
    only checked: folds of the reports replace it.

    Args:
        seed: Seed of the folds and of the random signs that estimate effective sample sizes. Both are hashes of the
            nodes' ids and places in the graph, so the rows of a table do not matter; without ids, folds are of rows.
        device: "auto", "cpu" or "cuda". Results differ between devices by the rounding of sums.

    Attributes:
        calibration_: After fitting, the calibration parameters of each view, by name.
        pool_: After fitting, the opinion pool of the views.
        feature_pool_: After fitting, the pool with feature likelihoods; None if they do not improve it.
        contamination_: After fitting, the label reports that were not randomized; None if none were found.
        public_: After fitting, the names of the public columns that it uses; none if they do not improve it.
        probabilities_: After fitting, class probabilities of the fitted graph, [nodes, classes].
        conformal_: After fitting, the coverage of sets of classes.

    >>> Veil().uses_features
    True
    """

    name: ClassVar[str] = "veil"
    uses_public: ClassVar[bool] = True

    seed: int = 0
    device: str = "auto"
    calibration_: dict[str, Parameters] = field(init=False, repr=False, compare=False)
    pool_: OpinionPool = field(init=False, repr=False, compare=False)
    feature_pool_: OpinionPool | None = field(init=False, default=None, repr=False, compare=False)
    contamination_: Contamination | None = field(init=False, default=None, repr=False, compare=False)
    public_: tuple[str, ...] = field(init=False, default=(), repr=False, compare=False)
    probabilities_: NDArray[np.float32] = field(init=False, repr=False, compare=False)
    conformal_: ConformalSets = field(init=False, repr=False, compare=False)

    @classmethod
    def unmet_need(cls, features: Mechanism | None) -> str | None:
        """Return None: features are used where there are any."""
        return None

    def fit(
        self,
        perturbed: PerturbedGraph,
        split: Split,
        *,
        memory: int = DEFAULT_MEMORY,
        checkpoint: ViewCheckpoint | None = None,
    ) -> Self:
        """Cross-fit every view, calibrate the views and fit the opinion pool.

        Args:
            perturbed: The graph and its reports.
            split: Checked only: folds of the reports replace it.
            memory: Limit for the arrays of the fit, in bytes. If it is short, views and training sets are computed one
                after another.
            checkpoint: Views of an interrupted fit, and the files for those of this fit; None keeps none.
        """
        task = FitTask(method=self, perturbed=perturbed, split=split)
        begin_fit(self, perturbed, split, operators_of(perturbed.graph, resolve_device(self.device)).communicator)
        _fit_shared([task], memory, checkpoint)
        return self

    @classmethod
    def start_together(
        cls, tasks: Sequence[FitTask[Self]], *, memory: int = DEFAULT_MEMORY
    ) -> Iterator[PendingFit[Self]]:
        """Fit many tasks: those with the same label reports share all views, others are fitted in parallel threads.

        The results are those of separate fits, up to the rounding of sums.
        """
        for task in tasks:
            begin_fit(task.method, task.perturbed, task.split)
        for batch in _plan_batches(tasks, memory):
            first = batch[0][0]
            _bisecting_operators(first.method, first.perturbed.graph)  # once, before several threads need it
            with thread_workers(resolve_device(first.method.device)):
                map_in_threads(partial(_fit_shared, memory=memory // len(batch)), batch, "Veil, fits")
            yield PendingFit([task for sharing in batch for task in sharing])

    def predict_proba(self, perturbed: PerturbedGraph | None = None) -> NDArray[np.float32]:
        """Return class probabilities [nodes, classes] of the fitted graph or of another graph.

        For another graph, views are computed from its own reports. The calibration and the weights stay.
        """
        check_is_fitted(self)
        if perturbed is None:
            return self.probabilities_.copy()
        if (classes := perturbed.schema.num_classes) != self.probabilities_.shape[1]:
            raise FitError(f"the graph has {classes} classes, Veil was fitted for {self.probabilities_.shape[1]}")
        public = perturbed.public_columns(self.public_) if self.public_ else None
        labels = _cross_fitting(self, replace(perturbed, public=public), self.contamination_)
        related = _with_relations(perturbed.graph, self.calibration_)
        if labels.reports.num_reports == 0:
            raise FitError("no labelled nodes: at least one node must report its label")
        operators = _bisecting_operators(self, perturbed.graph)
        with thread_workers(labels.device):
            labels = replace(labels, plan=plan_within(DEFAULT_MEMORY, labels.perturbed, threads=num_workers()))

            def term(name: str, view: View) -> Tensor:
                parameters = _checked_calibration(self.calibration_, name, view)
                return calibrated_log_probabilities(view, parameters, labels)

            found = read_views(labels, operators, term, seed=self.seed, related=related)
            terms = torch.stack([found[name] for name in self.calibration_])
            return _posterior(_pooled(self.pool_, self.feature_pool_, terms, labels, operators), labels)

    @property
    def public_columns(self) -> tuple[str, ...]:
        """Names of the public columns that the fitted method uses."""
        return self.public_

    def conformal_sets(self) -> ConformalSets:
        """Return the coverage of sets of classes, estimated from out-of-fold reports."""
        check_is_fitted(self)
        return self.conformal_

    def predict_without_own_report(self, perturbed: PerturbedGraph) -> NDArray[np.float64]:
        """Return class probabilities that use no label report of the node itself, [nodes, classes].

        Those of reporting nodes are out of fold: the own report is divided out of the posterior of the fit.
        """
        check_is_fitted(self)
        labels = _cross_fitting(self, perturbed, self.contamination_)
        nodes = labels.reports.nodes
        logs = torch.from_numpy(self.probabilities_).to(labels.device).double().clamp(min=_TINY).log()
        logs[nodes] += _prior_without_fold(labels) - labels.report_evidence
        probabilities: NDArray[np.float64] = logs.softmax(dim=1).cpu().numpy()
        return probabilities

    def unused_reports(self, perturbed: PerturbedGraph) -> UnusedReports | None:
        """Return the label reports with out-of-fold predictions, and the contamination that was found."""
        judged, lies = super().unused_reports(perturbed), self.contamination_
        if judged is None or lies is None:
            return judged
        shares = lies.shares_at(torch.from_numpy(perturbed.graph.degrees[judged.nodes])).double().numpy()
        return replace(judged, lies=shares, lies_name=lies.named_shares, unrandomized=lies.mean_likelihood)

    def fitted_state(self) -> FittedState:
        """Return the calibration, the weights of both pools, the contamination and the probabilities."""
        pools = {"pool": self.pool_} | ({} if self.feature_pool_ is None else {"feature_pool": self.feature_pool_})
        arrays: dict[str, NDArray[Any]] = {"probabilities": self.probabilities_}
        for name, pool in pools.items():
            arrays |= {f"{name}.weights": pool.weights.cpu().numpy(), f"{name}.bias": pool.bias.cpu().numpy()}
        objectives = {name: pool.objective for name, pool in pools.items()}
        values: dict[str, Any] = {"calibration": self.calibration_, "objectives": objectives}
        sets = self.conformal_.fitted_state()
        if self.contamination_ is not None:
            values["contamination"] = asdict(self.contamination_)
        if self.public_:
            values["public"] = list(self.public_)
        return FittedState(values=values | sets.values, arrays=arrays | sets.arrays)

    def restore(self, state: FittedState) -> None:
        """Set the fitted attributes to a state that `fitted_state` returned; refuse one of another form."""
        names = ("pool", "feature_pool") if "feature_pool.weights" in state.arrays else ("pool",)
        numbers = [f"{name}.{part}" for name in names for part in ("weights", "bias")]
        floats = dict.fromkeys(["probabilities", *numbers], NDArray[np.float32])
        possible = {"contamination": dict[str, Any], "public": list[str]}
        optional = {name: kind for name, kind in possible.items() if name in state.values}
        values = {"calibration": dict[str, list[float]], "objectives": dict[str, float]}
        state.check(floats | SAVED_TYPES | optional | values)
        check_types(state.values["objectives"], dict.fromkeys(names, float))
        views, classes = len(state.values["calibration"]), state.arrays["probabilities"].shape[-1:]
        for name, terms in zip(names, (views, views + len(FEATURE_RESTARTS)), strict=False):
            shapes = state.arrays[f"{name}.weights"].shape, state.arrays[f"{name}.bias"].shape
            if shapes != (expected := ((terms,), (_DEGREE_COLUMNS, *classes))):
                raise FitError(f"'{name}' has weights and bias of shapes {shapes}, not {expected}")
        device = resolve_device(self.device)
        pools = {
            name: OpinionPool(
                weights=torch.from_numpy(state.arrays[f"{name}.weights"]).to(device),
                bias=torch.from_numpy(state.arrays[f"{name}.bias"]).to(device),
                objective=state.values["objectives"][name],
            )
            for name in names
        }
        self.calibration_ = {name: tuple(parameters) for name, parameters in state.values["calibration"].items()}
        self.pool_, self.feature_pool_ = pools["pool"], pools.get("feature_pool")
        self.probabilities_, self.conformal_ = state.arrays["probabilities"], ConformalSets.from_state(state)
        if len(self.conformal_.reporting) != len(self.probabilities_):
            raise FitError(
                f"sets are of {len(self.conformal_.reporting)} nodes, probabilities of {len(self.probabilities_)}"
            )
        self.public_ = tuple(state.values.get("public", ()))
        described = state.values.get("contamination")
        self.contamination_ = None if described is None else Contamination.from_dict(described, *classes)


@dataclass(kw_only=True)
class LabelVeil(Veil):
    """`Veil` for a campaign that asks for labels alone and spends nothing on features.

    >>> LabelVeil().uses_features
    False
    """

    name: ClassVar[str] = "veil_labels"
    uses_features: ClassVar[bool] = False


def _checked_calibration(calibration: Mapping[str, Parameters], name: str, view: View) -> Parameters:
    """Return the parameters of a view; raise FitError unless there are as many finite ones as the view has."""
    parameters = calibration.get(name, ())
    if len(parameters) != len(view.candidates()[0]) or not all(map(math.isfinite, parameters)):
        raise FitError("the calibration of Veil does not fit its views: train the model again")
    return parameters


def _fit_shared(tasks: Sequence[FitTask[Veil]], memory: int, checkpoint: ViewCheckpoint | None = None) -> None:
    """Fit tasks with the same label reports: everything that does not depend on features is computed once."""
    method, perturbed = tasks[0].method, tasks[0].perturbed
    shared, operators = _cross_fitting(method, perturbed), _bisecting_operators(method, perturbed.graph)
    with thread_workers(shared.device):
        shared = replace(shared, plan=plan_within(memory, _most_reports(tasks), threads=num_workers()))
        structure = partial(_fit_structure, operators=operators, seed=method.seed, checkpoint=checkpoint)
        fit = _fit_contaminated(structure(shared), structure)
        contamination, calibration, terms = fit.labels.contamination, fit.calibration, fit.terms
        pool, public = fit.pool, tuple[str, ...]()
        if perturbed.public is not None:
            wider = _pool_of_views(list(calibration), terms, fit.labels)
            if _explains_more(wider, pool, _out_of_fold(terms, fit.labels), fit.labels):
                pool, public = wider, perturbed.public.names
        used = len(pool.weights)
        calibration, terms = dict(list(calibration.items())[:used]), terms[:used]

        def finish(task: FitTask[Veil]) -> None:
            fitted, labels = task.method, _cross_fitting(task.method, task.perturbed, contamination)
            fitted.contamination_, fitted.public_ = contamination, public
            feature_pool = _fit_feature_pool(pool, terms, labels, operators)
            fitted.calibration_, fitted.pool_, fitted.feature_pool_ = dict(calibration), pool, feature_pool
            pooled = _pooled(pool, feature_pool, terms, labels, operators)
            fitted.probabilities_ = _posterior(pooled, labels)
            fitted.conformal_ = _calibrate_sets(pooled, labels)

        map_in_threads(finish, tasks, "Veil, posteriors")


class _StructuralFit(NamedTuple):
    """A fit of everything that does not depend on features.

    Attributes:
        labels: Label reports in folds.
        calibration: Parameters of each view, by name; those of public attributes come last.
        terms: Log-probabilities of the views, [views, nodes, K + 1 or 1, classes].
        pool: Pool of the views without those of public attributes.
    """

    labels: CrossFitting
    calibration: dict[str, Parameters]
    terms: Tensor
    pool: OpinionPool

    @property
    def log_likelihood(self) -> float:
        """Penalised log-likelihood of the out-of-fold reports."""
        return self.pool.objective + self.labels.likelihood.log_scale


def _fit_structure(
    labels: CrossFitting, operators: GraphOperators, *, seed: int, checkpoint: ViewCheckpoint | None
) -> _StructuralFit:
    """Cross-fit and calibrate every view that needs no features, and fit the pool of those of the structure."""

    def calibrated(_: str, view: View) -> tuple[Parameters, Tensor]:
        parameters = calibrate(view, labels)
        return parameters, calibrated_log_probabilities(view, parameters, labels)

    if checkpoint is None:
        found = read_views(labels, operators, calibrated, seed=seed)
    else:
        remember = partial(checkpoint.remember, labels)
        found = read_views(labels, operators, calibrated, seed=seed, remember=remember)
    calibration, terms = (
        {name: each for name, (each, _) in found.items()},
        _stacked([found.pop(name)[1] for name in list(found)]),
    )
    if labels.plan.views_at_once == 1:
        say("Veil: opinion pool")
    structural = [name for name in calibration if name.split()[0] != ATTRIBUTES]
    return _StructuralFit(labels, calibration, terms, _pool_of_views(structural, terms, labels))


def _pool_of_views(names: Sequence[str], terms: Tensor, labels: CrossFitting) -> OpinionPool:
    """Fit the pool of the first views, of these names."""
    held_out = _out_of_fold(terms[: len(names)], labels)
    return fit_pool(held_out, labels, model_averaging_weights(held_out, labels, _prior_weights(names, labels.device)))


def _explains_more(wider: OpinionPool, pool: OpinionPool, held_out: Tensor, labels: CrossFitting) -> bool:
    r"""Tell whether a pool with more views explains out-of-fold reports better by `_GAIN` standard errors.

    The gain of a report is the difference of the log-likelihoods of both pools. Its sum over n reports has the standard
    error :math:`\sqrt n` times the standard deviation of one gain.

    Args:
        wider: The pool of all views.
        pool: The pool of the first views.
        held_out: Out-of-fold terms of all views, [terms, reports, classes].
        labels: The reports.
    """
    first = held_out[: len(pool.weights)]
    more, fewer = (
        labels.likelihood.log_likelihood(_combine_held_out(each, terms, labels)).double()
        for each, terms in ((wider, held_out), (pool, first))
    )
    gains = more - fewer
    sums = torch.stack([gains.sum(), gains.square().sum(), gains.new_tensor(float(len(gains)))])
    total, squares, count = labels.reports.communicator.all_reduce_sum(sums).tolist()
    return bool(total > _GAIN * math.sqrt(max(squares - total**2 / count, 0.0)))


def _fit_contaminated(
    stated: _StructuralFit, fit_structure: Callable[[CrossFitting], _StructuralFit]
) -> _StructuralFit:
    """Return a fit with contamination if it makes out-of-fold reports likelier by `evidence_needed`, else `stated`.

    Contamination is estimated again from the predictions that allow for it, until its share settles. Where the targets
    seem to be most people's class, predictions followed the liars: then the first fit has the greatest possible share.
    Public attributes take no part: the result is that of a fit without them.
    """
    labels, contamination, best = stated.labels, _estimate(stated), stated
    if contamination is not None and not contamination.group_shares and _apparent_share(contamination, labels) > 1 / 2:
        contamination = greatest_contamination(contamination, labels)
    for _ in range(_MAX_REFITS):
        if contamination is None:
            break
        fit = fit_structure(replace(labels, contamination=contamination))
        best = max(best, fit, key=lambda each: each.log_likelihood)
        before, contamination = contamination, _estimate(fit)
        if contamination is not None and abs(contamination.share - before.share) < _SETTLED:
            break
    gain = best.log_likelihood - stated.log_likelihood
    return best if gain > evidence_needed(labels.reports.num_classes) else stated


def _estimate(fit: _StructuralFit) -> Contamination | None:
    structural = fit.terms[: len(fit.pool.weights)]
    return estimate_contamination(
        _combine_held_out(fit.pool, _out_of_fold(structural, fit.labels), fit.labels), fit.labels
    )


def _apparent_share(contamination: Contamination, labels: CrossFitting) -> float:
    """Return the share of people who seem to have a target class, if all reports were randomized."""
    targets = torch.tensor(contamination.targets, device=labels.device) > 0
    return float(replace(labels, contamination=None).reports.prior[targets].sum())


def _cross_fitting(method: Veil, perturbed: PerturbedGraph, contamination: Contamination | None = None) -> CrossFitting:
    """Return the folds of the reports that a method uses, on its device."""
    used = _used_reports(method, perturbed)
    folds = CrossFitting.random(used, seed=method.seed, device=resolve_device(method.device))
    return replace(folds, contamination=contamination)


def _used_reports(method: Veil, perturbed: PerturbedGraph) -> PerturbedGraph:
    """Return the reports that a method uses."""
    if method.uses_features or not perturbed.has_features.any():
        return perturbed
    return replace(perturbed, has_features=np.zeros_like(perturbed.has_features))


def _with_relations(graph: Graph, names: Iterable[str]) -> dict[str, Graph]:
    """Return the relations of a graph that views of these names are about; refuse a graph that lacks one."""
    known = relations(graph)
    used = dict.fromkeys(relation for _, _, relation in (name.partition(OF) for name in names) if relation)
    if missing := [name for name in used if name not in known]:
        raise FitError(
            f"the links of the graph do not tell '{missing[0]}', which the model was trained with: give a table with "
            "the same columns about links, or train the model again"
        )
    return {name: known[name] for name in used}


def _most_reports(tasks: Sequence[FitTask[Veil]]) -> PerturbedGraph:
    """Return the reports of a task that uses features if there is one, else those of the first."""
    used = [_used_reports(task.method, task.perturbed) for task in tasks]
    return next((each for each in used if each.has_features.any()), used[0])


def _stacked(terms: list[Tensor]) -> Tensor:
    """Return one tensor of all terms, [terms, ...]; each is freed when it was copied."""
    stacked = terms[0].new_empty(len(terms), *terms[0].shape)
    for number in range(len(terms)):
        stacked[number] = terms.pop(0)
    return stacked


def _bisecting_operators(method: Veil, graph: Graph) -> GraphOperators:
    """Return the graph's operators, and start its nested bisections in a process for each thread of torch."""
    operators = operators_of(graph, resolve_device(method.device))
    operators.decompositions.start_bisections(workers=torch.get_num_threads())
    return operators


def _pooled(
    pool: OpinionPool,
    feature_pool: OpinionPool | None,
    terms: Tensor,
    labels: CrossFitting,
    operators: GraphOperators,
) -> Tensor:
    """Return class log-probabilities [nodes, K + 1, classes] of each training set, from the pooled terms."""
    pooled = pool.combine(terms, labels.reports.degree_columns)
    if feature_pool is None or not any_features(labels.perturbed):
        return pooled
    return feature_pool.combine(
        torch.cat([terms, feature_terms(pooled, labels, operators)]), labels.reports.degree_columns
    )


def _posterior(pooled: Tensor, labels: CrossFitting) -> NDArray[np.float32]:
    """Return class probabilities [nodes, classes] from the pool and each node's own label report."""
    nodes, final = labels.reports.nodes, pooled[:, -1].clone()
    final[nodes] = labels.out_of_fold(pooled) - _prior_without_fold(labels) + labels.report_evidence
    probabilities: NDArray[np.float32] = log_softmax(final).exp().cpu().numpy()
    return probabilities


def _prior_without_fold(labels: CrossFitting) -> Tensor:
    """Return ln of the class prior without a report's fold, relative to that of all reports, [reports, classes]."""
    return (labels.priors / labels.reports.prior).log()[labels.folds[labels.reports.nodes]]


def _calibrate_sets(pooled: Tensor, labels: CrossFitting) -> ConformalSets:
    """Return the coverage of sets, from out-of-fold probabilities and the reports that they did not use."""
    perturbed, nodes, lies = labels.perturbed, labels.reports.nodes, labels.contamination
    named = labels.reports.named[nodes].double()
    if lies is not None:
        shares = lies.shares_at(labels.reports.degrees[nodes]).double().unsqueeze(1)
        named = (named - shares * torch.tensor(lies.named_shares).to(named)) / (1 - shares)
    return calibrate_sets(
        labels.out_of_fold(pooled).double().softmax(dim=1).cpu().numpy(),
        named.cpu().numpy(),
        perturbed.label_mechanism,
        reporting=perturbed.has_label,
        unrandomized=None if lies is None else lies.mean_likelihood,
        communicator=labels.reports.communicator,
        every=partial(_every_report, labels),
    )


def _every_report(labels: CrossFitting, stride: int) -> NDArray[np.int64]:
    """Return the numbers of about every n-th report among those of this process, [selected]."""
    chosen = labels.every_report(-(-labels.reports.num_reports // stride))
    found: NDArray[np.int64] = torch.searchsorted(labels.reports.nodes, chosen).cpu().numpy()
    return found


def _prior_weights(names: Iterable[str], device: torch.device) -> Tensor:
    """Return the prior weights of the views: one half for communities, equal parts of the rest for the other kinds.

    The kind is the first word of a view's name. Views of one kind have equal parts of its weight, so another range or
    another number of eigenvectors takes nothing from other kinds. Relations have a quarter of all weight together,
    equal parts each, divided among their views in the same way.

    >>> _prior_weights(["pagerank 0.1", "pagerank 0.5", "spectral", "communities"], torch.device("cpu"))
    tensor([0.1250, 0.1250, 0.2500, 0.5000])
    """
    kinds = [(name.partition(OF)[2], name.split()[0]) for name in names]
    views, others = Counter(kinds), Counter(relation for relation, kind in set(kinds) if kind != COMMUNITIES)
    related = _RELATIONS_WEIGHT if len(others) > 1 else 0.0
    graphs = dict.fromkeys(others, related / max(len(others) - 1, 1)) | {"": 1 - related}
    shares = [
        graphs[graph] * (_COMMUNITIES_WEIGHT if kind == COMMUNITIES else (1 - _COMMUNITIES_WEIGHT) / others[graph])
        for graph, kind in kinds
    ]
    return torch.tensor([share / views[kind] for share, kind in zip(shares, kinds, strict=True)], device=device)


def _fit_feature_pool(
    pool: OpinionPool, terms: Tensor, labels: CrossFitting, operators: GraphOperators
) -> OpinionPool | None:
    """Return the pool with features if they earn their weights."""
    if not any_features(labels.perturbed):
        return None
    extra = feature_terms(pool.combine(terms, labels.reports.degree_columns), labels, operators)
    return wider_pool(pool, _out_of_fold(terms, labels), _out_of_fold(extra, labels), labels)


def _combine_held_out(pool: OpinionPool, held_out: Tensor, labels: CrossFitting) -> Tensor:
    """Return log-probabilities [reports, classes] from out-of-fold terms [terms, reports, classes]."""
    return pool.combine(held_out, labels.reports.degree_columns[labels.reports.nodes])


def _out_of_fold(terms: Tensor, labels: CrossFitting) -> Tensor:
    """Return the out-of-fold terms, [terms, reports, classes]."""
    return torch.stack([labels.out_of_fold(term) for term in terms])


def _plan_batches(tasks: Sequence[FitTask[VeilT]], memory: int) -> Iterator[list[list[FitTask[VeilT]]]]:
    """Yield batches of tasks on one graph, each a list of groups with the same label reports and seed.

    A batch has at most as many groups as there are threads, and as fit the memory.
    """
    for groups in _groups(tasks):
        size = _max_batch_size(groups[0], memory)
        yield from (groups[start : start + size] for start in range(0, len(groups), size))


def _groups(tasks: Sequence[FitTask[VeilT]]) -> Iterator[list[list[FitTask[VeilT]]]]:
    """Group tasks by graph, device and number of classes, then by label reports and seed."""
    by_graph: dict[Hashable, dict[Hashable, list[FitTask[VeilT]]]] = {}
    for task in tasks:
        reports = task.perturbed
        graph = reports.graph, resolve_device(task.method.device), reports.schema.num_classes
        shared = reports.labels.tobytes(), reports.has_label.tobytes(), reports.label_mechanism, task.method.seed
        by_graph.setdefault(graph, {}).setdefault((*shared, reports.public), []).append(task)
    return (list(groups.values()) for groups in by_graph.values())


def _max_batch_size(tasks: Sequence[FitTask[Veil]], memory: int) -> int:
    """Return how many groups of tasks are fitted at once; one is enough for a GPU."""
    threads = torch.get_num_threads() if resolve_device(tasks[0].method.device).type == "cpu" else 1
    return max(1, min(threads, memory // bytes_needed(_most_reports(tasks))))
