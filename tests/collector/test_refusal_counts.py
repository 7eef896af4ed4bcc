"""Counts of refusals."""

from __future__ import annotations

from veilgraph.collector.store import ReportStore


def test_refusals_add_up(store_url: str) -> None:
    store = ReportStore.open(store_url)
    for counts in ({"closed": 2}, {}, {"closed": 1, "not_valid": 5}):
        store.refusals.add("c", counts)
    assert store.refusals.by_reason("c") == {"closed": 3, "not_valid": 5}
    assert store.refusals.by_reason("another") == {}
    store.close()
