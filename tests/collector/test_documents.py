"""The newest document of each campaign is kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.collected_acts import acts
from tests.support.collection import Collection
from veilgraph.campaign import Campaign
from veilgraph.collector.store import ReportStore
from veilgraph.errors import StoreError
from veilgraph.privacy.public_columns import PublicColumn

COLLECTION = Collection.ring(50)
CAMPAIGN = COLLECTION.campaign
ANOTHER = Collection.ring(51)


def test_the_store_keeps_the_newest_document_of_each_campaign(store: ReportStore) -> None:
    for collection in (COLLECTION, ANOTHER, COLLECTION):
        store.documents.register(collection.campaign, now=0)
    assert store.documents.newest() == {c.campaign.id: c.campaign.to_json() for c in (COLLECTION, ANOTHER)}
    assert [(actor, action, detail["campaign"]) for actor, action, detail in acts(store)] == [
        ("collector", "notice", campaign) for campaign in sorted([CAMPAIGN.id, ANOTHER.campaign.id])
    ]


def test_columns_that_people_were_not_told_are_refused_and_fewer_are_taken_up(store: ReportStore) -> None:
    def told(version: int, *public: PublicColumn) -> Campaign:
        return replace(CAMPAIGN, notice=replace(CAMPAIGN.notice, version=version, public=public))

    street, village = PublicColumn(name="street"), PublicColumn(name="village", kind="category")
    store.documents.register(told(1, street, village), now=0)
    for columns in ((street, village, PublicColumn(name="status")), (street, PublicColumn(name="village"))):
        with pytest.raises(StoreError, match="begin another campaign"):
            store.documents.register(told(2, *columns), now=0)
    store.documents.register(told(2, street), now=0)
    with pytest.raises(StoreError, match=r"added or altered \(village\)"):
        store.documents.register(told(3, street, village), now=0)
    assert store.documents.newest() == {CAMPAIGN.id: told(2, street).to_json()}
