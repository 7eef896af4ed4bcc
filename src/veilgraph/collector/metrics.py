"""Metrics for Prometheus, and the counts of refusals that go to the store."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from veilgraph.collector.errors import RefusalReason
from veilgraph.collector.reports import Outcome


class Metrics:
    """Prometheus counters since the process started, and the refusals that are not in the store yet.

    They say nothing about any node. Each is labelled with the campaign.

    Args:
        campaign: name of the campaign in the metrics: the beginning of its id.
        queued: function that returns the number of reports that wait for the store, of all campaigns.
        database_up: function that returns whether the database answers.
    """

    def __init__(
        self, *, campaign: str, queued: Callable[[], int], database_up: Callable[[], bool] = lambda: True
    ) -> None:
        self._registry, self._campaign = CollectorRegistry(), campaign
        self._reports = Counter(
            "veilgraph_reports",
            "Reports that were answered, by outcome",
            ["campaign", "outcome"],
            registry=self._registry,
        )
        self._outcomes = {outcome: self._reports.labels(campaign, outcome.value) for outcome in Outcome}
        self._refused = Counter(
            "veilgraph_refused",
            "Requests and reports that were refused, by reason",
            ["campaign", "reason"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "veilgraph_submit_seconds",
            "Time from a report's arrival to its acknowledgement",
            ["campaign"],
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
            registry=self._registry,
        ).labels(campaign)
        waiting = Gauge("veilgraph_reports_waiting", "Reports that wait for the store", registry=self._registry)
        waiting.set_function(queued)
        up = Gauge("veilgraph_database_up", "Whether the database answers: 1 or 0", registry=self._registry)
        up.set_function(database_up)
        self._stored = Gauge(
            "veilgraph_reports_stored",
            "Reports in the store; counted once a minute, with what this process stored since",
            ["campaign"],
            registry=self._registry,
        ).labels(campaign)
        self._unsaved: Tally[str] = Tally()

    def count_outcome(self, outcome: Outcome) -> None:
        """Count a report that the store answered."""
        self._outcomes[outcome].inc()
        if outcome is Outcome.STORED:
            self._stored.inc()

    def set_stored(self, reports: int) -> None:
        """Set the number of stored reports, which withdrawals and other collectors change too."""
        self._stored.set(reports)

    def count_refusal(self, reason: RefusalReason) -> None:
        """Count a refused request, or a refused report of a batch."""
        self._refused.labels(self._campaign, reason.value).inc()
        self._unsaved[reason.value] += 1

    def observe_seconds(self, seconds: float) -> None:
        """Record how long a submission took."""
        self._seconds.observe(seconds)

    def take_unsaved(self) -> dict[str, int]:
        """Return the refusals since the last call, by reason, for the store."""
        counts, self._unsaved = self._unsaved, Tally()
        return dict(counts)

    def restore_unsaved(self, counts: dict[str, int]) -> None:
        """Keep counts that could not be stored for the next call of `take_unsaved`."""
        self._unsaved.update(counts)

    def render(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        return generate_latest(self._registry)
