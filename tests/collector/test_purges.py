"""A purge deletes all reports of a campaign, and none returns."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import text

from tests.support.collection import Collection
from veilgraph.collector import audit_log
from veilgraph.collector.reports import Outcome
from veilgraph.collector.store import ReportStore

COLLECTION = Collection.ring(50)
CAMPAIGN = COLLECTION.campaign
ANOTHER = Collection.ring(51)
SAME, PURGED = Outcome.SAME, Outcome.PURGED


@pytest.fixture
def store(store_url: str) -> Iterator[ReportStore]:
    opened = ReportStore.open(store_url)
    yield opened
    opened.close()


def acts(store: ReportStore) -> list[tuple[str, str, dict[str, object]]]:
    """Return what the logs of all campaigns say; their order is that of the ids."""
    logs = store.audit_log.by_campaign()
    audit_log.check_all(logs)
    return [(entry.actor, entry.action, entry.document["detail"]) for log in logs.values() for entry in log]


def test_a_purge_deletes_all_reports_and_stores_none_again(store: ReportStore) -> None:
    store.reports.put([COLLECTION.report(f"n{i}") for i in range(50)] + [ANOTHER.report("n1")], now=0)
    store.withdrawals.withdraw(CAMPAIGN.id, "n1", now=0)
    assert store.purges.hour(CAMPAIGN.id) is None
    assert store.purges.purge(CAMPAIGN, now=7201.0, actor="owner") == 49
    assert store.purges.purge(CAMPAIGN, now=1e9, actor="owner") == 0
    assert store.purges.hour(CAMPAIGN.id) == 7200
    assert store.reports.count(CAMPAIGN.id) == 0
    assert store.reports.put([COLLECTION.report("n1"), ANOTHER.report("n1")], now=7200) == [(PURGED, 7200), (SAME, 0)]
    assert store.withdrawals.withdraw(CAMPAIGN.id, "n3", now=1e9) == (7200, False)
    assert store.withdrawals.count(CAMPAIGN.id) == 1, "the number outlives the names"
    assert acts(store)[1:] == [("owner", "purge", {"campaign": CAMPAIGN.id, "reports": 49, "withdrawals": 1})]


def test_an_interrupted_purge_refuses_reports_and_can_be_finished(store: ReportStore) -> None:
    store.purges.purge(CAMPAIGN, now=0, actor="collector")
    with store.database.engine.begin() as connection:  # as after a crash between its transactions
        connection.execute(
            text("INSERT INTO reports VALUES (:campaign, 'n1', 0, :content, 0)"),
            {"campaign": CAMPAIGN.id, "content": COLLECTION.report("n1").to_json()},
        )
    assert store.purges.purge(CAMPAIGN, now=1e9, actor="owner") == 1
    assert store.reports.count(CAMPAIGN.id) == 0
    assert len(acts(store)) == 1
