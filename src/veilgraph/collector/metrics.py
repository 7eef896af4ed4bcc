"""Counters for operation: how many reports, how many refusals, how long it takes. Nothing about any node."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from veilgraph.collector.store import Outcome


class Metrics:
    """Counts since the process started, for Prometheus, and refusals that the store has yet to be told of.

    Args:
        waiting: how many reports wait for the store.
    """

    def __init__(self, waiting: Callable[[], int]) -> None:
        self._registry = CollectorRegistry()
        self._reports = Counter(
            "veilgraph_reports", "Reports that were answered, by outcome", ["outcome"], registry=self._registry
        )
        self._refused = Counter(
            "veilgraph_refused",
            "Requests and reports that were refused, by reason",
            ["reason"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "veilgraph_submit_seconds",
            "From a report's arrival to its acknowledgement",
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
            registry=self._registry,
        )
        Gauge("veilgraph_reports_waiting", "Reports that wait for the store", registry=self._registry).set_function(
            waiting
        )
        self._unsaved: Tally[str] = Tally()

    def answered(self, outcome: Outcome) -> None:
        """A report was stored, was there already, or contradicts the one that stands."""
        self._reports.labels(outcome.value).inc()

    def refused(self, reason: str) -> None:
        """A request, or a report in it, was refused."""
        self._refused.labels(reason).inc()
        self._unsaved[reason] += 1

    def took(self, seconds: float) -> None:
        """A submission was answered."""
        self._seconds.observe(seconds)

    def take_unsaved(self) -> dict[str, int]:
        """Refusals since the last call, for the store."""
        counts, self._unsaved = self._unsaved, Tally()
        return dict(counts)

    def restore_unsaved(self, counts: dict[str, int]) -> None:
        """The store could not be told of them."""
        self._unsaved.update(counts)

    def text(self) -> bytes:
        """In Prometheus' text format."""
        return generate_latest(self._registry)
