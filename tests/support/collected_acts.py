"""What the audit logs of a store say."""

from __future__ import annotations

from veilgraph.collector import audit_log
from veilgraph.collector.store import ReportStore


def acts(store: ReportStore) -> list[tuple[str, str, dict[str, object]]]:
    """Return what the logs of all campaigns say; their order is that of the ids."""
    logs = store.audit_log.by_campaign()
    audit_log.check_all(logs)
    return [(entry.actor, entry.action, entry.document["detail"]) for log in logs.values() for entry in log]
