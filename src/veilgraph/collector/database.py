"""The collector's database: tables, connections, migrations, and errors without their messages.

The tables are those that the newest migration leaves.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    MetaData,
    Table,
    Text,
    create_engine,
    event,
    inspect,
    text,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, OperationalError, SQLAlchemyError

from veilgraph.atomic_files import make_private_file
from veilgraph.collector.secret_files import warn_of_readers
from veilgraph.errors import MissingExtraError, StoreError, StoreFullError, StoreUnavailableError

HOUR = 3600
_TIMEOUT_SECONDS = 5
_CHECKPOINT_MILLISECONDS = 200
_BACKENDS = ("sqlite", "postgresql")
# Key of the advisory lock: collectors that start at the same time migrate one after the other.
_MIGRATION_LOCK = 7_239_114_001

metadata = MetaData()

reports = Table(
    "reports",
    metadata,
    Column("campaign", Text, primary_key=True),
    Column("node", Text, primary_key=True),
    # Number of the wave, from 1; 0 where the campaign has no waves.
    Column("wave", BigInteger, primary_key=True),
    # Canonical JSON of the report: two reports are equal if these texts are.
    Column("content", Text, nullable=False),
    # Unix time of the hour of arrival. A more precise time is not needed, so it is not kept.
    Column("hour", BigInteger, nullable=False),
)

withdrawals = Table(
    "withdrawals",
    metadata,
    # A tombstone: the node's reports are deleted, and none is stored again.
    Column("campaign", Text, primary_key=True),
    Column("node", Text, primary_key=True),
    Column("hour", BigInteger, nullable=False),
)

campaigns = Table(
    "campaigns",
    metadata,
    Column("id", Text, primary_key=True),
    # The newest document that a collector served.
    Column("document", Text, nullable=False),
    # Unix time of the hour from which the campaign's reports are deleted, and none is stored again.
    Column("purged", BigInteger),
    # Number of withdrawals whose tombstones were deleted with the reports.
    Column("withdrawals", BigInteger, nullable=False),
)

audit_log = Table(
    "audit_log",
    metadata,
    # Empty for a log of earlier versions that names several campaigns.
    Column("campaign", Text, primary_key=True),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("hour", BigInteger, nullable=False),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("previous", Text, nullable=False),
    Column("hash", Text, nullable=False),
)

refusals = Table(
    "refusals",
    metadata,
    Column("campaign", Text, primary_key=True),
    Column("reason", Text, primary_key=True),
    Column("count", BigInteger, nullable=False),
)

ended_sessions = Table(
    "ended_sessions",
    metadata,
    # Random id of a dashboard session, without the signature that would open the dashboard.
    Column("session", Text, primary_key=True),
    # Unix time after which the session would be refused anyway.
    Column("expires", BigInteger, nullable=False),
)


def hour_of(now: float) -> int:
    """Return the Unix time of the beginning of the hour.

    >>> hour_of(7201.5)
    7200
    """
    return int(now // HOUR) * HOUR


# --- Connections -----------------------------------------------------------------------------------------------------


def parse_url(url: str) -> URL:
    """Return the address of a database that can be used; the refusal does not quote it."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        parsed = URL.create("unknown")
    backend = parsed.get_backend_name()
    if backend not in _BACKENDS:
        # The message does not quote the URL, which can hold a password.
        raise StoreError("the store must be 'sqlite:///FILE' or 'postgresql://USER:PASSWORD@HOST/DATABASE'")
    if backend == "sqlite" and (parsed.database in (None, "", ":memory:") or "uri" in parsed.query):
        raise StoreError("a store in memory loses every report: give a file, 'sqlite:///reports.db'")
    return parsed.set(drivername="postgresql+psycopg") if backend == "postgresql" else parsed


def check_exists(url: URL) -> None:
    """Refuse a SQLite file that does not exist, because opening it would create it."""
    if url.get_backend_name() == "sqlite" and not Path(str(url.database)).is_file():
        raise StoreError(f"the store {url.database} does not exist: give the file of --store of 'veilgraph serve'")


def make_private_database(url: URL) -> None:
    """Make the file of SQLite for its owner alone; its write-ahead log gets the same mode. Keep one that exists.

    If it cannot be made, connecting says so.
    """
    if url.get_backend_name() == "sqlite":
        path = Path(str(url.database))
        with suppress(OSError):
            make_private_file(path)
        warn_of_readers(path)


def make_engine(url: URL, *, writes: bool) -> Engine:
    """Make an engine, which connects when it is first used.

    Args:
        url: the result of `parse_url`.
        writes: whether the connections may change the database.
    """
    # The parameters of statements are reports, which error messages must not show.
    options: dict[str, Any] = {"hide_parameters": True}
    if url.get_backend_name() == "sqlite":
        engine = create_engine(url, connect_args={"timeout": _TIMEOUT_SECONDS, "isolation_level": None}, **options)
        if writes:  # the journal mode is kept in the file, and a reader changes nothing
            event.listen(engine, "connect", _configure_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    try:
        return create_engine(
            url,
            # Replace connections that a restarted database dropped before using them.
            pool_pre_ping=True,
            connect_args={
                "connect_timeout": _TIMEOUT_SECONDS,
                # Whatever PGCLIENTENCODING says.
                "client_encoding": "utf8",
                # Notice a database that disappeared within seconds, not when the kernel gives up.
                "keepalives_idle": _TIMEOUT_SECONDS,
                "tcp_user_timeout": 1000 * _TIMEOUT_SECONDS,
                "options": f"-c synchronous_commit=on -c statement_timeout={_TIMEOUT_SECONDS}s",
            },
            **options,
        )
    except (ImportError, NoSuchModuleError):
        raise MissingExtraError("psycopg", "collector") from None


def _configure_sqlite(connection: Any, _: object) -> None:
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    # Overwrite what is deleted with zeros, also where a page of the file is divided.
    connection.execute("PRAGMA secure_delete=ON")


def _begin_sqlite(connection: Connection) -> None:
    """Begin a transaction; a writer takes its lock at once, because SQLite cannot wait for a lock taken later."""
    writes = connection.get_execution_options().get("veilgraph_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """Open a transaction that writes, and commit it at the end."""
    with engine.connect().execution_options(veilgraph_writes=True) as connection, connection.begin():
        yield connection


def empty_journal(engine: Engine) -> None:
    """Remove what was deleted from SQLite's write-ahead log, unless someone else reads it at the moment.

    It must not fail, because the deletion is committed, and waits for a short time only, because writers wait for it.
    """
    if engine.dialect.name != "sqlite":
        return
    with translate_errors(), engine.connect() as connection:
        driver: Any = connection.connection.driver_connection
        driver.execute(f"PRAGMA busy_timeout = {_CHECKPOINT_MILLISECONDS}").close()
        with suppress(sqlite3.Error):
            driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").close()
        driver.execute(f"PRAGMA busy_timeout = {1000 * _TIMEOUT_SECONDS}").close()


def check_server(connection: Connection) -> None:
    """Refuse a PostgreSQL that could lose acknowledged reports, or cannot hold the name of every node."""
    if connection.dialect.name != "postgresql":
        return
    if connection.execute(text("SHOW fsync")).scalar_one() != "on":
        raise StoreError("PostgreSQL runs with fsync = off: it could lose acknowledged reports; switch it on")
    if (encoding := connection.execute(text("SHOW server_encoding")).scalar_one()) != "UTF8":
        raise StoreError(
            f"the database's encoding {encoding} cannot hold every node's name: create it with ENCODING 'UTF8'"
        )


# --- Migrations ------------------------------------------------------------------------------------------------------


def migrate(connection: Connection) -> None:
    """Run the pending migrations in the connection's transaction."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATION_LOCK})
    if is_current(connection):
        return
    if connection.dialect.name == "postgresql":
        # A table of many reports takes longer than a statement may otherwise.
        connection.execute(text("SET LOCAL statement_timeout = 0"))
    upgrade(connection, "head")


def upgrade(connection: Connection, version: str) -> None:
    """Run the migrations up to a version, or to `head`."""
    from alembic import command  # slow to import, and needed here only
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_migrations()))
    config.attributes["connection"] = connection
    command.upgrade(config, version)


def is_current(connection: Connection) -> bool:
    """Return whether no migration is pending; refuse a database of a newer version."""
    return version_of(connection) == newest_version()


@cache
def newest_version() -> str:
    """Return the version of the tables that this program writes."""
    return max(known_versions())


def known_versions() -> list[str]:
    """Return the versions of the tables that there are migrations to: their files are vVERSION_TITLE.py.

    >>> known_versions()[0]
    '0001'
    """
    files = (path.name for path in (_migrations() / "versions").iterdir())
    return sorted(name[1:].partition("_")[0] for name in files if name.startswith("v"))


def version_of(connection: Connection) -> str | None:
    """Return the version of a database's tables, None if it has none; refuse a newer version."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    current = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    if current is not None and current not in (known := known_versions()):
        raise StoreError(
            f"the database has version {current}, this program knows version {max(known)} and older: upgrade veilgraph"
        )
    return current


def _migrations() -> Traversable:
    return resources.files("veilgraph.collector") / "migrations"


# --- Errors ----------------------------------------------------------------------------------------------------------


@contextmanager
def translate_errors() -> Iterator[None]:
    """Translate errors of the database, without their message, which can quote a report."""
    try:
        yield
    except DBAPIError as error:
        if _is_full(error):
            raise StoreFullError("the store is full: nothing was stored; make room and send again") from None
        if isinstance(error, OperationalError) or error.connection_invalidated:
            raise StoreUnavailableError(
                "the store does not answer: the report may be stored or not; send it again later"
            ) from None
        if getattr(error.orig, "sqlite_errorname", None) == "SQLITE_NOTADB":
            raise StoreError("the store is no database: give the file of --store of 'veilgraph serve'") from None
        raise StoreError(f"the database reports an error: {type(error.orig).__name__}") from None
    except SQLAlchemyError as error:
        raise StoreUnavailableError(f"the store cannot be used now: {type(error).__name__}") from None


def _is_full(error: DBAPIError) -> bool:
    code = getattr(error.orig, "sqlite_errorname", None) or getattr(error.orig, "sqlstate", None)
    return code in ("SQLITE_FULL", "53100")
