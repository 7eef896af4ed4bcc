"""The first report of a node counts, also with many concurrent writers."""

from __future__ import annotations

import json
import random
import sqlite3
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text

from tests.support.collection import Collection
from tests.support.services import Postgres
from veilgraph.collector.reports import Outcome, PutResult
from veilgraph.collector.store import ReportStore
from veilgraph.errors import StoreFullError

COLLECTION = Collection.ring(50)
STORED, SAME, CONFLICT = Outcome.STORED, Outcome.SAME, Outcome.CONFLICT


def outcomes(results: list[PutResult]) -> list[Outcome]:
    return [result.outcome for result in results]


def test_the_first_report_counts_the_same_again_is_accepted_another_is_a_conflict(store_url: str) -> None:
    store = ReportStore.open(store_url)
    first, other = COLLECTION.report("n1"), COLLECTION.report("n1", label=0)
    assert outcomes(store.reports.put([first, other, first], now=0)) == [STORED, CONFLICT, SAME]
    assert outcomes(store.reports.put([first, other], now=0)) == [SAME, CONFLICT]
    assert store.reports.put([], now=0) == []
    assert store.reports.count(COLLECTION.campaign.id) == 1
    assert list(store.reports.iterate(COLLECTION.campaign)) == [first]
    store.close()


def test_a_report_keeps_the_hour_in_which_it_was_first_stored_and_no_more(store_url: str) -> None:
    store = ReportStore.open(store_url)
    first, other = COLLECTION.report("n1"), COLLECTION.report("n1", label=0)
    assert store.reports.put([first, first, other], now=7201.0) == [(STORED, 7200), (SAME, 7200), (CONFLICT, 7200)]
    later = store.reports.put([first, other, COLLECTION.report("n2")], now=7200.0 + 3599.9)
    assert later == [(SAME, 7200), (CONFLICT, 7200), (STORED, 7200)]
    store.reports.put([COLLECTION.report("n3")], now=10_800.0)
    assert store.reports.by_hour(COLLECTION.campaign.id) == [(7200, 2), (10_800, 1)]
    store.close()


def test_of_many_that_race_exactly_one_is_stored(store_url: str) -> None:
    """Two stores on one database, as two collectors would be; every thread sends the same nodes in its own order."""
    stores = [ReportStore.open(store_url) for _ in range(2)]
    start = threading.Barrier(8)

    def send(number: int) -> list[Outcome]:
        reports = [COLLECTION.report(f"n{i}", features=(0, number % 2, number % 4)) for i in range(50)]
        start.wait()
        return outcomes(stores[number % 2].reports.put(reports[number:] + reports[:number], now=0))

    with ThreadPoolExecutor(8) as threads:
        counts = Counter(outcome for result in threads.map(send, range(8)) for outcome in result)
    assert counts[STORED] == 50
    assert sum(counts.values()) == 400
    assert stores[0].reports.count(COLLECTION.campaign.id) == 50
    for store in stores:
        store.close()


def test_reports_come_back_in_the_order_of_nodes_page_by_page(store_url: str) -> None:
    store = ReportStore.open(store_url, page_size=7)
    reports = [COLLECTION.report(f"n{i}") for i in range(50)]
    store.reports.put(reports, now=0)
    found = [report.node for report in store.reports.iterate(COLLECTION.campaign)]
    assert sorted(found) == sorted(report.node for report in reports)
    assert len(set(found)) == 50
    store.close()


@pytest.mark.slow
def test_the_rows_of_one_transaction_are_in_the_order_of_names_and_not_of_arrival(postgres: Postgres) -> None:
    """PostgreSQL keeps the place of each row (`ctid`), which its files show."""
    store = ReportStore.open(postgres.new_database("order"))
    names = [f"n{i}" for i in random.Random(0).sample(range(50), 50)]
    store.reports.put([COLLECTION.report(name) for name in names], now=0)
    with store.database.engine.connect() as connection:
        rows = connection.execute(text("SELECT node FROM reports ORDER BY xmin::text::bigint, ctid")).scalars().all()
    assert rows == sorted(names)
    store.close()


@pytest.mark.slow
def test_every_name_that_a_node_can_have_is_stored(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "latin1")
    store = ReportStore.open(postgres.new_database("names"))
    reports = [
        COLLECTION.report(node) for node in ("\N{CJK UNIFIED IDEOGRAPH-4E2D}", "\N{GRINNING FACE}" * 256, "\ufffe")
    ]
    assert outcomes(store.reports.put(reports, now=0)) == [STORED] * 3
    assert {report.node for report in store.reports.iterate(COLLECTION.campaign)} == {report.node for report in reports}
    store.close()


def test_a_full_disk_is_refused_and_nothing_is_stored(tmp_path: Path) -> None:
    store = ReportStore.open(f"sqlite:///{tmp_path}/reports.db")
    with store.database.engine.connect() as connection:  # the pool has one connection in use at a time
        pages = connection.execute(text("PRAGMA page_count")).scalar_one()
        connection.execute(text(f"PRAGMA max_page_count = {pages + 2}"))
    many = Collection.ring(2000)
    reports = [many.report(f"n{i}") for i in range(2000)]
    with pytest.raises(StoreFullError, match="nothing was stored"):
        store.reports.put(reports, now=0)
    assert store.reports.count(many.campaign.id) == 0
    assert outcomes(store.reports.put(reports[:1], now=0)) == [STORED]
    store.close()


def test_a_report_that_someone_altered_in_the_database_is_noticed(tmp_path: Path) -> None:
    store = ReportStore.open(f"sqlite:///{tmp_path}/reports.db")
    store.reports.put([COLLECTION.report("n1")], now=0)
    with sqlite3.connect(tmp_path / "reports.db") as connection:
        connection.execute("UPDATE reports SET content = replace(content, '\"label\":1', '\"label\":7')")
    connection.close()
    with pytest.raises(ValueError, match="label"):
        list(store.reports.iterate(COLLECTION.campaign))
    store.close()


def test_a_store_says_in_which_rounds_a_node_reported(store_url: str) -> None:
    store = ReportStore.open(store_url)

    def reported(node: str, wave: int | None = 2) -> tuple[str, list[int]]:
        standing, waves = store.reports.has_reported(COLLECTION.campaign.id, node, wave=wave)
        return standing.value, waves

    sent = {"n1": (1, 3), "n2": (2,), "n4": (None,)}
    drawn = [replace(COLLECTION.report(node), number=wave) for node, waves in sent.items() for wave in waves]
    store.reports.put(drawn, now=0)
    answers = [("earlier", [1, 3]), ("stored", [2]), ("missing", []), ("earlier", [])]
    assert [reported(node) for node in ("n1", "n2", "n3", "n4")] == answers
    assert [reported(node, None) for node in ("n1", "n2", "n3")] == [answers[0], ("earlier", [2]), answers[2]]
    assert reported("n4", 0) == ("stored", [])
    store.withdrawals.withdraw(COLLECTION.campaign.id, "n1", now=0)
    assert reported("n1") == ("withdrawn", [])
    assert store.reports.has_reported(Collection.ring(51).campaign.id, "n2", wave=2)[0].value == "missing"
    store.purges.purge(COLLECTION.campaign, now=0, actor="owner")
    assert [reported(node) for node in ("n1", "n2", "n3")] == [("purged", [])] * 3
    store.close()


def test_rows_are_written_in_one_order_whatever_order_they_come_in(tmp_path: Path) -> None:
    """Two collectors that insert the same nodes in two orders wait for each other: PostgreSQL ends one of them."""
    store, written = ReportStore.open(f"sqlite:///{tmp_path}/reports.db"), list[list[str]]()

    @event.listens_for(store.database.engine, "before_execute")
    def watch(*executed: Any) -> None:
        rows = executed[3].get("rows")
        written.extend([[row[1] for row in json.loads(rows)]] if rows else [])

    for nodes in (["n3", "n1", "n2"], ["n2", "n3", "n1"]):
        store.reports.put([COLLECTION.report(node) for node in nodes], now=0)
    store.close()
    assert written == [["n1", "n2", "n3"]] * 2
