"""Store of reports in a SQL database: each node's first report counts, and is on disk before it is acknowledged.

The tables are those that the newest migration leaves.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, NamedTuple, Self

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    MetaData,
    Table,
    Text,
    create_engine,
    delete,
    event,
    func,
    inspect,
    select,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, OperationalError, SQLAlchemyError

from veilgraph.campaign import Campaign
from veilgraph.campaign.report import Report
from veilgraph.errors import MissingExtraError, StoreError, StoreFullError, StoreUnavailableError

_HOUR = 3600
_TIMEOUT_SECONDS = 5
# Four array parameters instead of four for each row, which would take PostgreSQL's driver far longer.
_INSERT_ARRAYS = text(
    "INSERT INTO reports (campaign, node, content, hour) SELECT * FROM unnest("
    "CAST(:campaign AS text[]), CAST(:node AS text[]), CAST(:content AS text[]), CAST(:hour AS bigint[])"
    ") ON CONFLICT DO NOTHING RETURNING campaign, node"
)
_INSERT = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
# Key of the advisory lock: collectors that start at the same time migrate one after the other.
_MIGRATION_LOCK = 7_239_114_001

metadata = MetaData()

reports = Table(
    "reports",
    metadata,
    Column("campaign", Text, primary_key=True),
    Column("node", Text, primary_key=True),
    # Canonical JSON of the report: two reports are equal if these texts are.
    Column("content", Text, nullable=False),
    # Unix time of the hour of arrival. A more precise time is not needed, so it is not kept.
    Column("hour", BigInteger, nullable=False),
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


class Outcome(Enum):
    """Outcome of writing a report: stored now, stored before, or in conflict with the stored one."""

    STORED = "stored"
    SAME = "same"
    CONFLICT = "conflict"


class PutResult(NamedTuple):
    """Outcome of writing a report, and when the node's report that counts was stored.

    Attributes:
        outcome: what became of the submitted report.
        hour: Unix time of the hour in which the report that counts was stored, now or before.
    """

    outcome: Outcome
    hour: int


class ReportStore:
    """One report for each node and campaign, in SQLite or PostgreSQL.

    An outcome is returned after the transaction is on disk: SQLite uses a write-ahead log with synchronous=FULL,
    PostgreSQL commits synchronously. Writing is idempotent, so a report may be sent again after any error.

    Args:
        engine: a database that `open` prepared.
        page_size: number of reports that one query reads.
    """

    def __init__(self, engine: Engine, *, page_size: int = 2000) -> None:
        self._engine, self._page_size = engine, page_size
        self._insert: Any = _INSERT[engine.dialect.name]

    @classmethod
    def open(cls, url: str, *, create: bool = True, page_size: int = 2000) -> Self:
        """Open the database at `url` and migrate its tables to this version.

        Args:
            url: `sqlite:///reports.db`, or `postgresql://user:password@host/database`.
            create: whether to create or migrate the tables; readers pass False and need a complete store.
            page_size: number of reports that one query reads.
        """
        parsed = _parse_url(url)
        if not create:
            _check_exists(parsed)
        store = cls(_make_engine(parsed, creates=create), page_size=page_size)
        try:
            with _translate_errors():
                store._prepare(create)
        except StoreUnavailableError:
            store.close()
            raise StoreUnavailableError(
                "the store does not answer: check its address and its name, and that it runs"
            ) from None
        except StoreError:
            store.close()
            raise
        return store

    def _prepare(self, create: bool) -> None:
        if create:
            with self._writing() as connection:
                _check_server(connection)
                migrate(connection)
            return
        with self._engine.connect() as connection:
            if not holds_reports(connection):
                raise StoreError("the database holds no reports of this version; run 'veilgraph serve' on it")

    @property
    def engine(self) -> Engine:
        """The database."""
        return self._engine

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()

    def put(self, submitted: Sequence[Report], *, now: float) -> list[PutResult]:
        """Store the reports of nodes that have none, in one transaction.

        Args:
            submitted: valid reports.
            now: Unix time; only its hour is kept.

        Returns:
            The outcome of each report and its hour, in order.
        """
        contents = [((report.campaign, report.node), report.to_json()) for report in submitted]
        first = dict(reversed(contents))
        hour = int(now // _HOUR) * _HOUR
        # Sorted, so that two collectors on one database cannot deadlock.
        rows = [
            {"campaign": campaign, "node": node, "content": content, "hour": hour}
            for (campaign, node), content in sorted(first.items())
        ]
        with _translate_errors(), self._writing() as connection:
            fresh = self._insert_missing(connection, rows)
            before = self._stored(connection, [key for key in first if key not in fresh])
        results = []
        for key, content in contents:
            standing, stored_hour = before.get(key, (first[key], hour))
            agrees = Outcome.SAME if content == standing else Outcome.CONFLICT
            results.append(PutResult(Outcome.STORED if key in fresh else agrees, stored_hour))
            fresh.discard(key)  # of several reports of a node, only the first was stored
        return results

    def _insert_missing(self, connection: Connection, rows: list[dict[str, Any]]) -> set[tuple[str, str]]:
        if not rows:
            return set()
        if connection.dialect.name == "postgresql":
            columns = {name: [row[name] for row in rows] for name in rows[0]}
            inserted = connection.execute(_INSERT_ARRAYS, columns)
        else:
            statement = self._insert(reports).on_conflict_do_nothing().returning(reports.c.campaign, reports.c.node)
            inserted = connection.execute(statement, rows)
        return {(campaign, node) for campaign, node in inserted}

    def _stored(
        self, connection: Connection, keys: Sequence[tuple[str, str]]
    ) -> dict[tuple[str, str], tuple[str, int]]:
        """Return the content and the hour of stored reports, by campaign and node."""
        found: dict[tuple[str, str], tuple[str, int]] = {}
        for campaign in {campaign for campaign, _ in keys}:
            nodes = [node for c, node in keys if c == campaign]
            for start in range(0, len(nodes), self._page_size):
                query = select(reports.c.node, reports.c.content, reports.c.hour).where(
                    reports.c.campaign == campaign, reports.c.node.in_(nodes[start : start + self._page_size])
                )
                rows = connection.execute(query)
                found.update({(campaign, node): (content, hour) for node, content, hour in rows})
        return found

    def count(self, campaign_id: str) -> int:
        """Return the number of nodes that reported."""
        query = select(func.count()).select_from(reports).where(reports.c.campaign == campaign_id)
        with _translate_errors(), self._engine.connect() as connection:
            return int(connection.execute(query).scalar_one())

    def by_hour(self, campaign_id: str) -> list[tuple[int, int]]:
        """Return the Unix time of each hour with reports, and their number; earliest first."""
        query = (
            select(reports.c.hour, func.count())
            .where(reports.c.campaign == campaign_id)
            .group_by(reports.c.hour)
            .order_by(reports.c.hour)
        )
        with _translate_errors(), self._engine.connect() as connection:
            return [(hour, count) for hour, count in connection.execute(query)]

    def iterate(self, campaign: Campaign) -> Iterator[Report]:
        """Iterate over all reports of a campaign by node, validated again; one page is in memory at a time."""
        last = ""
        query = select(reports.c.node, reports.c.content).where(reports.c.campaign == campaign.id)
        query = query.order_by(reports.c.node).limit(self._page_size)
        while True:
            with _translate_errors(), self._engine.connect() as connection:
                page = connection.execute(query.where(reports.c.node > last)).all()
            if not page:
                return
            for _, content in page:
                yield Report.parse(json.loads(content), campaign)
            last = page[-1][0]

    def add_refusals(self, campaign_id: str, counts: Mapping[str, int]) -> None:
        """Add to the counts of refusals, by the value of their reason; nothing else of a request is kept."""
        if not counts:
            return
        insert = self._insert(refusals)
        statement = insert.on_conflict_do_update(
            index_elements=[refusals.c.campaign, refusals.c.reason],
            set_={"count": refusals.c.count + insert.excluded.count},
        )
        rows = [{"campaign": campaign_id, "reason": reason, "count": n} for reason, n in sorted(counts.items())]
        with _translate_errors(), self._writing() as connection:
            connection.execute(statement, rows)

    def refusals(self, campaign_id: str) -> dict[str, int]:
        """Return the number of refusals by reason."""
        query = select(refusals.c.reason, refusals.c.count).where(refusals.c.campaign == campaign_id)
        with _translate_errors(), self._engine.connect() as connection:
            return {reason: int(count) for reason, count in connection.execute(query.order_by(refusals.c.reason))}

    def end_session(self, session: str, *, expires: float, now: float) -> None:
        """Remember that a dashboard session ended, until the Unix time when it would expire anyway."""
        statement = self._insert(ended_sessions).on_conflict_do_nothing()
        with _translate_errors(), self._writing() as connection:
            connection.execute(delete(ended_sessions).where(ended_sessions.c.expires < int(now)))
            connection.execute(statement, [{"session": session, "expires": int(expires) + 1}])

    def has_ended(self, session: str) -> bool:
        """Return whether a dashboard session was ended, by any collector on this database."""
        query = select(ended_sessions.c.session).where(ended_sessions.c.session == session)
        with _translate_errors(), self._engine.connect() as connection:
            return connection.execute(query).first() is not None

    def check(self) -> None:
        """Raise an error unless the database answers."""
        with _translate_errors(), self._engine.connect() as connection:
            connection.execute(text("SELECT 1"))

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._engine.connect().execution_options(veilgraph_writes=True) as connection, connection.begin():
            yield connection


def migrate(connection: Connection) -> None:
    """Run the pending migrations in the connection's transaction."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATION_LOCK})
    if is_current(connection):
        return
    from alembic import command  # slow to import, and needed here only
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_migrations()))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def is_current(connection: Connection) -> bool:
    """Return whether no migration is pending; refuse a database of a newer version."""
    return _version(connection) == max(known_versions())


def holds_reports(connection: Connection) -> bool:
    """Return whether this version can read the reports; refuse a database of a newer version.

    No migration has changed the table of reports since the first version.
    """
    return _version(connection) is not None


def known_versions() -> list[str]:
    """Return the versions of the tables that there are migrations to: their files are vVERSION_TITLE.py.

    >>> known_versions()[0]
    '0001'
    """
    files = (path.name for path in (_migrations() / "versions").iterdir())
    return sorted(name[1:].partition("_")[0] for name in files if name.startswith("v"))


def _migrations() -> Traversable:
    return resources.files("veilgraph.collector") / "migrations"


def _version(connection: Connection) -> str | None:
    """Return the version of a database's tables, None if it has none; refuse a newer version."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    current = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    if current is not None and current not in (known := known_versions()):
        raise StoreError(
            f"the database has version {current}, this program knows version {max(known)} and older: upgrade veilgraph"
        )
    return current


def _parse_url(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError:
        parsed = URL.create("unknown")
    backend = parsed.get_backend_name()
    if backend not in _INSERT:
        # The message does not quote the URL, which can hold a password.
        raise StoreError("the store must be 'sqlite:///FILE' or 'postgresql://USER:PASSWORD@HOST/DATABASE'")
    if backend == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise StoreError("a store in memory loses every report: give a file, 'sqlite:///reports.db'")
    return parsed.set(drivername="postgresql+psycopg") if backend == "postgresql" else parsed


def _check_exists(url: URL) -> None:
    """Refuse a SQLite file that does not exist, because opening it would create it."""
    if url.get_backend_name() == "sqlite" and not Path(str(url.database)).is_file():
        raise StoreError(f"the store {url.database} does not exist: give the file of --store of 'veilgraph serve'")


def _make_engine(url: URL, *, creates: bool) -> Engine:
    # The parameters of statements are reports, which error messages must not show.
    options: dict[str, Any] = {"hide_parameters": True}
    if url.get_backend_name() == "sqlite":
        engine = create_engine(url, connect_args={"timeout": _TIMEOUT_SECONDS, "isolation_level": None}, **options)
        if creates:  # the journal mode is kept in the file, and a reader changes nothing
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
def _translate_errors() -> Iterator[None]:
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
