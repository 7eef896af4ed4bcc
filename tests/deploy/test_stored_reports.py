"""Training reads the reports of its campaign, whatever else the store holds; withdrawn and purged ones are gone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.collection import Collection
from veilgraph.collector.export import write_parquet
from veilgraph.collector.store import ReportStore
from veilgraph.deploy.stored_reports import count_withdrawals, stored_reports
from veilgraph.errors import CampaignError, StoreError
from veilgraph.privacy.public_columns import PublicColumn

FIRST, SECOND = Collection.ring(6), Collection.ring(7)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Return a store with reports of two campaigns whose nodes have the same names."""
    url = f"sqlite:///{tmp_path}/reports.db"
    store = ReportStore.open(url)
    store.reports.put(
        [c.report(f"n{i}", label=label) for label, c in enumerate((FIRST, SECOND)) for i in range(5)], now=0
    )
    store.close()
    return url


def labels(url: str, collection: Collection) -> list[object]:
    with stored_reports(url, collection.campaign) as reports:
        return [report.label for report in reports]


def test_each_campaign_of_a_store_has_its_own_reports_export_and_withdrawals(url: str, tmp_path: Path) -> None:
    store = ReportStore.open(url)
    store.withdrawals.withdraw(FIRST.campaign.id, "n3", now=0)
    assert labels(url, FIRST) == [0] * 4
    assert labels(url, SECOND) == [1] * 5
    assert [count_withdrawals(url, c.campaign) for c in (FIRST, SECOND)] == [1, 0]
    for collection, rows in ((FIRST, 4), (SECOND, 5)):
        path = tmp_path / f"{rows}.parquet"
        assert write_parquet(collection.campaign, store.reports.iterate(collection.campaign), path) == rows
    store.close()


def test_a_purged_campaign_says_so_and_others_stay(url: str) -> None:
    store = ReportStore.open(url)
    store.purges.purge(FIRST.campaign, now=0, actor="owner")
    store.close()
    with pytest.raises(StoreError, match="were deleted, and it accepts none again: nothing can be learned"):
        labels(url, FIRST)
    assert labels(url, SECOND) == [1] * 5


def test_a_store_without_reports_of_the_campaign_is_refused(url: str) -> None:
    with pytest.raises(StoreError, match="holds no report of the campaign"):
        labels(url, Collection.ring(8))


def test_columns_that_people_were_not_told_are_refused(url: str) -> None:
    store = ReportStore.open(url)
    store.documents.register(FIRST.campaign, now=0)
    store.close()
    notice = replace(FIRST.campaign.notice, version=2, public=(PublicColumn(name="status"),))
    with (
        pytest.raises(CampaignError, match=r"added or altered \(status\).*begin another campaign"),
        stored_reports(url, replace(FIRST.campaign, notice=notice)),
    ):
        pass
