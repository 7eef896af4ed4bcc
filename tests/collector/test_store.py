"""The first report of a node counts and is on disk, also with many concurrent writers."""

from __future__ import annotations

import random
import sqlite3
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib import resources
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect, text

from tests.support.collection import Collection
from tests.support.services import Postgres
from veilgraph.campaign.report import Report
from veilgraph.collector.audit_log import Entry, check_all
from veilgraph.collector.database import known_versions, make_engine, metadata, parse_url, upgrade, writing
from veilgraph.collector.store import Outcome, PutResult, ReportStore
from veilgraph.errors import StoreError, StoreFullError, StoreUnavailableError

COLLECTION = Collection.ring(50)
STORED, SAME, CONFLICT = Outcome.STORED, Outcome.SAME, Outcome.CONFLICT


def outcomes(results: list[PutResult]) -> list[Outcome]:
    return [result.outcome for result in results]


def test_the_first_report_counts_the_same_again_is_accepted_another_is_a_conflict(store_url: str) -> None:
    store = ReportStore.open(store_url)
    first, other = COLLECTION.report("n1"), COLLECTION.report("n1", label=0)
    assert outcomes(store.put([first], now=0)) == [STORED]
    assert outcomes(store.put([first, other], now=0)) == [SAME, CONFLICT]
    assert list(store.iterate(COLLECTION.campaign)) == [first]
    store.close()


def test_within_one_transaction_the_first_counts_too(store_url: str) -> None:
    store = ReportStore.open(store_url)
    first, other = COLLECTION.report("n1"), COLLECTION.report("n1", label=0)
    assert outcomes(store.put([first, other, first], now=0)) == [STORED, CONFLICT, SAME]
    assert store.put([], now=0) == []
    assert store.count(COLLECTION.campaign.id) == 1
    store.close()


def test_of_many_that_race_exactly_one_is_stored(store_url: str) -> None:
    """Two stores on one database, as two collectors would be; every thread sends the same nodes in its own order."""
    stores = [ReportStore.open(store_url) for _ in range(2)]
    start = threading.Barrier(8)

    def send(number: int) -> list[Outcome]:
        reports = [COLLECTION.report(f"n{i}", features=(0, number % 2, number % 4)) for i in range(50)]
        start.wait()
        return outcomes(stores[number % 2].put(reports[number:] + reports[:number], now=0))

    with ThreadPoolExecutor(8) as threads:
        counts = Counter(outcome for result in threads.map(send, range(8)) for outcome in result)
    assert counts[STORED] == 50
    assert sum(counts.values()) == 400
    assert stores[0].count(COLLECTION.campaign.id) == 50
    for store in stores:
        store.close()


def test_reports_come_back_in_the_order_of_nodes_page_by_page(store_url: str) -> None:
    store = ReportStore.open(store_url, page_size=7)
    reports = [COLLECTION.report(f"n{i}") for i in range(50)]
    store.put(reports, now=0)
    found = [report.node for report in store.iterate(COLLECTION.campaign)]
    assert sorted(found) == sorted(report.node for report in reports)
    assert len(set(found)) == 50
    store.close()


@pytest.mark.slow
def test_the_rows_of_one_transaction_are_in_the_order_of_names_and_not_of_arrival(postgres: Postgres) -> None:
    """PostgreSQL keeps the place of each row (`ctid`), which its files show."""
    store = ReportStore.open(postgres.new_database("order"))
    names = [f"n{i}" for i in random.Random(0).sample(range(50), 50)]
    store.put([COLLECTION.report(name) for name in names], now=0)
    with store.engine.connect() as connection:
        rows = connection.execute(text("SELECT node FROM reports ORDER BY xmin::text::bigint, ctid")).scalars().all()
    assert rows == sorted(names)
    store.close()


def test_only_the_hour_of_arrival_is_kept(store_url: str) -> None:
    store = ReportStore.open(store_url)
    for node, now in (("n1", 7200.0), ("n2", 7200.0 + 3599.9), ("n3", 10_800.0)):
        store.put([COLLECTION.report(node)], now=now)
    assert store.by_hour(COLLECTION.campaign.id) == [(7200, 2), (10_800, 1)]
    store.close()


def test_a_report_keeps_the_hour_in_which_it_was_first_stored(store_url: str) -> None:
    store = ReportStore.open(store_url)
    first, other = COLLECTION.report("n1"), COLLECTION.report("n1", label=0)
    assert store.put([first, first, other], now=7201.0) == [(STORED, 7200), (SAME, 7200), (CONFLICT, 7200)]
    assert store.put([first, other, COLLECTION.report("n2")], now=1e9) == [
        (SAME, 7200),
        (CONFLICT, 7200),
        (STORED, 999_997_200),
    ]
    store.close()


def test_refusals_add_up(store_url: str) -> None:
    store = ReportStore.open(store_url)
    for counts in ({"closed": 2}, {}, {"closed": 1, "not_valid": 5}):
        store.add_refusals("c", counts)
    assert store.refusals("c") == {"closed": 3, "not_valid": 5}
    assert store.refusals("another") == {}
    store.close()


def test_ended_sessions_are_remembered_until_they_expire(store_url: str) -> None:
    store = ReportStore.open(store_url)
    for _ in range(2):
        store.end_session("a", expires=100.0, now=50.0)
    store.end_session("b", expires=200.0, now=100.0)
    assert (store.has_ended("a"), store.has_ended("b"), store.has_ended("c")) == (True, True, False)
    store.end_session("c", expires=300.0, now=150.0)
    with store.engine.connect() as connection:
        kept = connection.execute(text("SELECT session FROM ended_sessions ORDER BY session")).scalars().all()
    assert kept == ["b", "c"]
    store.close()


def make_earlier_store(url: str, version: str, reports: list[Report]) -> None:
    """Make a database as the collector of an earlier version left it."""
    engine = make_engine(parse_url(url), writes=True)
    rows = [{"campaign": r.campaign, "node": r.node, "content": r.to_json(), "hour": 7200} for r in reports]
    with writing(engine) as connection:
        upgrade(connection, version)
        connection.execute(text("INSERT INTO reports VALUES (:campaign, :node, :content, :hour)"), rows)
        connection.execute(text("INSERT INTO refusals VALUES ('c', 'closed', 3)"))
    engine.dispose()


@pytest.mark.parametrize("version", ["0001", "0002"])
def test_reports_of_earlier_versions_can_be_read_without_migrating(store_url: str, version: str) -> None:
    reports = [COLLECTION.report(f"n{i}") for i in range(5)]
    make_earlier_store(store_url, version, reports)
    reader = ReportStore.open(store_url, create=False, page_size=2)
    assert list(reader.iterate(COLLECTION.campaign)) == reports
    assert reader.count(COLLECTION.campaign.id) == 5
    assert reader.withdrawals(COLLECTION.campaign.id) == 0
    assert reader.purged(COLLECTION.campaign.id) is None
    reader.close()
    with pytest.raises(StoreError, match="earlier version: run 'veilgraph serve'"):
        ReportStore.administer(store_url)


@pytest.mark.parametrize("version", ["0001", "0002"])
def test_a_database_of_an_earlier_version_keeps_every_report_with_its_hour(store_url: str, version: str) -> None:
    reports = [COLLECTION.report(f"n{i}") for i in range(5)]
    make_earlier_store(store_url, version, reports)
    store = ReportStore.open(store_url)
    assert list(store.iterate(COLLECTION.campaign)) == list(store.iterate(COLLECTION.campaign, wave=0)) == reports
    assert store.by_hour(COLLECTION.campaign.id) == [(7200, 5)]
    assert store.put([reports[0], COLLECTION.report("n1", label=0)], now=1e9) == [(SAME, 7200), (CONFLICT, 7200)]
    assert store.refusals("c") == {"closed": 3}
    assert not store.has_ended("a")
    assert store.withdraw(COLLECTION.campaign.id, "n2", now=0).is_new
    assert store.count(COLLECTION.campaign.id) == 4
    store.close()


@pytest.mark.parametrize("campaigns", [["a"], ["a", "b"]])
def test_an_audit_log_of_version_0003_goes_on_unless_it_names_several_campaigns(
    store_url: str, campaigns: list[str]
) -> None:
    engine = make_engine(parse_url(store_url), writes=True)
    log: list[Entry] = []
    for campaign in [*campaigns, "a"]:
        last = log[-1] if log else None
        log.append(Entry.after(last, hour=0, actor="owner", action="export", detail={"campaign": campaign}))
    withdrawn = {"campaign": COLLECTION.campaign.id, "node": "n1", "hour": 0}
    waves = [replace(COLLECTION.report("n2"), wave=wave) for wave in (1, 2, 3)]
    with writing(engine) as connection:
        upgrade(connection, "0003")
        entries = text("INSERT INTO audit_log VALUES (:sequence, :hour, :actor, :action, :detail, :previous, :hash)")
        connection.execute(entries, [vars(entry) for entry in log])
        connection.execute(text("INSERT INTO withdrawals VALUES (:campaign, :node, :hour)"), withdrawn)
        rows = [{"campaign": r.campaign, "wave": r.wave, "content": r.to_json()} for r in waves]
        connection.execute(text("INSERT INTO reports VALUES (:campaign, 'n2', :wave, :content, 0)"), rows)
    engine.dispose()
    reader = ReportStore.open(store_url, create=False, page_size=2)
    assert [reader.withdrawals(COLLECTION.campaign.id), reader.count(COLLECTION.campaign.id)] == [1, 3]
    reader.close()
    store = ReportStore.open(store_url)
    assert store.audit_logs() == {"a" if campaigns == ["a"] else "": log}
    store.record("export", {"campaign": "a"}, now=0, actor="owner")
    assert check_all(store.audit_logs(), heads=[log[-1].hash])
    assert store.audit_log("a")[-1].sequence == (3 if campaigns == ["a"] else 1)
    store.close()


def test_the_migrations_lead_to_the_tables_that_the_code_uses(store_url: str) -> None:
    ReportStore.open(store_url).close()
    store = ReportStore.open(store_url)  # again: nothing is left to do
    inspector = inspect(store.engine)
    for name, table in metadata.tables.items():
        assert [c["name"] for c in inspector.get_columns(name)] == [c.name for c in table.columns]
        assert inspector.get_pk_constraint(name)["constrained_columns"] == [c.name for c in table.primary_key]
    store.close()


def test_the_files_of_the_migrations_name_the_versions_they_lead_to() -> None:
    scripts = ScriptDirectory(str(resources.files("veilgraph.collector") / "migrations"))
    assert known_versions() == sorted(script.revision for script in scripts.walk_revisions())


def test_a_database_of_a_newer_version_is_refused(store_url: str) -> None:
    store = ReportStore.open(store_url)
    with store.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    store.close()
    for create in (True, False):
        with pytest.raises(StoreError, match=r"9999.*upgrade veilgraph"):
            ReportStore.open(store_url, create=create)


def test_a_reader_does_not_create_a_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"new\.db does not exist"):
        ReportStore.open(f"sqlite:///{tmp_path}/new.db", create=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("create", [True, False])
def test_a_store_that_cannot_be_opened_is_one_sentence_with_a_remedy(tmp_path: Path, create: bool) -> None:
    text_file = tmp_path / "people.csv"
    text_file.write_text("id,country\n" * 100, encoding="utf-8")
    with pytest.raises(StoreError, match="the store is no database: give the file"):
        ReportStore.open(f"sqlite:///{text_file}", create=create)
    with pytest.raises(StoreUnavailableError, match="does not answer: check its address and its name") as refusal:
        ReportStore.open("postgresql://someone:secret@127.0.0.1:1/none", create=create)
    assert "secret" not in str(refusal.value)


def test_a_reader_changes_no_database_of_another_program(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE songs (title TEXT)")
    connection.close()
    before = other.read_bytes()
    with pytest.raises(StoreError, match="no reports of this version"):
        ReportStore.open(f"sqlite:///{other}", create=False)
    assert other.read_bytes() == before
    assert list(tmp_path.iterdir()) == [other]


@pytest.mark.parametrize(
    "url", ["", "reports.db", "sqlite://", "sqlite:///:memory:", "mysql://u:secret@h/d", "sqlite:"]
)
def test_an_unusable_store_url_is_refused_without_quoting_it(url: str) -> None:
    with pytest.raises(StoreError) as caught:
        ReportStore.open(url)
    assert "secret" not in str(caught.value)


def test_an_absent_database_is_unavailable() -> None:
    with pytest.raises(StoreUnavailableError):
        ReportStore.open("postgresql://nobody:secret@127.0.0.1:1/nowhere")


def test_sqlite_writes_ahead_and_waits_for_the_disk(tmp_path: Path) -> None:
    store = ReportStore.open(f"sqlite:///{tmp_path}/reports.db")
    with store.engine.connect() as connection:
        assert connection.execute(text("PRAGMA journal_mode")).scalar_one() == "wal"
        assert connection.execute(text("PRAGMA synchronous")).scalar_one() == 2  # FULL
    store.close()


@pytest.mark.slow
def test_postgresql_commits_synchronously_whatever_its_default_is(postgres: object) -> None:
    url: str = postgres.new_database("asynchronous")  # type: ignore[attr-defined]
    admin = create_engine(url.replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text("ALTER DATABASE asynchronous SET synchronous_commit = off"))
    admin.dispose()
    store = ReportStore.open(url)
    with store.engine.connect() as connection:
        assert connection.execute(text("SHOW synchronous_commit")).scalar_one() == "on"
    store.close()


@pytest.mark.slow
def test_a_database_that_cannot_hold_every_name_is_refused_at_start(postgres: Postgres) -> None:
    for encoding in ("LATIN1", "SQL_ASCII"):
        url = postgres.new_database(f"not_unicode_{encoding}", encoding=encoding)
        with pytest.raises(StoreError, match=f"encoding {encoding}.*ENCODING 'UTF8'"):
            ReportStore.open(url)


@pytest.mark.slow
def test_every_name_that_a_node_can_have_is_stored(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "latin1")
    store = ReportStore.open(postgres.new_database("names"))
    reports = [
        COLLECTION.report(node) for node in ("\N{CJK UNIFIED IDEOGRAPH-4E2D}", "\N{GRINNING FACE}" * 256, "\ufffe")
    ]
    assert outcomes(store.put(reports, now=0)) == [STORED] * 3
    assert {report.node for report in store.iterate(COLLECTION.campaign)} == {report.node for report in reports}
    store.close()


def test_a_full_disk_is_refused_and_nothing_is_stored(tmp_path: Path) -> None:
    store = ReportStore.open(f"sqlite:///{tmp_path}/reports.db")
    with store.engine.connect() as connection:  # the pool has one connection in use at a time
        pages = connection.execute(text("PRAGMA page_count")).scalar_one()
        connection.execute(text(f"PRAGMA max_page_count = {pages + 2}"))
    many = Collection.ring(2000)
    reports = [many.report(f"n{i}") for i in range(2000)]
    with pytest.raises(StoreFullError, match="nothing was stored"):
        store.put(reports, now=0)
    assert store.count(many.campaign.id) == 0
    assert outcomes(store.put(reports[:1], now=0)) == [STORED]
    store.close()


def test_a_probe_is_written_by_two_at_once_and_leaves_nothing(store_url: str) -> None:
    stores = [ReportStore.open(store_url) for _ in range(2)]
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda store: [store.check_writes() for _ in range(5)], stores))
    for store in stores:
        assert store.count("") == 0
        store.close()


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "reports.db").write_bytes(b"not a database at all" * 100)
    with pytest.raises(StoreError):
        ReportStore.open(f"sqlite:///{tmp_path}/reports.db")


def test_a_report_that_someone_altered_in_the_database_is_noticed(tmp_path: Path) -> None:
    store = ReportStore.open(f"sqlite:///{tmp_path}/reports.db")
    store.put([COLLECTION.report("n1")], now=0)
    with sqlite3.connect(tmp_path / "reports.db") as connection:
        connection.execute("UPDATE reports SET content = replace(content, '\"label\":1', '\"label\":7')")
    connection.close()
    with pytest.raises(ValueError, match="label"):
        list(store.iterate(COLLECTION.campaign))
    store.close()
