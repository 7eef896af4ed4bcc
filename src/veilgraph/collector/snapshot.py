"""Everything that the dashboard shows and that takes a look at every report, made now and then."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veilgraph.campaign import Campaign
from veilgraph.collected import Codes, read_codes, with_codes
from veilgraph.collector.estimates import Marginal, feature_marginals, label_marginal
from veilgraph.collector.store import ReportStore
from veilgraph.errors import MissingExtraError
from veilgraph.graph import Graph
from veilgraph.screen import Suspicion, screen

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
        missing: why there are no estimates, where a library is missing.
        suspicions: what is implausible under the mechanism.
    """

    made: float
    reports: int
    in_reach: int
    cover: Sequence[Cover]
    label: Marginal | None
    features: Sequence[Marginal]
    missing: str
    suspicions: Sequence[Suspicion]


def take_snapshot(campaign: Campaign, graph: Graph, codes: Codes) -> Snapshot:
    """Look at every report."""
    mask = codes.has_report
    reached = mask.copy()
    for sources, targets in (graph.edges, graph.edges[::-1]):
        reached[targets[mask[sources]]] = True
    label, features, missing = None, [], ""
    try:
        label, features = label_marginal(campaign, codes), feature_marginals(campaign, codes)
    except MissingExtraError as error:
        missing = str(error)
    return Snapshot(
        made=time.time(),
        reports=int(mask.sum()),
        in_reach=int(reached.sum()),
        cover=_cover(graph, mask),
        label=label,
        features=features,
        missing=missing,
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
