"""A live process runs its writer; a ready one can also store a report."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from sqlalchemy import text

from tests.support.collection import Collection
from tests.support.running_collector import collecting, wait_until
from veilgraph.collector.store import ReportStore

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
        with store.engine.begin() as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        assert statuses(client, "GET") == statuses(client, "HEAD") == [200, 503, 503]
        detail = client.get("/health/ready").json()["detail"]
        assert detail.startswith("the tables have version 9999, and the collector needs ")


def test_gauges_follow_what_is_stored_and_what_is_withdrawn(store: ReportStore) -> None:
    def gauges(client: httpx.Client) -> dict[str, float]:
        lines = client.get("/metrics", headers=RING.admin).text.splitlines()
        return {line.split("{")[0].split()[0]: float(line.split()[-1]) for line in lines if not line.startswith("#")}

    store.put([RING.report("n0")], now=0)
    with collecting(RING, store) as client:
        wait_until(lambda: gauges(client)["veilgraph_reports_stored"] == 1)
        for node in ("n1", "n1", "n2"):
            client.put(f"/v1/reports/{node}", json=RING.report(node).document, headers=RING.headers(node))
        found = gauges(client)
    assert (found["veilgraph_reports_stored"], found["veilgraph_database_up"]) == (3, 1)
    assert found["veilgraph_reports_waiting"] == 0
