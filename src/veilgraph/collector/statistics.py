r"""Statistics of all reports for the dashboard: estimated shares, what is implausible, and coverage of the graph.

Differential privacy is closed under post-processing, so estimates reveal nothing that the reports do not. An interval
is :math:`\tilde\pi \pm 1.96\,\hat\sigma`, with the unbiased variance estimate of `veilgraph.privacy.frequency`: it
covers both the sampling of people from a population and the randomness of the mechanism. `Estimate` keeps it within 0
to 1. Where label reports name sets of classes, the observed share of a class is the share of the reports that name it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from veilgraph.campaign import Campaign
from veilgraph.campaign.assemble import ReportCodes, perturbed_graph_of_codes, read_codes
from veilgraph.campaign.notice import shown_answers
from veilgraph.campaign.plausibility import CheckedShare, PlausibleShares
from veilgraph.collector.store import ReportStore
from veilgraph.graph import Graph
from veilgraph.privacy.estimate import Estimate
from veilgraph.privacy.frequency import count_named, estimate_frequencies, estimated_variance
from veilgraph.privacy.mechanisms import SymmetricChannel
from veilgraph.privacy.mechanisms.feature_sampling import NOT_ASKED

if TYPE_CHECKING:
    from veilgraph.campaign.screening import Suspicion

# One report has no variance estimate.
_MIN_REPORTS = 2
_MAX_DUTY = 0.05  # largest share of the time that may go into computing statistics
# Lowest and highest degree of each group of nodes.
_DEGREE_RANGES = ((0, 0), (1, 1), (2, 3), (4, 7), (8, 15), (16, None))


@dataclass(frozen=True, kw_only=True)
class Share:
    """Estimated share of the people who hold a value.

    Attributes:
        name: name of the value.
        unbiased: unbiased estimate; with few reports it can lie outside 0..1.
        error: standard error of the estimate.
        reports: number of reports that it comes from.
    """

    name: str
    unbiased: float
    error: float
    reports: int

    @property
    def estimate(self) -> Estimate:
        """The share with its interval, as it is shown."""
        return Estimate.normal(self.unbiased, self.error, reports=self.reports)


@dataclass(frozen=True, kw_only=True)
class Marginal:
    """Estimated distribution of one feature or of the label.

    Attributes:
        name: name of the feature or label.
        shares: share of each value.
    """

    name: str
    shares: tuple[Share, ...]

    @property
    def is_binary(self) -> bool:
        """Whether there are two values, so that one share determines the other."""
        return len(self.shares) == 2


@dataclass(frozen=True, kw_only=True)
class DegreeCoverage:
    """Coverage of the nodes within a range of degrees.

    Attributes:
        name: range of degrees, in words.
        nodes: number of nodes.
        reports: number of these nodes that reported.
    """

    name: str
    nodes: int
    reports: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Statistics:
    """Statistics of all reports of a campaign.

    Attributes:
        computed_at: Unix time.
        reports: number of nodes that reported.
        labels: number of nodes that reported a label.
        answers: number of features that were reported; a report by joint GRR has some of them only.
        covered_nodes: number of nodes that reported or have a neighbour who did.
        coverage: coverage by degree.
        label: estimated distribution of the label; None with too few reports.
        features: estimated distribution of each feature with enough answers.
        suspicions: findings of the screening for implausible reports.
        checked_shares: comparison of the label's shares with those that the owner declared plausible.
    """

    computed_at: float
    reports: int
    labels: int
    answers: int
    covered_nodes: int
    coverage: Sequence[DegreeCoverage]
    label: Marginal | None
    features: Sequence[Marginal]
    suspicions: Sequence[Suspicion]
    checked_shares: Sequence[CheckedShare]

    @property
    def alarms(self) -> list[CheckedShare]:
        """The label's shares that are not plausible."""
        return [share for share in self.checked_shares if share.verdict != "plausible"]


def compute_statistics(
    campaign: Campaign, graph: Graph, codes: ReportCodes, *, plausible: PlausibleShares | None = None
) -> Statistics:
    """Compute the statistics of all reports.

    Args:
        campaign: campaign of the reports.
        graph: its public graph.
        codes: codes of the reports.
        plausible: class shares that the owner declared plausible.
    """
    from veilgraph.campaign.screening import screen  # loads scipy, which is slow, and a collector starts without it

    reported = codes.has_report
    covered = reported.copy()
    for sources, targets in (graph.edges, graph.edges[::-1]):
        covered[targets[reported[sources]]] = True
    return Statistics(
        computed_at=time.time(),
        reports=int(reported.sum()),
        labels=int(codes.has_label.sum()),
        answers=_count_answers(campaign, codes),
        covered_nodes=int(covered.sum()),
        coverage=_coverage(graph, reported),
        label=label_marginal(campaign, codes),
        features=feature_marginals(campaign, codes),
        suspicions=screen(perturbed_graph_of_codes(campaign, graph, codes)).suspicions
        if campaign.label_mechanism
        else [],
        checked_shares=plausible.check(codes.labels[codes.has_label], codes.label_mechanism)
        if plausible and codes.label_mechanism
        else [],
    )


def label_marginal(campaign: Campaign, codes: ReportCodes) -> Marginal | None:
    """Estimate the label's distribution; return None with too few reports for an interval."""
    mechanism, reported = codes.label_mechanism, codes.labels[codes.has_label]
    if mechanism is None or len(reported) < _MIN_REPORTS:
        return None
    counts = count_named(reported, mechanism)
    values = shown_answers(campaign.schema.texts, campaign.label_name, campaign.schema.classes)
    return _marginal(campaign.label_name, values, counts, len(reported), mechanism.channel)


def feature_marginals(campaign: Campaign, codes: ReportCodes) -> list[Marginal]:
    """Estimate each feature's distribution; leave out features with too few answers for an interval."""
    mechanism, schema = codes.feature_mechanism, campaign.schema
    reported = codes.features[codes.has_features]
    if mechanism is None:
        return []
    marginals = []
    for i, (name, declared) in enumerate(zip(schema.feature_names, schema.code_names, strict=True)):
        values = shown_answers(schema.texts, name, declared)
        # Joint GRR and a series ask each person about some features only.
        answers = reported[:, i][reported[:, i] != NOT_ASKED]
        if len(answers) >= _MIN_REPORTS:
            counts = np.bincount(answers, minlength=len(values))
            marginals.append(_marginal(name, values, counts, len(answers), mechanism.channel(i)))
    return marginals


def _marginal(
    name: str, values: Iterable[str], counts: NDArray[np.int64], reports: int, channel: SymmetricChannel
) -> Marginal:
    observed = counts / reports
    estimates = estimate_frequencies(observed, channel).tolist()
    errors = np.sqrt(estimated_variance(observed, channel, float(reports))).tolist()
    found = zip(values, estimates, errors, strict=True)
    shares = (Share(name=value, unbiased=share, error=error, reports=reports) for value, share, error in found)
    return Marginal(name=name, shares=tuple(shares))


def _count_answers(campaign: Campaign, codes: ReportCodes) -> int:
    """Count the features in all reports; joint GRR and a series report those that a device picked."""
    mechanism = campaign.feature_mechanism
    if mechanism is None:
        return 0
    return int(codes.has_features.sum()) * mechanism.num_answered


def _coverage(graph: Graph, reported: NDArray[np.bool_]) -> list[DegreeCoverage]:
    coverage = []
    for low, high in _DEGREE_RANGES:
        inside = graph.degrees >= low
        if high is not None:
            inside &= graph.degrees <= high
        if inside.any():
            name = f"{low}" if low == high else f"{low} or more" if high is None else f"{low} to {high}"
            reports = int((inside & reported).sum())
            coverage.append(DegreeCoverage(name=name, nodes=int(inside.sum()), reports=reports))
    return coverage


class StatisticsCache:
    """Latest statistics of a store. They are computed again after new reports, within a limited share of the time.

    Args:
        campaign: campaign whose reports are collected.
        graph: its public graph.
        store: store of the reports.
        plausible: class shares that the owner declared plausible.
        clock: monotonic time in seconds.
    """

    def __init__(
        self,
        campaign: Campaign,
        graph: Graph,
        store: ReportStore,
        *,
        plausible: PlausibleShares | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._campaign, self._graph, self._store = campaign, graph, store
        self._plausible, self._clock = plausible, clock
        self._lock = threading.Lock()
        self._latest: Statistics | None = None
        self._next_at = 0.0

    def get(self) -> Statistics:
        """Return the latest statistics; block while they are computed."""
        with self._lock:
            if self._latest is None or (self._has_new_reports(self._latest) and self._clock() >= self._next_at):
                started = self._clock()
                codes = read_codes(
                    self._campaign, self._graph, self._store.reports.iterate(self._campaign), rounds="latest"
                )
                self._latest = compute_statistics(self._campaign, self._graph, codes, plausible=self._plausible)
                ended = self._clock()
                self._next_at = ended + (ended - started) / _MAX_DUTY
            return self._latest

    def _has_new_reports(self, statistics: Statistics) -> bool:
        stored = self._store.reports.count(self._campaign.series, wave=self._campaign.asked.stored_number)
        return statistics.reports != stored
