"""What is acknowledged is on disk, and what cannot be opened is refused in one sentence."""

from __future__ import annotations

import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from tests.support.services import Postgres
from veilgraph.collector.store import ReportStore
from veilgraph.errors import StoreError, StoreUnavailableError


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


def test_sqlite_writes_ahead_and_waits_for_the_disk(tmp_path: Path) -> None:
    store = ReportStore.open(f"sqlite:///{tmp_path}/reports.db")
    with store.database.engine.connect() as connection:
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
    with store.database.engine.connect() as connection:
        assert connection.execute(text("SHOW synchronous_commit")).scalar_one() == "on"
    store.close()


@pytest.mark.slow
def test_a_database_that_cannot_hold_every_name_is_refused_at_start(postgres: Postgres) -> None:
    for encoding in ("LATIN1", "SQL_ASCII"):
        url = postgres.new_database(f"not_unicode_{encoding}", encoding=encoding)
        with pytest.raises(StoreError, match=f"encoding {encoding}.*ENCODING 'UTF8'"):
            ReportStore.open(url)


def test_a_probe_is_written_by_two_at_once_and_leaves_nothing(store_url: str) -> None:
    stores = [ReportStore.open(store_url) for _ in range(2)]
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda store: [store.database.check_writes() for _ in range(5)], stores))
    for store in stores:
        assert store.reports.count("") == 0
        store.close()


@pytest.mark.slow
def test_a_postgresql_that_does_not_wait_for_the_disk_is_refused(postgres: Postgres) -> None:
    """It would lose reports that it has acknowledged, whatever it says of its commits."""
    url = postgres.new_database("no_fsync")
    admin = create_engine(postgres.url.replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT")

    def set_fsync(value: str) -> None:
        with admin.connect() as connection:
            connection.execute(text(f"ALTER SYSTEM SET fsync = {value}"))
            connection.execute(text("SELECT pg_reload_conf()"))
        for _ in range(500):  # the server reads its settings a moment later
            with admin.connect() as connection:
                if connection.execute(text("SHOW fsync")).scalar_one() == value:
                    return
            time.sleep(0.01)

    try:
        set_fsync("off")
        with pytest.raises(StoreError, match="runs with fsync = off: it could lose acknowledged reports"):
            ReportStore.open(url)
    finally:
        set_fsync("on")
        admin.dispose()
    ReportStore.open(url).close()
