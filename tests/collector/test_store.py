"""The small parts of a store: counts of refusals, and sessions of the dashboard that ended."""

from __future__ import annotations

from sqlalchemy import text

from veilgraph.collector.store import ReportStore


def test_ended_sessions_are_remembered_until_they_expire(store_url: str) -> None:
    store = ReportStore.open(store_url)
    for _ in range(2):
        store.ended_sessions.add("a", expires=100.0, now=50.0)
    store.ended_sessions.add("b", expires=200.0, now=100.0)
    assert [session in store.ended_sessions for session in "abc"] == [True, True, False]
    store.ended_sessions.add("c", expires=300.0, now=150.0)
    with store.database.engine.connect() as connection:
        kept = connection.execute(text("SELECT session FROM ended_sessions ORDER BY session")).scalars().all()
    assert kept == ["b", "c"]
    store.close()


def test_refusals_add_up(store_url: str) -> None:
    store = ReportStore.open(store_url)
    for counts in ({"closed": 2}, {}, {"closed": 1, "not_valid": 5}):
        store.refusals.add("c", counts)
    assert store.refusals.by_reason("c") == {"closed": 3, "not_valid": 5}
    assert store.refusals.by_reason("another") == {}
    store.close()
