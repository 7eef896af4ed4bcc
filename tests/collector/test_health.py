"""A live process runs its writer; a ready one can also store a report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Connection, text

from tests.support.collection import Collection
from tests.support.running_collector import collecting, wait_until
from veilgraph.collector.database import Database
from veilgraph.collector.store import ReportStore
from veilgraph.errors import StoreFullError

RING = Collection.ring(5)


@pytest.fixture
def store(tmp_path: Path) -> ReportStore:
    return ReportStore.open(f"sqlite:///{tmp_path}/reports.db")


def statuses(client: httpx.Client, method: str) -> list[int]:
    return [client.request(method, path).status_code for path in ("/health/live", "/health/ready", "/health")]


def test_tables_of_another_version_make_the_collector_unready_and_not_dead(store: ReportStore) -> None:
    with collecting(RING, store) as client:
        assert statuses(client, "GET") == statuses(client, "HEAD") == [200, 200, 200]
        assert client.head("/health/ready").content == b""
        with store.database.engine.begin() as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        assert statuses(client, "GET") == statuses(client, "HEAD") == [200, 503, 503]
        detail = client.get("/health/ready").json()["detail"]
        assert detail.startswith("the tables have version 9999, and the collector needs ")


def set_pages(store: ReportStore, more: int) -> None:
    """Let the database grow by so many pages; its pool has one connection in use at a time."""
    with store.database.engine.connect() as connection:
        pages = connection.execute(text("PRAGMA page_count")).scalar_one()
        connection.execute(text(f"PRAGMA max_page_count = {pages + more}"))


def test_a_store_without_room_takes_no_probe_and_one_with_room_is_left_as_it_was(store: ReportStore) -> None:
    store.documents.register(RING.campaign, now=0)
    store.database.check_writes()
    assert store.reports.count("") == 0
    set_pages(store, 0)
    with pytest.raises(StoreFullError):
        store.audit_log.record("export", {"campaign": "c", "text": "x" * 100_000}, now=0, actor="owner")
    with suppress(StoreFullError):
        for _ in range(100):  # takes what the first probe left free
            store.audit_log.record("export", {"campaign": "c", "text": "x" * 4000}, now=0, actor="owner")
    with pytest.raises(StoreFullError):
        store.database.check_writes()
    set_pages(store, 1000)
    store.database.check_writes()


class Full(Database):
    """A database that a test fills and empties."""

    is_full = False

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        if self.is_full:
            raise StoreFullError("full")
        with super().writing() as connection:
            yield connection


def test_a_full_store_makes_the_collector_unready_until_there_is_room(tmp_path: Path) -> None:
    database = Full.open(f"sqlite:///{tmp_path}/reports.db", creates=True, writes=True)
    with collecting(RING, ReportStore(database)) as client:
        assert statuses(client, "GET") == [200, 200, 200]
        database.is_full = True
        response = client.put("/v1/reports/n1", json=RING.report("n1").document, headers=RING.headers("n1"))
        assert response.status_code == 507
        wait_until(lambda: statuses(client, "GET") == [200, 503, 503])
        database.is_full = False
        wait_until(lambda: statuses(client, "GET") == [200, 200, 200])


def test_gauges_follow_what_is_stored_and_what_is_withdrawn(store: ReportStore) -> None:
    def gauges(client: httpx.Client) -> dict[str, float]:
        lines = client.get("/metrics", headers=RING.admin).text.splitlines()
        return {line.split("{")[0].split()[0]: float(line.split()[-1]) for line in lines if not line.startswith("#")}

    store.reports.put([RING.report("n0")], now=0)
    with collecting(RING, store) as client:
        wait_until(lambda: gauges(client)["veilgraph_reports_stored"] == 1)
        for node in ("n1", "n1", "n2"):
            client.put(f"/v1/reports/{node}", json=RING.report(node).document, headers=RING.headers(node))
        found = gauges(client)
    assert (found["veilgraph_reports_stored"], found["veilgraph_database_up"]) == (3, 1)
    assert found["veilgraph_reports_waiting"] == 0
