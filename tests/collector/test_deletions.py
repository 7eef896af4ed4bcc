"""What was withdrawn or purged is gone and does not return, whatever races with the deletion."""

from __future__ import annotations

import random
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from sqlalchemy import event, text

from tests.support.collected_acts import acts
from tests.support.collection import Collection
from veilgraph.collector.reports import Outcome
from veilgraph.collector.store import ReportStore

COLLECTION = Collection.ring(50)
CAMPAIGN = COLLECTION.campaign
ANOTHER = Collection.ring(51)
STORED, SAME, WITHDRAWN, PURGED = Outcome.STORED, Outcome.SAME, Outcome.WITHDRAWN, Outcome.PURGED


def test_the_audit_log_tells_objections_and_names_nobody_because_it_outlives_a_purge(store: ReportStore) -> None:
    store.reports.put([COLLECTION.report("n1"), COLLECTION.report("n2")], now=0)
    for node, actor in (
        ("n1", "participant"),
        ("n2", "owner"),
        ("n1", "owner"),
        ("n3", "participant"),
        ("n4", "owner"),
    ):
        store.withdrawals.withdraw(CAMPAIGN.id, node, now=0, actor=actor)
    said = [("participant", "withdraw"), ("owner", "withdraw"), ("participant", "object"), ("owner", "object")]
    assert acts(store) == [(*each, {"campaign": CAMPAIGN.id}) for each in said]


def test_a_withdrawn_report_is_gone_and_is_not_stored_again(store: ReportStore) -> None:
    reports = [COLLECTION.report(f"n{i}") for i in range(3)]
    store.reports.put(reports, now=0)
    assert store.withdrawals.withdraw(CAMPAIGN.id, "n1", now=7201.0) == (7200, True)
    assert store.withdrawals.withdraw(CAMPAIGN.id, "n1", now=1e9) == (7200, False)
    assert list(store.reports.iterate(CAMPAIGN)) == [reports[0], reports[2]]
    assert store.reports.count(CAMPAIGN.id) == 2
    again = store.reports.put([*reports, COLLECTION.report("n1", label=0)], now=1e9)
    assert again == [(SAME, 0), (WITHDRAWN, 7200), (SAME, 0), (WITHDRAWN, 7200)]
    assert store.withdrawals.count(CAMPAIGN.id) == 1
    assert store.withdrawals.count(ANOTHER.campaign.id) == 0


def test_who_withdraws_before_reporting_is_not_stored_either(store: ReportStore) -> None:
    assert store.withdrawals.withdraw(CAMPAIGN.id, "n1", now=0).is_new
    assert store.reports.put([COLLECTION.report("n1"), COLLECTION.report("n2")], now=0) == [(WITHDRAWN, 0), (STORED, 0)]


def test_a_withdrawal_deletes_every_wave_of_the_node_and_of_its_campaign_only(store: ReportStore) -> None:
    waves = [replace(COLLECTION.report(node), number=wave) for node in ("n1", "n2") for wave in (1, 2)]
    assert [result.outcome for result in store.reports.put([*waves, ANOTHER.report("n1")], now=0)] == [STORED] * 5
    assert [result.outcome for result in store.reports.put(waves, now=0)] == [SAME] * 4
    store.withdrawals.withdraw(CAMPAIGN.id, "n1", now=0)
    assert [store.reports.count(CAMPAIGN.id, wave=wave) for wave in (0, 1, 2, None)] == [0, 1, 1, 2]
    assert store.reports.put([replace(COLLECTION.report("n1"), number=3)], now=0) == [(WITHDRAWN, 0)]
    assert store.reports.count(ANOTHER.campaign.id) == 1


def test_nothing_withdrawn_returns_when_reports_race_with_withdrawals(store_url: str) -> None:
    """Two stores on one database, as of two collectors. Six threads send each node, and two withdraw it."""
    stores = [ReportStore.open(store_url) for _ in range(2)]
    nodes = [f"n{i}" for i in range(50)]
    start = threading.Barrier(8)

    def act(number: int) -> None:
        rng, store = random.Random(number), stores[number % 2]
        order = rng.sample(nodes, len(nodes))
        start.wait()
        for node in order:
            if number < 2:
                store.withdrawals.withdraw(CAMPAIGN.id, node, now=0)
            else:
                store.reports.put([COLLECTION.report(other) for other in (node, *rng.sample(nodes, 3))], now=0)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(act, range(8)))
    assert stores[0].reports.count(CAMPAIGN.id) == 0
    gone = stores[0].withdrawals.count(CAMPAIGN.id) + stores[0].withdrawals.objections(CAMPAIGN.id)
    assert gone == len(acts(stores[1])) == 50
    for store in stores:
        store.close()


def test_sqlite_keeps_no_copy_of_a_withdrawn_report(tmp_path: Path) -> None:
    """Reports in random order divide pages of the file, which leaves copies where nothing is overwritten."""
    many = Collection.ring(1000)
    names = random.Random(0).sample(many.graph.names, 1000)
    store = ReportStore.open(f"sqlite:///{tmp_path}/reports.db")
    for start in range(0, 1000, 100):
        store.reports.put([many.report(f"a node called {name};") for name in names[start : start + 100]], now=0)
    for name in names[:40]:
        store.withdrawals.withdraw(many.campaign.id, f"a node called {name};", now=0)
    with store.database.engine.begin() as connection:  # the tombstones hold the names, too
        connection.execute(text("DELETE FROM withdrawals"))
    store.close()
    held = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert f"a node called {names[-1]};".encode() in held
    assert [name for name in names[:40] if f"a node called {name};".encode() in held] == []


def test_a_reader_does_not_keep_withdrawals_waiting(tmp_path: Path) -> None:
    store = ReportStore.open(f"sqlite:///{tmp_path}/reports.db")
    store.reports.put([COLLECTION.report("n1")], now=0)
    reader = sqlite3.connect(tmp_path / "reports.db")
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM reports").fetchone()
    said: list[str] = []
    event.listen(store.database.engine, "checkout", lambda driver, *_: driver.set_trace_callback(said.append))
    assert store.withdrawals.withdraw(CAMPAIGN.id, "n1", now=0).is_new
    before = said[: said.index("PRAGMA wal_checkpoint(TRUNCATE)")]
    waited = [int(each.rpartition("=")[2]) for each in before if "busy_timeout" in each]
    assert waited[-1] < 1000, "milliseconds for which the log is waited for; writers wait for 5000"
    reader.close()
    store.withdrawals.withdraw(CAMPAIGN.id, "n1", now=0)
    assert (tmp_path / "reports.db-wal").stat().st_size == 0
    store.close()


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


def test_nothing_of_a_purged_report_stays_in_the_files_of_sqlite(tmp_path: Path) -> None:
    """The write-ahead log holds what was written before, until it is emptied; readers keep the store open."""
    store = ReportStore.open(f"sqlite:///{tmp_path}/reports.db")
    reports = [COLLECTION.report(f"n{i}") for i in range(50)]
    store.reports.put(reports, now=0)

    def on_disk() -> list[str]:
        content = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        return [report.node for report in reports if report.to_json().encode() in content]

    assert len(on_disk()) == 50
    store.purges.purge(CAMPAIGN, now=7201.0, actor="owner")
    assert on_disk() == []
    store.close()
