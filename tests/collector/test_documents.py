"""The newest document of each campaign is kept."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.collection import Collection
from veilgraph.collector import audit_log
from veilgraph.collector.store import ReportStore

COLLECTION = Collection.ring(50)
CAMPAIGN = COLLECTION.campaign
ANOTHER = Collection.ring(51)


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


def test_the_store_keeps_the_newest_document_of_each_campaign(store: ReportStore) -> None:
    for collection in (COLLECTION, ANOTHER, COLLECTION):
        store.documents.register(collection.campaign, now=0)
    assert store.documents.newest() == {c.campaign.id: c.campaign.to_json() for c in (COLLECTION, ANOTHER)}
    assert [(actor, action, detail["campaign"]) for actor, action, detail in acts(store)] == [
        ("collector", "notice", campaign) for campaign in sorted([CAMPAIGN.id, ANOTHER.campaign.id])
    ]
