"""A collector deletes reports when the date has passed that their campaign announced, and not before."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from benchmarks.performance.collecting import Server

from tests.support.collection import Collection
from tests.support.running_collector import collecting, collector_of, listening, wait_until
from veilgraph.campaign import Campaign
from veilgraph.campaign.budget import CampaignBudget
from veilgraph.campaign.notice import Notice
from veilgraph.collector.deletions import Purges
from veilgraph.collector.retention import maintain_regularly, purge_if_due
from veilgraph.collector.store import ReportStore
from veilgraph.errors import StoreError, StoreUnavailableError

RING, OTHER = Collection.ring(5), Collection.ring(6)
DATE = datetime(2999, 1, 31, tzinfo=UTC)
KEPT = replace(RING, campaign=replace(RING.campaign, notice=replace(RING.campaign.notice, retention=DATE)))
DUE = DATE.timestamp()


@pytest.fixture
def store(tmp_path: Path) -> ReportStore:
    opened = ReportStore.open(f"sqlite:///{tmp_path}/reports.db")
    opened.reports.put([KEPT.report(f"n{i}") for i in range(3)], now=0)
    return opened


def test_reports_are_deleted_after_the_date_and_not_before(store: ReportStore) -> None:
    assert purge_if_due(RING.campaign, store, now=1e12) == 0
    assert purge_if_due(KEPT.campaign, store, now=DUE - 1) == 0
    assert store.reports.count(KEPT.campaign.id) == 3
    assert purge_if_due(KEPT.campaign, store, now=DUE) == 3
    assert purge_if_due(KEPT.campaign, store, now=DUE) == 0
    (entry,) = store.audit_log.entries(KEPT.campaign.id)
    assert (entry.actor, entry.action) == ("collector", "purge")


def test_a_running_collector_purges_and_says_so(store: ReportStore, caplog: pytest.LogCaptureFixture) -> None:
    now = [DUE - 10]
    app = collector_of(
        campaign=KEPT.campaign,
        graph=KEPT.graph,
        store=store,
        credentials=KEPT.credentials,
        clock=lambda: now[0],
        maintenance_seconds=0.01,
    )
    with caplog.at_level(logging.INFO, logger="veilgraph.collector"), listening(app) as client:
        receipt = KEPT.credentials.receipt(KEPT.report("n1"), hour=0).document
        assert client.post("/v1/receipts", json=receipt).json() == {"status": "stored"}
        now[0] = DUE
        wait_until(
            lambda: store.purges.hour(KEPT.campaign.id) is not None and store.reports.count(KEPT.campaign.id) == 0
        )
        assert client.post("/v1/receipts", json=receipt).json() == {"status": "purged"}
        withdrawn = client.delete("/v1/reports/n1", headers=KEPT.headers("n1"))
        assert (withdrawn.status_code, withdrawn.json()["status"]) == (200, "same")
    assert "deleted 3 reports" in caplog.text


def test_a_collector_purges_campaigns_of_its_database_that_it_does_not_serve(store: ReportStore) -> None:
    store.documents.register(KEPT.campaign, now=0)
    store.reports.put([OTHER.report("n1")], now=0)
    now = [DUE - 10]
    app = collector_of(
        campaign=OTHER.campaign,
        graph=OTHER.graph,
        store=store,
        credentials=OTHER.credentials,
        clock=lambda: now[0],
        maintenance_seconds=0.01,
    )
    with listening(app):
        assert store.reports.count(KEPT.campaign.id) == 3
        now[0] = DUE
        wait_until(
            lambda: store.purges.hour(KEPT.campaign.id) is not None and store.reports.count(KEPT.campaign.id) == 0
        )
        assert store.reports.count(OTHER.campaign.id) == 1
        assert [entry.action for entry in store.audit_log.entries(KEPT.campaign.id)] == ["notice", "purge"]


def test_a_revised_notice_is_kept_and_an_older_one_is_refused(store: ReportStore) -> None:
    sooner = KEPT.campaign.revise(purpose="Tests, and more")
    for campaign in (KEPT.campaign, KEPT.campaign, sooner):
        store.documents.register(campaign, now=0)
    assert store.documents.newest() == {KEPT.campaign.id: sooner.to_json()}
    assert [entry.document["detail"]["notice"] for entry in store.audit_log.entries(KEPT.campaign.id)] == [1, 2]
    with pytest.raises(StoreError, match="holds notice 1, and notice 2 was served before: put the newest file back"):
        collector_of(KEPT.campaign, graph=KEPT.graph, store=store, credentials=KEPT.credentials)


def test_a_database_that_does_not_answer_is_tried_again_and_an_error_is_logged(
    store: ReportStore, caplog: pytest.LogCaptureFixture
) -> None:
    class Absent(Purges):
        """Purges whose database is away for the first call, and broken in the second."""

        calls = 0

        def hour(self, campaign_id: str) -> int | None:
            self.calls += 1
            if self.calls == 1:
                raise StoreUnavailableError("away")
            if self.calls == 2:
                raise StoreError("broken")
            return super().hour(campaign_id)

    store.reports.put([KEPT.report("n1")], now=0)
    store.purges = absent = Absent(store.database, store.documents)
    counts, outages = list[int](), list[int]()

    async def run() -> None:
        task = asyncio.create_task(
            maintain_regularly(
                lambda: KEPT.campaign,
                store,
                clock=lambda: DUE,
                counted=counts.append,
                unavailable=lambda: outages.append(absent.calls),
                seconds=0.001,
            )
        )
        while not counts:
            await asyncio.sleep(0.001)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert (outages, counts[0]) == ([1], 0)
    assert [record.getMessage() for record in caplog.records] == [
        "the notice and its retention date could not be attended to: StoreError"
    ]


@pytest.mark.slow
def test_the_date_passes_while_a_collector_serves(tmp_path: Path) -> None:
    """Reports arrive until the end, are deleted when the date comes, and are refused from then on."""
    # Time for the process to start; a purge waits for the date and not for the minute between two looks.
    date = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=10)
    campaign = Campaign.new(
        schema=RING.campaign.schema,
        graph=RING.graph,
        notice=Notice(purpose="Tests", contact="tests@example.org", closes=date, retention=date),
        budget=CampaignBudget(epsilon_x=1.0, sampled=1, epsilon_y=1.0),
        label="health",
    )
    collection, url = replace(RING, campaign=campaign), f"sqlite:///{tmp_path}/served.db"
    with Server([*collection.write(tmp_path), "--store", url], log=tmp_path / "log") as collector:
        with httpx.Client(base_url=collector.url) as client:

            def put(node: str) -> httpx.Response:
                document = collection.report(node).document
                return client.put(f"/v1/reports/{node}", json=document, headers=collection.headers(node))

            receipts = [put(f"n{i}").json()["receipt"] for i in range(3)]
            assert client.post("/v1/receipts", json=receipts[0]).json() == {"status": "stored"}
            assert datetime.now(UTC) < date, "the machine is too slow for this test"
            wait_until(lambda: "deleted 3 reports" in collector.text)
            assert date <= datetime.now(UTC) < date + timedelta(seconds=20)
            assert [client.post("/v1/receipts", json=each).json()["status"] for each in receipts] == ["purged"] * 3
            assert put("n4").status_code == 410
            lines = client.get("/metrics", headers=collection.admin).text.splitlines()
            assert [line[-4:] for line in lines if line.startswith("veilgraph_reports_stored")] == [" 0.0"]
        assert collector.stop() == 0
    store = ReportStore.open(url, create=False)
    assert store.reports.count(campaign.id) == 0
    assert [(entry.actor, entry.action) for entry in store.audit_log.entries(campaign.id)][-1] == ("collector", "purge")
    store.close()


def test_after_a_purge_by_hand_no_page_takes_an_answer(tmp_path: Path) -> None:
    """`veilgraph purge --now` is another process: the collector looks at the store."""
    store = ReportStore.open(f"sqlite:///{tmp_path}/reports.db")
    with collecting(RING, store) as client:
        assert client.get("/v1/campaign").status_code == 200
        store.purges.purge(RING.campaign, now=0.0, actor="owner")
        refused = client.get("/v1/campaign")
        assert (refused.status_code, refused.json()["error"]) == (410, "purged")
        assert client.get("/").status_code == 200
