"""Reports in a SQL database: each node's first report of a campaign stands, on disk before anyone is told so."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Any, Self

from sqlalchemy import Connection, Engine, create_engine, event, func, select, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, OperationalError, SQLAlchemyError

from veilgraph.campaign import Campaign
from veilgraph.campaign.report import Report
from veilgraph.collector.database import is_current, migrate, refusals, reports
from veilgraph.errors import MissingExtraError, StoreError, StoreFullError, StoreUnavailableError

_HOUR = 3600
_CHUNK = 2000
_WAIT_SECONDS = 5
# Four arrays, however many rows: a statement with a parameter for each value takes PostgreSQL's driver far longer.
_INSERT_ARRAYS = text(
    "INSERT INTO reports (campaign, node, content, hour) SELECT * FROM unnest("
    "CAST(:campaign AS text[]), CAST(:node AS text[]), CAST(:content AS text[]), CAST(:hour AS bigint[])"
    ") ON CONFLICT DO NOTHING RETURNING campaign, node"
)
_INSERT = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


class Outcome(Enum):
    """What became of a submitted report."""

    STORED = "stored"
    SAME = "same"
    CONFLICT = "conflict"


class ReportStore:
    """One report per node and campaign, in SQLite or PostgreSQL.

    An outcome is returned after the transaction is on disk: SQLite writes ahead with synchronous=FULL, PostgreSQL
    commits synchronously. A report that is refused with an error may be sent again; so may one that was stored.

    Args:
        engine: a database that `open` prepared.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._insert: Any = _INSERT[engine.dialect.name]

    @classmethod
    def open(cls, url: str, *, create: bool = True) -> Self:
        """Open the database at `url` and bring its tables to this version.

        Args:
            url: `sqlite:///reports.db`, or `postgresql://user:password@host/database`.
            create: make what is missing; False is for readers, who must find a store that is complete.
        """
        store = cls(_engine(_parse(url)))
        try:
            with _translated():
                store._prepare(create)
        except StoreError:
            store.close()
            raise
        return store

    def _prepare(self, create: bool) -> None:
        if create:
            with self._writing() as connection:
                _check_durability(connection)
                migrate(connection)
            return
        with self._engine.connect() as connection:
            if not is_current(connection):
                raise StoreError("the database holds no reports of this version; run 'veilgraph serve' on it")

    def close(self) -> None:
        """Return every connection."""
        self._engine.dispose()

    def put(self, submitted: Sequence[Report], *, now: float) -> list[Outcome]:
        """Store what is new, in one transaction; say of each report what became of it, in order.

        Args:
            submitted: valid reports.
            now: Unix time; only its hour is kept.
        """
        contents = [((report.campaign, report.node), report.to_json()) for report in submitted]
        first = dict(reversed(contents))
        hour = int(now // _HOUR) * _HOUR
        # In one order everywhere, so that two collectors on one database never wait for each other in a circle.
        rows = [
            {"campaign": campaign, "node": node, "content": content, "hour": hour}
            for (campaign, node), content in sorted(first.items())
        ]
        with _translated(), self._writing() as connection:
            fresh = self._insert_missing(connection, rows)
            standing = first | self._contents(connection, [key for key in first if key not in fresh])
        outcomes = []
        for key, content in contents:
            agrees = Outcome.SAME if content == standing[key] else Outcome.CONFLICT
            outcomes.append(Outcome.STORED if key in fresh else agrees)
            fresh.discard(key)  # only the first of several can be the one that was stored
        return outcomes

    def _insert_missing(self, connection: Connection, rows: list[dict[str, Any]]) -> set[tuple[str, str]]:
        if not rows:
            return set()
        if connection.dialect.name == "postgresql":
            columns = {name: [row[name] for row in rows] for name in rows[0]}
            stored = connection.execute(_INSERT_ARRAYS, columns)
        else:
            statement = self._insert(reports).on_conflict_do_nothing().returning(reports.c.campaign, reports.c.node)
            stored = connection.execute(statement, rows)
        return {(campaign, node) for campaign, node in stored}

    @staticmethod
    def _contents(connection: Connection, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
        found: dict[tuple[str, str], str] = {}
        for campaign in {campaign for campaign, _ in keys}:
            nodes = [node for c, node in keys if c == campaign]
            for start in range(0, len(nodes), _CHUNK):
                query = select(reports.c.node, reports.c.content).where(
                    reports.c.campaign == campaign, reports.c.node.in_(nodes[start : start + _CHUNK])
                )
                found.update({(campaign, node): content for node, content in connection.execute(query)})
        return found

    def count(self, campaign_id: str) -> int:
        """How many nodes have a report."""
        query = select(func.count()).select_from(reports).where(reports.c.campaign == campaign_id)
        with _translated(), self._engine.connect() as connection:
            return int(connection.execute(query).scalar_one())

    def by_hour(self, campaign_id: str) -> list[tuple[int, int]]:
        """Unix time of each hour in which reports arrived, and how many; earliest first."""
        query = (
            select(reports.c.hour, func.count())
            .where(reports.c.campaign == campaign_id)
            .group_by(reports.c.hour)
            .order_by(reports.c.hour)
        )
        with _translated(), self._engine.connect() as connection:
            return [(hour, count) for hour, count in connection.execute(query)]

    def iterate(self, campaign: Campaign) -> Iterator[Report]:
        """Every report of the campaign by node, each checked once more; a page in memory at a time."""
        last = ""
        query = select(reports.c.node, reports.c.content).where(reports.c.campaign == campaign.id)
        query = query.order_by(reports.c.node).limit(_CHUNK)
        while True:
            with _translated(), self._engine.connect() as connection:
                page = connection.execute(query.where(reports.c.node > last)).all()
            if not page:
                return
            for _, content in page:
                yield Report.parse(json.loads(content), campaign)
            last = page[-1][0]

    def add_refusals(self, campaign_id: str, counts: Mapping[str, int]) -> None:
        """Add to the counts of refused requests. A reason is one of a fixed few; nothing of a request is kept."""
        if not counts:
            return
        insert = self._insert(refusals)
        statement = insert.on_conflict_do_update(
            index_elements=[refusals.c.campaign, refusals.c.reason],
            set_={"count": refusals.c.count + insert.excluded.count},
        )
        rows = [{"campaign": campaign_id, "reason": reason, "count": n} for reason, n in sorted(counts.items())]
        with _translated(), self._writing() as connection:
            connection.execute(statement, rows)

    def refusals(self, campaign_id: str) -> dict[str, int]:
        """How often each reason led to a refusal."""
        query = select(refusals.c.reason, refusals.c.count).where(refusals.c.campaign == campaign_id)
        with _translated(), self._engine.connect() as connection:
            return {reason: int(count) for reason, count in connection.execute(query.order_by(refusals.c.reason))}

    def check(self) -> None:
        """Raise unless the database answers."""
        with _translated(), self._engine.connect() as connection:
            connection.execute(text("SELECT 1"))

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._engine.connect().execution_options(veilgraph_writes=True) as connection, connection.begin():
            yield connection


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError:
        parsed = URL.create("unknown")
    backend = parsed.get_backend_name()
    if backend not in _INSERT:
        # A URL can hold a password: it is not quoted.
        raise StoreError("the store must be 'sqlite:///FILE' or 'postgresql://USER:PASSWORD@HOST/DATABASE'")
    if backend == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise StoreError("a store in memory loses every report: give a file, 'sqlite:///reports.db'")
    return parsed.set(drivername="postgresql+psycopg") if backend == "postgresql" else parsed


def _engine(url: URL) -> Engine:
    # Parameters are reports: they stay out of every error text.
    options: dict[str, Any] = {"hide_parameters": True}
    if url.get_backend_name() == "sqlite":
        engine = create_engine(url, connect_args={"timeout": _WAIT_SECONDS, "isolation_level": None}, **options)
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    try:
        return create_engine(
            url,
            # A connection that a restarted database dropped is noticed and replaced before it is used.
            pool_pre_ping=True,
            connect_args={
                "connect_timeout": _WAIT_SECONDS,
                # A database that vanished without a word is noticed within seconds, not when the kernel gives up.
                "keepalives_idle": _WAIT_SECONDS,
                "tcp_user_timeout": 1000 * _WAIT_SECONDS,
                "options": f"-c synchronous_commit=on -c statement_timeout={_WAIT_SECONDS}s",
            },
            **options,
        )
    except (ImportError, NoSuchModuleError):
        raise MissingExtraError("psycopg", "collector") from None


def _prepare_sqlite(connection: Any, _: object) -> None:
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")


def _begin_sqlite(connection: Connection) -> None:
    """A writer takes its lock at once: a lock that is taken later cannot be waited for."""
    writes = connection.get_execution_options().get("veilgraph_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _check_durability(connection: Connection) -> None:
    if connection.dialect.name == "postgresql" and connection.execute(text("SHOW fsync")).scalar_one() != "on":
        raise StoreError("PostgreSQL runs with fsync = off: it would lose acknowledged reports; switch it on")


@contextmanager
def _translated() -> Iterator[None]:
    """The database's errors as ours, without its text: a server's message can quote what it was sent."""
    try:
        yield
    except DBAPIError as error:
        if _is_full(error):
            raise StoreFullError("the store is full: nothing was stored; make room and send again") from None
        if isinstance(error, OperationalError) or error.connection_invalidated:
            raise StoreUnavailableError("the store does not answer: nothing is certain; send again later") from None
        raise StoreError(f"the database refused: {type(error.orig).__name__}") from None
    except SQLAlchemyError as error:
        raise StoreUnavailableError(f"the store cannot be used now: {type(error).__name__}") from None


def _is_full(error: DBAPIError) -> bool:
    code = getattr(error.orig, "sqlite_errorname", None) or getattr(error.orig, "sqlstate", None)
    return code in ("SQLITE_FULL", "53100")
