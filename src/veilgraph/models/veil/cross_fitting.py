"""K-fold cross-fitting of label reports: a report scores only estimates that were made without it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from veilgraph.graph import PerturbedGraph
from veilgraph.graph.counters import counter_words
from veilgraph.models.veil.contamination import Contamination
from veilgraph.models.veil.fit_plan import FitPlan
from veilgraph.models.veil.label_reports import LabelReports
from veilgraph.models.veil.report_likelihood import ReportLikelihood
from veilgraph.reconstruct.operators import operators_of

_FOLDS, _FOLDS_OF_LARGE_GRAPHS = 5, 3
_LARGE = 2**22
_FOLD_STREAM, _SUBSAMPLE_STREAM = 8000, 8001


def max_folds(perturbed: PerturbedGraph) -> int:
    """Return the number of folds of a graph on which at least as many nodes report a label."""
    edges = operators_of(perturbed.graph, torch.device("cpu")).num_edges
    entries = 2 * edges * perturbed.schema.num_classes * (_FOLDS + 1)
    return _FOLDS if entries <= _LARGE else _FOLDS_OF_LARGE_GRAPHS


def any_features(perturbed: PerturbedGraph) -> bool:
    """Return whether anyone reported features, in this process or in another one."""
    communicator = operators_of(perturbed.graph, torch.device("cpu")).communicator
    return bool(communicator.all_reduce_max(int(perturbed.has_features.any())))


@dataclass(frozen=True, kw_only=True, eq=False)
class CrossFitting:
    """Label reports of a graph in K folds, with K + 1 training sets.

    Training set k < K holds all reports except those of fold k. The last training set holds all reports. An estimate
    from training set k for the nodes of fold k is out of fold: it did not use their own reports.

    Attributes:
        perturbed: The graph and its reports.
        folds: Fold of each node's label report [nodes], -1 for a node without one.
        contamination: Reports that were not randomized; None if all were.
        plan: What a fit has in memory at once.
    """

    perturbed: PerturbedGraph
    folds: Tensor
    contamination: Contamination | None = None
    plan: FitPlan = field(default_factory=FitPlan)

    @classmethod
    def random(cls, perturbed: PerturbedGraph, *, seed: int, device: torch.device | str = "cpu") -> CrossFitting:
        """Draw random folds: five, or three on a large graph, of about equal size.

        The fold of a node follows from its key, or its number on shards: whatever else is in the graph, and whichever
        process holds the node. So sizes are binomial, and folds of few reports that nobody is in are left out.
        """
        operators = operators_of(perturbed.graph, torch.device(device))
        words = counter_words(operators.counters, seed=seed, stream=_FOLD_STREAM) % np.uint64(max_folds(perturbed))
        drawn = torch.from_numpy(np.where(perturbed.has_label, words.view(np.int64), -1)).to(device)
        if operators.communicator.is_local:
            drawn = torch.searchsorted(drawn[drawn >= 0].bincount().nonzero().squeeze(1), drawn).where(drawn >= 0, -1)
        return cls(perturbed=perturbed, folds=drawn)

    @property
    def device(self) -> torch.device:
        """Device of all tensors."""
        return self.folds.device

    @cached_property
    def reports(self) -> LabelReports:
        """The reports of all folds."""
        nodes = (self.folds >= 0).nonzero().squeeze(1)
        return LabelReports(perturbed=self.perturbed, nodes=nodes, contamination=self.contamination)

    @cached_property
    def likelihood(self) -> ReportLikelihood:
        """Likelihood of the reports given classes."""
        return ReportLikelihood(self.reports)

    @cached_property
    def num_folds(self) -> int:
        """Number of folds, K."""
        return self.reports.communicator.all_reduce_max(int(self.folds.max())) + 1

    @cached_property
    def kept(self) -> Tensor:
        """Whether a training set holds a node's report, [nodes, K + 1]."""
        kept = self.folds.unsqueeze(1) != torch.arange(self.num_folds + 1, device=self.device)
        return kept & (self.folds >= 0).unsqueeze(1)

    def reports_of(self, sets: slice) -> Tensor:
        """Return 1 for each class that a report of a training set names, [nodes, sets, classes]; 0 elsewhere."""
        return (self.reports.named.unsqueeze(1) & self.kept[:, sets].unsqueeze(2)).to(torch.float32)

    def weighted_reports_of(self, sets: slice) -> Tensor:
        """Return `reports_of`, each report weighted by the probability that it was randomized."""
        reports = self.reports_of(sets)
        return (
            reports.mul_(self.likelihood.honesty.view(-1, 1, 1))
            if isinstance(self.likelihood.honesty, Tensor)
            else reports
        )

    @cached_property
    def local_evidence(self) -> Tensor:
        """Log-likelihood ln P(y' | class) of each node's own report [nodes, K + 1, classes], 0 where it is left out.

        It is epsilon for the classes that the report names and 0 for the others, up to a constant. With contamination
        it is less where the report may not have been randomized.
        """
        return self.evidence_of(slice(None))

    def evidence_of(self, sets: slice) -> Tensor:
        """Return `local_evidence` of some training sets, [nodes, sets, classes]."""
        reports = self.reports_of(sets)
        if not isinstance(self.likelihood.outside, Tensor):
            return reports.mul_(
                _log_ratio(float(self.perturbed.label_mechanism.likelihood.keep), self.likelihood.outside)
            )
        return reports.mul_(
            torch.log1p(self.likelihood.contrast / self.likelihood.outside.clamp(min=1e-13)).view(-1, 1, 1)
        )

    @property
    def report_evidence(self) -> Tensor:
        """Log-likelihood of each report, [reports, classes]."""
        return self.evidence_of(slice(self.num_folds, None))[self.reports.nodes, 0]

    @cached_property
    def priors(self) -> Tensor:
        """Class prior of each training set, [K + 1, classes].

        One prior for all would have seen the reports that a training set leaves out. With many classes and weak
        reports, its noise would be taken for evidence: over-reported classes are named by more of them.
        """
        folds = [self.folds.masked_fill(self.folds == fold, -1) for fold in range(self.num_folds)]
        return torch.stack([*(replace(self, folds=each).reports.prior for each in folds), self.reports.prior])

    @cached_property
    def own_sets(self) -> Tensor:
        """Training set without each node's own report [nodes]: the last one for a node without a report."""
        return self.folds.masked_fill(self.folds < 0, self.num_folds)

    def set_groups(self, max_sets: int | None = None) -> list[SetGroup]:
        """Return the training sets in groups of at most `max_sets`; default: as many as the plan allows."""
        return [SetGroup.of(sets, self) for sets in self.set_slices(max_sets)]

    def set_slices(self, max_sets: int | None = None) -> list[slice]:
        """Return the numbers of the training sets of each of the `set_groups`."""
        sets = self.num_folds + 1
        size = min(sets, max_sets or self.plan.sets_at_once or sets)
        return [slice(start, min(start + size, sets)) for start in range(0, sets, size)]

    def by_sets(self, estimate: Callable[[slice], Sequence[Tensor]]) -> list[Tensor]:
        """Compute estimates of every training set, a group of them at a time; return what the plan keeps of them.

        Args:
            estimate: Function from some training sets to one or more estimates, [nodes, sets, ...].

        Returns:
            Each estimate [nodes, K + 1, ...], or [nodes, 1, ...] from the node's own training set.
        """
        groups = self.set_groups()
        parts = [[group.kept(each) for each in estimate(group.sets)] for group in groups]
        return [self.join(groups, each) for each in zip(*parts, strict=True)]

    def join(self, groups: Sequence[SetGroup], parts: Sequence[Tensor]) -> Tensor:
        """Return estimates [nodes, K + 1 or 1, ...] from what `SetGroup.kept` returned for each group."""
        if not self.plan.own_only:
            return parts[0] if len(parts) == 1 else torch.cat(list(parts), dim=1)
        joined = parts[0].new_empty(len(self.folds), 1, *parts[0].shape[2:])
        for group, part in zip(groups, parts, strict=True):
            joined[group.nodes] = part
        return joined

    def subsample(self, max_reports: int) -> CrossFitting:
        """Return a random part of the reports, about `max_reports`; all if there are no more.

        Use the result to score estimates, not to make them: its training sets hold the selected reports alone. A report
        is selected by a hash of its node, so that about as many are left.
        """
        if self.reports.num_reports <= max_reports:
            return self
        selected = self.every_report(max_reports)
        folds = torch.full_like(self.folds, -1)
        folds[selected] = self.folds[selected]
        return replace(self, folds=folds)

    def every_report(self, max_reports: int) -> Tensor:
        """Return nodes of about `max_reports` reports, [selected]; see `subsample`."""
        nodes = self.reports.nodes
        drawn = (
            counter_words(self.reports.operators.counters[nodes.cpu().numpy()], seed=0, stream=_SUBSAMPLE_STREAM)
            / 2.0**64
        )
        return nodes[torch.from_numpy(drawn < max_reports / self.reports.num_reports).to(nodes.device)]

    def out_of_fold(self, estimates: Tensor) -> Tensor:
        """Select, from estimates [nodes, K + 1, ...], those of reporting nodes without their own report.

        Estimates [nodes, 1, ...] are those already.

        Returns:
            A tensor [reports, ...].
        """
        if estimates.shape[1] == 1:
            return estimates[self.reports.nodes, 0]
        return estimates[self.reports.nodes, self.folds[self.reports.nodes]]


@dataclass(frozen=True, eq=False)
class SetGroup:
    """Training sets that are computed at once.

    Attributes:
        sets: Numbers of the training sets.
        nodes: Nodes whose own training set is one of them [selected]; None if estimates of all sets are kept.
        places: Place of that training set in the group, [selected].
    """

    sets: slice
    nodes: Tensor | None
    places: Tensor | None

    @classmethod
    def of(cls, sets: slice, labels: CrossFitting) -> SetGroup:
        """Return the group of some training sets."""
        if not labels.plan.own_only:
            return cls(sets, None, None)
        nodes = ((labels.own_sets >= sets.start) & (labels.own_sets < sets.stop)).nonzero().squeeze(1)
        return cls(sets, nodes, labels.own_sets[nodes] - sets.start)

    def kept(self, estimates: Tensor) -> Tensor:
        """Return estimates [nodes, sets, ...] of all sets, or [selected, 1, ...] of the nodes' own training sets."""
        if self.nodes is None:
            return estimates
        return estimates[self.nodes, self.places].unsqueeze(1)


def _log_ratio(keep: float, other: float) -> float:
    """Return ln(keep / other), at most 30: reports that are not randomized have other = 0."""
    return min(math.log(keep) - math.log(max(other, 1e-30)), 30.0)
