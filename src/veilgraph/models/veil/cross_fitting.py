"""K-fold cross-fitting of label reports: a report scores only estimates that were made without it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.distributed.communicator import Communicator
from veilgraph.graph import PerturbedGraph
from veilgraph.graph.counters import counter_words
from veilgraph.models.veil.contamination import Contamination
from veilgraph.models.veil.degree_columns import columns_of_ranks, degree_columns, degree_ranks
from veilgraph.models.veil.fit_plan import FitPlan
from veilgraph.privacy.frequency import estimate_frequencies
from veilgraph.reconstruct.labels import project_to_simplex
from veilgraph.reconstruct.operators import GraphOperators, operators_of

_FOLDS, _FOLDS_OF_LARGE_GRAPHS = 5, 3
_LARGE = 2**22
_PSEUDO_REPORTS = 100.0
_FOLD_STREAM, _SUBSAMPLE_STREAM = 8000, 8001


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
        """Draw random folds of equal size: five, or three on a large graph.

        On shards the fold follows from the number of the node, whichever process holds it. Sizes are binomial then.
        """
        folds, numbers = cls.max_folds(perturbed), _numbers(operators_of(perturbed.graph, torch.device(device)))
        drawn = (
            _draw_folds(perturbed.has_label, folds, seed)
            if numbers is None
            else np.where(
                perturbed.has_label, (_words(numbers, seed, _FOLD_STREAM) % np.uint64(folds)).view(np.int64), -1
            )
        )
        return cls(perturbed=perturbed, folds=torch.from_numpy(drawn).to(device))

    @staticmethod
    def max_folds(perturbed: PerturbedGraph) -> int:
        """Return the number of folds of a graph on which at least as many nodes report a label."""
        edges = operators_of(perturbed.graph, torch.device("cpu")).num_edges
        entries = 2 * edges * perturbed.schema.num_classes * (_FOLDS + 1)
        return _FOLDS if entries <= _LARGE else _FOLDS_OF_LARGE_GRAPHS

    @staticmethod
    def any_features(perturbed: PerturbedGraph) -> bool:
        """Return whether anyone reported features, in this process or in another one."""
        communicator = operators_of(perturbed.graph, torch.device("cpu")).communicator
        return bool(communicator.all_reduce_max(int(perturbed.has_features.any())))

    @property
    def device(self) -> torch.device:
        """Device of all tensors."""
        return self.folds.device

    @property
    def operators(self) -> GraphOperators:
        """Matrices of the graph, or of the part of it that this process holds."""
        return operators_of(self.perturbed.graph, self.device)

    @property
    def communicator(self) -> Communicator:
        """Collective operations over the processes that share the graph."""
        return self.operators.communicator

    @cached_property
    def num_folds(self) -> int:
        """Number of folds, K."""
        return self.communicator.all_reduce_max(int(self.folds.max())) + 1

    @cached_property
    def num_reports(self) -> int:
        """Number of label reports of all processes."""
        return int(self.communicator.all_reduce_sum(torch.tensor(len(self.reporting_nodes), device=self.device)))

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return self.perturbed.schema.num_classes

    @cached_property
    def reporting_nodes(self) -> Tensor:
        """Indices of the nodes that reported a label, [reports]."""
        return (self.folds >= 0).nonzero().squeeze(1)

    @property
    def set_size(self) -> int:
        """Number of classes that a report names, w."""
        return self.perturbed.label_mechanism.set_size

    @cached_property
    def named(self) -> Tensor:
        """Whether a node's report names a class, [nodes, classes]; no class without a report."""
        return torch.from_numpy(self.perturbed.named_classes()).to(self.device)

    @cached_property
    def reported_classes(self) -> Tensor:
        """Classes y' that each report names, as codes in ascending order, [reports, w]."""
        return self.named[self.reporting_nodes].nonzero()[:, 1].view(-1, self.set_size)

    @cached_property
    def kept(self) -> Tensor:
        """Whether a training set holds a node's report, [nodes, K + 1]."""
        kept = self.folds.unsqueeze(1) != torch.arange(self.num_folds + 1, device=self.device)
        return kept & (self.folds >= 0).unsqueeze(1)

    @property
    def training_sets(self) -> Tensor:
        """1 for each class that a report names [nodes, K + 1, classes]; 0 where a training set leaves it out."""
        return self.reports_of(slice(None))

    def reports_of(self, sets: slice) -> Tensor:
        """Return `training_sets` of some training sets, [nodes, sets, classes]."""
        return (self.named.unsqueeze(1) & self.kept[:, sets].unsqueeze(2)).to(torch.float32)

    def weighted_reports_of(self, sets: slice) -> Tensor:
        """Return `reports_of`, each report weighted by the probability that it was randomized."""
        reports = self.reports_of(sets)
        return reports.mul_(self.honesty.view(-1, 1, 1)) if isinstance(self.honesty, Tensor) else reports

    @property
    def keep(self) -> float:
        """Probability p that a report names the true class."""
        return float(self.perturbed.label_mechanism.channel.keep)

    @property
    def other(self) -> float:
        """Probability q that a report names a given other class."""
        return float(self.perturbed.label_mechanism.channel.other)

    @property
    def contrast(self) -> float:
        """Likelihood of a report for a class that it names less that for another, up to a factor. With GRR: p - q."""
        likelihood = self.perturbed.label_mechanism.likelihood
        return float(likelihood.keep) - float(likelihood.other)

    @cached_property
    def outside(self) -> float | Tensor:
        """Likelihood of a report for a class that it does not name, up to the same factor. With GRR it is q.

        With contamination it differs between reports, [nodes]: a report that was not randomized names any class.
        """
        stated = float(self.perturbed.label_mechanism.likelihood.other)
        return (
            stated if self.contamination is None else stated + self.contamination.likelihood(self.named, self.degrees)
        )

    @property
    def degrees(self) -> Tensor:
        """Degree of each node, [nodes]."""
        return torch.from_numpy(self.perturbed.graph.degrees).to(self.device)

    @cached_property
    def degree_columns(self) -> Tensor:
        """Columns of the bias of each node, [nodes, 3]."""
        graph = self.perturbed.graph
        if _numbers(self.operators) is None:
            return degree_columns(graph).to(self.device)
        values, counts = self.operators.degree_counts
        table = columns_of_ranks(degree_ranks(counts), torch.from_numpy(counts))
        return table[torch.from_numpy(np.searchsorted(values, graph.degrees))].to(self.device)

    @property
    def log_scale(self) -> float:
        """Logarithm of the factor by which `log_likelihood` is too large with contamination: the sum of ln(1 - a)."""
        if self.contamination is None:
            return 0.0
        logs = (1 - self.contamination.shares_at(self.degrees[self.reporting_nodes])).log()
        return float(self.communicator.all_reduce_sum(logs.sum()))

    @property
    def outside_of_reports(self) -> float | Tensor:
        """`outside` of the reporting nodes, [reports] with contamination."""
        return self.outside[self.reporting_nodes] if isinstance(self.outside, Tensor) else self.outside

    @cached_property
    def honesty(self) -> float | Tensor:
        r"""Probability that a report was randomized, 1 without contamination, otherwise [nodes].

        .. math:: h = \frac{(1 - a) P_0(y')}{(1 - a) P_0(y') + a\, r(y')}, \qquad P_0(y') = \sum_x \pi_x P_0(y' | x)
        """
        if not isinstance(self.outside, Tensor):
            return 1.0
        named = self.contrast * (self.named.to(self.prior) @ self.prior)
        return (float(self.perturbed.label_mechanism.likelihood.other) + named) / (self.outside + named)

    @cached_property
    def report_shares(self) -> Tensor:
        """Share of the randomized reports that name each class [classes]; the shares sum to w."""
        counts = torch.bincount(self.reported_classes.flatten(), minlength=self.num_classes)
        shares = self.communicator.all_reduce_sum(counts) / self.num_reports
        return shares if self.contamination is None else self.contamination.honest_shares(shares)

    @cached_property
    def prior(self) -> Tensor:
        r"""Class prior [classes]: the debiased shares, shrunk towards equal shares.

        .. math:: \pi \propto n_e \tilde\pi + 100 / c, \qquad n_e = |L| (p - q)^2 / (q (1 - q))

        n_e is the effective sample size: the number of true labels that would estimate the shares equally well.
        """
        channel = self.perturbed.label_mechanism.channel
        mean = self.set_size / self.num_classes
        deviation = self.report_shares - mean
        chance = float((self.report_shares * (1 - self.report_shares)).sum()) / self.num_reports
        kept = max(0.0, 1 - chance / max(float(deviation.square().sum()), 1e-12))
        estimate = project_to_simplex(estimate_frequencies(mean + kept * deviation, channel))
        noise = max(self.other * (1 - self.other), 0.01)
        size = self.num_reports * float(channel.gain) ** 2 / noise
        return (size * estimate + _PSEUDO_REPORTS / self.num_classes) / (size + _PSEUDO_REPORTS)

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
        if not isinstance(self.outside, Tensor):
            return reports.mul_(_log_ratio(float(self.perturbed.label_mechanism.likelihood.keep), self.outside))
        return reports.mul_(torch.log1p(self.contrast / self.outside.clamp(min=1e-13)).view(-1, 1, 1))

    @property
    def report_evidence(self) -> Tensor:
        """Log-likelihood of each report, [reports, classes]."""
        return self.evidence_of(slice(self.num_folds, None))[self.reporting_nodes, 0]

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
        """Return every n-th report, so that at most `max_reports` are left.

        Use the result to score estimates, not to make them: its training sets hold the selected reports alone. On
        shards a report is selected by the number of its node, so that about as many are left.
        """
        if self.num_reports <= max_reports:
            return self
        selected = self.every_report(max_reports)
        folds = torch.full_like(self.folds, -1)
        folds[selected] = self.folds[selected]
        return replace(self, folds=folds)

    def every_report(self, max_reports: int) -> Tensor:
        """Return nodes of every n-th report, [selected], so that at most `max_reports` are left; see `subsample`."""
        numbers, nodes = _numbers(self.operators), self.reporting_nodes
        if numbers is None:
            return nodes[:: -(-len(nodes) // max_reports)]
        drawn = _words(numbers[nodes.cpu().numpy()], 0, _SUBSAMPLE_STREAM) / 2.0**64
        return nodes[torch.from_numpy(drawn < max_reports / self.num_reports).to(nodes.device)]

    def out_of_fold(self, estimates: Tensor) -> Tensor:
        """Select, from estimates [nodes, K + 1, ...], those of reporting nodes without their own report.

        Estimates [nodes, 1, ...] are those already.

        Returns:
            A tensor [reports, ...].
        """
        if estimates.shape[1] == 1:
            return estimates[self.reporting_nodes, 0]
        return estimates[self.reporting_nodes, self.folds[self.reporting_nodes]]

    def log_likelihood(self, log_probabilities: Tensor) -> Tensor:
        r"""Return the log-likelihood of each report for class log-probabilities [..., reports, classes].

        .. math:: \ln \sum_x p_x P(y' | x) = \ln \left( b + (a - b) \sum_{x \in y'} p_x \right)

        with a the likelihood of classes that the report names, and b that of the others.
        """
        index = self.reported_classes.expand(*log_probabilities.shape[:-1], -1)
        named = log_probabilities.gather(-1, index).exp().sum(-1)
        return torch.log(self.outside_of_reports + self.contrast * named)


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


def _numbers(operators: GraphOperators) -> NDArray[np.int64] | None:
    """Return the numbers of the nodes if draws come from counters of nodes, otherwise None."""
    numbers = operators.communicator.counted_nodes
    return None if numbers is None else numbers.cpu().numpy()


def _words(numbers: NDArray[np.int64], seed: int, stream: int) -> NDArray[np.uint64]:
    return counter_words(numbers, seed=seed, stream=stream)


def _draw_folds(has_label: NDArray[np.bool_], count: int, seed: int) -> NDArray[np.int64]:
    nodes = np.random.default_rng(seed).permutation(np.flatnonzero(has_label))
    folds = np.full(len(has_label), -1, dtype=np.int64)
    folds[nodes] = np.arange(len(nodes)) % count
    return folds
