"""The collector's database: SQLite or PostgreSQL, whose transactions and errors quote no report."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from sqlalchemy import Connection, Engine, Table, create_engine, delete, event, inspect, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, OperationalError, SQLAlchemyError

from veilgraph.atomic_files import make_private_file
from veilgraph.collector.secret_files import warn_of_readers
from veilgraph.collector.table_versions import check_current, migrate, newest_version
from veilgraph.collector.tables import reports
from veilgraph.errors import MissingExtraError, StoreError, StoreFullError, StoreUnavailableError

_TIMEOUT_SECONDS = 5
_CHECKPOINT_MILLISECONDS = 200
_BACKENDS = ("sqlite", "postgresql")
_INSERT = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
_PROBE_BYTES = 16 * 1024


class Database:
    """A database with the tables of this version.

    A transaction is on disk when it ends: SQLite uses a write-ahead log with synchronous=FULL, PostgreSQL commits
    synchronously.

    Args:
        engine: connections, as `open` makes them.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @classmethod
    def open(cls, url: str, *, creates: bool, writes: bool) -> Self:
        """Open the database at `url`.

        Args:
            url: `sqlite:///reports.db`, or `postgresql://user:password@host/database`.
            creates: whether to create or migrate the tables; otherwise they must be those of this version.
            writes: whether the connections may change the database.
        """
        parsed = parse_url(url)
        if creates:
            _make_private(parsed)
        else:
            _check_exists(parsed)
        opened = cls(_make_engine(parsed, writes=writes))
        try:
            with opened.writing() if creates else opened.reading() as connection:
                if creates:
                    _check_server(connection)
                    migrate(connection)
                else:
                    check_current(connection)
        except StoreError as error:
            opened.close()
            if isinstance(error, StoreUnavailableError):
                raise StoreUnavailableError(
                    "the store does not answer: check its address and its name, and that it runs"
                ) from None
            raise
        return opened

    @classmethod
    def connect(cls, url: str) -> Self:
        """Open the database at `url`, which exists, without a look at its tables."""
        parsed = parse_url(url)
        _check_exists(parsed)
        return cls(_make_engine(parsed, writes=False))

    @property
    def has_tables(self) -> bool:
        """Whether the database has any table."""
        with self.reading() as connection:
            return bool(inspect(connection).get_table_names())

    @property
    def engine(self) -> Engine:
        """The connections."""
        return self._engine

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a transaction that reads."""
        with _translated_errors(), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open a transaction that writes, and commit it at the end."""
        connecting = self._engine.connect
        with _translated_errors(), connecting().execution_options(veilgraph_writes=True) as made, made.begin():
            yield made

    def insert(self, table: Table) -> Any:
        """Return an INSERT statement, which says in the database's dialect what happens on a conflict."""
        return _INSERT[self._engine.dialect.name](table)

    def empty_journal(self) -> None:
        """Remove what was deleted from SQLite's write-ahead log, unless someone else reads it at the moment.

        It must not fail, because the deletion is committed, and waits for a short time only, because writers wait for
        it.
        """
        if self._engine.dialect.name != "sqlite":
            return
        with self.reading() as connection:
            driver: Any = connection.connection.driver_connection
            driver.execute(f"PRAGMA busy_timeout = {_CHECKPOINT_MILLISECONDS}").close()
            with suppress(sqlite3.Error):
                driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").close()
            driver.execute(f"PRAGMA busy_timeout = {1000 * _TIMEOUT_SECONDS}").close()

    def check(self) -> None:
        """Raise an error unless the database answers, and its tables are those of this version."""
        with self.reading() as connection:
            version = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
        if version != newest_version():
            raise StoreError(
                f"the tables have version {version}, and the collector needs {newest_version()}: restart it"
            )

    def check_writes(self) -> None:
        """Raise an error unless the database takes a write.

        The write is a row of several pages, which the same transaction deletes: nobody else ever sees it.
        """
        row = {"campaign": "", "node": "", "wave": 0, "content": secrets.token_hex(_PROBE_BYTES), "hour": 0}
        with self.writing() as connection:
            connection.execute(self.insert(reports), row)
            connection.execute(delete(reports).where(reports.c.campaign == ""))

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()


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


def _check_exists(url: URL) -> None:
    """Refuse a SQLite file that does not exist, because opening it would create it."""
    if url.get_backend_name() == "sqlite" and not Path(str(url.database)).is_file():
        raise StoreError(f"the store {url.database} does not exist: give the file that 'veilgraph serve' writes")


def _make_private(url: URL) -> None:
    """Make the file of SQLite for its owner alone; its write-ahead log gets the same mode. Keep one that exists.

    If it cannot be made, connecting says so.
    """
    if url.get_backend_name() == "sqlite":
        path = Path(str(url.database))
        with suppress(OSError):
            make_private_file(path)
        warn_of_readers(path)


def _make_engine(url: URL, *, writes: bool) -> Engine:
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


def _check_server(connection: Connection) -> None:
    """Refuse a PostgreSQL that could lose acknowledged reports, or cannot hold the name of every node."""
    if connection.dialect.name != "postgresql":
        return
    if connection.execute(text("SHOW fsync")).scalar_one() != "on":
        raise StoreError("PostgreSQL runs with fsync = off: it could lose acknowledged reports; switch it on")
    if (encoding := connection.execute(text("SHOW server_encoding")).scalar_one()) != "UTF8":
        raise StoreError(
            f"the database's encoding {encoding} cannot hold every node's name: create it with ENCODING 'UTF8'"
        )


@contextmanager
def _translated_errors() -> Iterator[None]:
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
            raise StoreError("the store is no database: give the file that 'veilgraph serve' writes") from None
        raise StoreError(f"the database reports an error: {type(error.orig).__name__}") from None
    except SQLAlchemyError as error:
        raise StoreUnavailableError(f"the store cannot be used now: {type(error).__name__}") from None


def _is_full(error: DBAPIError) -> bool:
    code = getattr(error.orig, "sqlite_errorname", None) or getattr(error.orig, "sqlstate", None)
    return code in ("SQLITE_FULL", "53100")
