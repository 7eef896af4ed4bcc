r"""Estimates the share of each value among all people, with intervals, from randomized reports alone.

Privacy is closed under post-processing, so estimates reveal nothing that the reports do not. An interval is
:math:`\tilde\pi \pm 1.96\,\hat\sigma`, with the unbiased estimate of the variance of
`veilgraph.privacy.frequency`: people drawn from a population, and the mechanism's own randomness, exactly.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.campaign import Campaign
from veilgraph.campaign.assemble import Codes, read_codes, with_codes
from veilgraph.campaign.screening import Suspicion, screen
from veilgraph.collector.store import ReportStore
from veilgraph.graph import Graph
from veilgraph.privacy.frequency import estimate_frequencies, estimated_variance
from veilgraph.privacy.mechanisms import SymmetricChannel

Z_95 = 1.959964
_FEWEST = 2


@dataclass(frozen=True, kw_only=True)
class Share:
    """The estimated share of people who hold a value.

    Attributes:
        name: of the value.
        estimate: unbiased; it can lie outside 0..1 where there are few reports.
        error: its standard error.
    """

    name: str
    estimate: float
    error: float

    @property
    def low(self) -> float:
        """Lower end of the 95 % interval, within 0..1."""
        return min(1.0, max(0.0, self.estimate - Z_95 * self.error))

    @property
    def high(self) -> float:
        """Upper end of the 95 % interval, within 0..1."""
        return min(1.0, max(0.0, self.estimate + Z_95 * self.error))


@dataclass(frozen=True, kw_only=True)
class Marginal:
    """The distribution of one feature or of the label.

    Attributes:
        name: of the feature.
        shares: one for each value.
    """

    name: str
    shares: tuple[Share, ...]

    @property
    def is_binary(self) -> bool:
        """Whether one share says all."""
        return len(self.shares) == 2


def label_marginal(campaign: Campaign, codes: Codes) -> Marginal | None:
    """The label's estimated distribution; None where there are too few reports to know how far to trust it."""
    reported = codes.labels[codes.has_label]
    if campaign.label_mechanism is None or len(reported) < _FEWEST:
        return None
    return _marginal(campaign.label, campaign.schema.classes, reported, campaign.label_mechanism.channel)


def feature_marginals(campaign: Campaign, codes: Codes) -> list[Marginal]:
    """Every feature's estimated distribution; none where there are too few reports."""
    mechanism, schema = campaign.feature_mechanism, campaign.schema
    reported = codes.features[codes.has_features]
    if mechanism is None or len(reported) < _FEWEST:
        return []
    return [
        _marginal(name, names, reported[:, i], mechanism.channel(i))
        for i, (name, names) in enumerate(zip(schema.feature_names, schema.code_names, strict=True))
    ]


def _marginal(name: str, names: Iterable[str], codes: NDArray[Any], channel: SymmetricChannel) -> Marginal:
    total = float(len(codes))
    observed = np.bincount(codes, minlength=channel.domain_size) / total
    estimates = estimate_frequencies(observed, channel).tolist()
    errors = np.sqrt(estimated_variance(observed, channel, total)).tolist()
    shares = (Share(name=n, estimate=e, error=s) for n, e, s in zip(names, estimates, errors, strict=True))
    return Marginal(name=name, shares=tuple(shares))


# Share of the time that may go into looking at every report.
_DUTY = 0.05
_DEGREES = ((0, 0), (1, 1), (2, 3), (4, 7), (8, 15), (16, 10**9))


@dataclass(frozen=True, kw_only=True)
class Cover:
    """How well a part of the graph is covered.

    Attributes:
        name: of the part.
        nodes: in it.
        reports: of these nodes.
    """

    name: str
    nodes: int
    reports: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Snapshot:
    """What all reports say together.

    Attributes:
        made: Unix time.
        reports: how many there were.
        in_reach: nodes that have a report themselves or among their neighbours.
        cover: by degree.
        label: its estimated distribution, where there are enough reports.
        features: their estimated distributions.
        suspicions: what is implausible under the mechanism.
    """

    made: float
    reports: int
    in_reach: int
    cover: Sequence[Cover]
    label: Marginal | None
    features: Sequence[Marginal]
    suspicions: Sequence[Suspicion]


def take_snapshot(campaign: Campaign, graph: Graph, codes: Codes) -> Snapshot:
    """Look at every report."""
    mask = codes.has_report
    reached = mask.copy()
    for sources, targets in (graph.edges, graph.edges[::-1]):
        reached[targets[mask[sources]]] = True
    return Snapshot(
        made=time.time(),
        reports=int(mask.sum()),
        in_reach=int(reached.sum()),
        cover=_cover(graph, mask),
        label=label_marginal(campaign, codes),
        features=feature_marginals(campaign, codes),
        suspicions=screen(with_codes(campaign, graph, codes)).suspicions if campaign.label_mechanism else [],
    )


def _cover(graph: Graph, mask: NDArray[np.bool_]) -> list[Cover]:
    degrees = graph.degrees
    parts = []
    for low, high in _DEGREES:
        inside = (degrees >= low) & (degrees <= high)
        if inside.any():
            name = f"{low}" if low == high else f"{low} or more" if high == _DEGREES[-1][1] else f"{low} to {high}"
            parts.append(Cover(name=name, nodes=int(inside.sum()), reports=int((inside & mask).sum())))
    return parts


class SnapshotCache:
    """The latest snapshot, made anew where reports came in, but only so often that it takes 5 % of the time.

    Args:
        campaign: what is collected.
        graph: the public graph.
        store: where the reports are.
    """

    def __init__(self, campaign: Campaign, graph: Graph, store: ReportStore) -> None:
        self._campaign, self._graph, self._store = campaign, graph, store
        self._lock = threading.Lock()
        self._latest: Snapshot | None = None
        self._not_before = 0.0

    def get(self) -> Snapshot:
        """The latest snapshot; blocks while one is being made."""
        with self._lock:
            fresh = self._latest is not None and self._latest.reports == self._store.count(self._campaign.id)
            if self._latest is None or not (fresh or time.monotonic() < self._not_before):
                started = time.monotonic()
                codes = read_codes(self._campaign, self._graph, self._store.iterate(self._campaign))
                self._latest = take_snapshot(self._campaign, self._graph, codes)
                ended = time.monotonic()
                self._not_before = ended + (ended - started) / _DUTY
            return self._latest
