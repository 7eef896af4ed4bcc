"""Store of reports in a SQL database: each node's first report counts, and is on disk before it is acknowledged.

A withdrawn report is deleted, and a tombstone keeps it from being stored again. So does the purge of a campaign.
All reports of a series about private neighbours are stored under the id of its first document, each with the number of
its wave, 0 for the label. So a withdrawal, a purge and the audit log are about the whole series.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence, Set
from enum import Enum
from typing import Any, NamedTuple, Self

from sqlalchemy import Connection, Engine, delete, func, select, text, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite

from veilgraph.campaign import Campaign
from veilgraph.campaign.report import Report
from veilgraph.collector import audit_log
from veilgraph.collector.database import (
    campaigns,
    check_exists,
    check_server,
    empty_journal,
    ended_sessions,
    hour_of,
    is_current,
    make_engine,
    make_private_database,
    migrate,
    newest_version,
    parse_url,
    refusals,
    reports,
    translate_errors,
    version_of,
    withdrawals,
    writing,
)
from veilgraph.errors import StoreError, StoreUnavailableError

# A report is stored unless its node withdrew, its campaign was purged, or the node has one. All rows are one parameter
# in JSON: parameters for each row, or an array for each column, would take the drivers far longer.
_INSERT_ROWS = {
    "sqlite": text("""
        INSERT INTO reports (campaign, node, wave, content, hour)
        SELECT *, :hour FROM (
            SELECT json_extract(value, '$[0]') AS campaign, json_extract(value, '$[1]') AS node,
                json_extract(value, '$[2]'), json_extract(value, '$[3]')
            FROM json_each(:rows)
        ) AS new
        WHERE NOT EXISTS (SELECT 1 FROM withdrawals WHERE campaign = new.campaign AND node = new.node)
            AND NOT EXISTS (SELECT 1 FROM campaigns WHERE id = new.campaign AND purged IS NOT NULL)
        ON CONFLICT DO NOTHING RETURNING campaign, node, wave
    """),
    # FOR KEY SHARE makes it wait for a withdrawal that has begun, and then see it: `_lock_withdrawals`.
    "postgresql": text("""
        INSERT INTO reports (campaign, node, wave, content, hour)
        SELECT *, CAST(:hour AS bigint) FROM (
            SELECT value ->> 0 AS campaign, value ->> 1 AS node, CAST(value ->> 2 AS bigint), value ->> 3
            FROM json_array_elements(CAST(:rows AS json))
        ) AS new
        WHERE NOT EXISTS (
                SELECT 1 FROM withdrawals WHERE campaign = new.campaign AND node = new.node FOR KEY SHARE
            ) AND NOT EXISTS (SELECT 1 FROM campaigns WHERE id = new.campaign AND purged IS NOT NULL)
        ON CONFLICT DO NOTHING RETURNING campaign, node, wave
    """),
}
_INSERT = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
# Number of reports that one transaction of a purge deletes: others write in between.
_PURGED_AT_ONCE = 5000
_PROBE_BYTES = 16 * 1024

Key = tuple[str, str, int]
"""Campaign, node and wave of a report."""


class Outcome(Enum):
    """Outcome of writing a report: stored now or before, in conflict with the stored one, or not wanted any more."""

    STORED = "stored"
    SAME = "same"
    CONFLICT = "conflict"
    WITHDRAWN = "withdrawn"
    PURGED = "purged"


class PutResult(NamedTuple):
    """Outcome of writing a report, and when the node's report that counts was stored.

    Attributes:
        outcome: what became of the submitted report.
        hour: Unix time of the hour in which the report that counts was stored, now or before, or was deleted.
    """

    outcome: Outcome
    hour: int


class Withdrawal(NamedTuple):
    """Outcome of a withdrawal.

    Attributes:
        hour: Unix time of the hour in which the node's reports were deleted, now or before.
        is_new: whether they were withdrawn now.
    """

    hour: int
    is_new: bool


class Standing(Enum):
    """What a store holds of a node: this report, another one, one of another wave, or none; and why there is none."""

    STORED = "stored"
    ANOTHER = "another"
    EARLIER = "earlier"
    MISSING = "missing"
    WITHDRAWN = "withdrawn"
    PURGED = "purged"


class ReportStore:
    """One report for each node, wave and campaign, in SQLite or PostgreSQL.

    An outcome is returned after the transaction is on disk: SQLite uses a write-ahead log with synchronous=FULL,
    PostgreSQL commits synchronously. Writing is idempotent, so a report may be sent again after any error.

    Args:
        engine: a database that `open` prepared.
        page_size: number of reports that one query reads.
    """

    def __init__(self, engine: Engine, *, page_size: int = 2000) -> None:
        self._engine, self._page_size = engine, page_size
        self._insert: Any = _INSERT[engine.dialect.name]
        # Readers also read the tables of earlier versions. Before 0003 they have neither waves nor withdrawals.
        self._is_current = self._has_waves = True

    @classmethod
    def open(cls, url: str, *, create: bool = True, page_size: int = 2000) -> Self:
        """Open the database at `url` and migrate its tables to this version.

        Args:
            url: `sqlite:///reports.db`, or `postgresql://user:password@host/database`.
            create: whether to create or migrate the tables; readers pass False and need a complete store.
            page_size: number of reports that one query reads.
        """
        return cls._open(url, page_size, exists=not create, writes=create)

    @classmethod
    def administer(cls, url: str) -> Self:
        """Open a store that a collector of this version made, to withdraw, purge, or read the audit log."""
        store = cls._open(url, 2000, exists=True, writes=True, migrates=False)
        if not store._is_current:
            store.close()
            raise StoreError("the database is of an earlier version: run 'veilgraph serve' on it once, which migrates")
        return store

    @classmethod
    def _open(cls, url: str, page_size: int, *, exists: bool, writes: bool, migrates: bool = True) -> Self:
        parsed = parse_url(url)
        if exists:
            check_exists(parsed)
        elif writes:
            make_private_database(parsed)
        store = cls(make_engine(parsed, writes=writes), page_size=page_size)
        try:
            with translate_errors():
                store._prepare(migrates=writes and migrates)
        except StoreUnavailableError:
            store.close()
            raise StoreUnavailableError(
                "the store does not answer: check its address and its name, and that it runs"
            ) from None
        except StoreError:
            store.close()
            raise
        return store

    def _prepare(self, *, migrates: bool) -> None:
        if migrates:
            with writing(self._engine) as connection:
                check_server(connection)
                migrate(connection)
            return
        with self._engine.connect() as connection:
            if (version := version_of(connection)) is None:
                raise StoreError("the database holds no reports of this version; run 'veilgraph serve' on it")
            self._is_current, self._has_waves = is_current(connection), version >= "0003"

    @property
    def engine(self) -> Engine:
        """The database."""
        return self._engine

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()

    # --- Reports -----------------------------------------------------------------------------------------------------

    def put(self, submitted: Sequence[Report], *, now: float) -> list[PutResult]:
        """Store the reports of nodes that have none, in one transaction.

        Args:
            submitted: valid reports.
            now: Unix time; only its hour is kept.

        Returns:
            The outcome of each report and its hour, in order.
        """
        contents = [(_key(report), report.to_json()) for report in submitted]
        first = dict(reversed(contents))
        hour = hour_of(now)
        # Sorted, so that two collectors on one database cannot deadlock.
        rows = [(*key, content) for key, content in sorted(first.items())]
        with translate_errors(), writing(self._engine) as connection:
            fresh = self._insert_missing(connection, rows, hour)
            others = [key for key in first if key not in fresh]
            before = self._stored(connection, others)
            gone = _gone(connection, {key for key in others if key not in before}, hour)
        results = []
        for key, content in contents:
            if key in gone:
                results.append(gone[key])
                continue
            standing, stored_hour = before.get(key, (first[key], hour))
            agrees = Outcome.SAME if content == standing else Outcome.CONFLICT
            results.append(PutResult(Outcome.STORED if key in fresh else agrees, stored_hour))
            fresh.discard(key)  # of several reports of a node, only the first was stored
        return results

    def _insert_missing(self, connection: Connection, rows: list[tuple[str, str, int, str]], hour: int) -> set[Key]:
        if not rows:
            return set()
        statement = _INSERT_ROWS[connection.dialect.name]
        inserted = connection.execute(statement, {"rows": json.dumps(rows), "hour": hour})
        return {(campaign, node, wave) for campaign, node, wave in inserted}

    def _stored(self, connection: Connection, keys: Sequence[Key]) -> dict[Key, tuple[str, int]]:
        """Return the content and the hour of stored reports, by their key."""
        found: dict[Key, tuple[str, int]] = {}
        for campaign in {campaign for campaign, _, _ in keys}:
            nodes = list({node for c, node, _ in keys if c == campaign})
            for start in range(0, len(nodes), self._page_size):
                query = select(reports.c.node, reports.c.wave, reports.c.content, reports.c.hour).where(
                    reports.c.campaign == campaign, reports.c.node.in_(nodes[start : start + self._page_size])
                )
                rows = connection.execute(query)
                found.update({(campaign, node, wave): (content, hour) for node, wave, content, hour in rows})
        return found

    def count(self, campaign_id: str, *, wave: int | None = None) -> int:
        """Return the number of reports, of all waves or of one; without waves, of nodes that reported."""
        query = select(func.count()).select_from(reports).where(reports.c.campaign == campaign_id)
        if wave is not None:
            query = query.where(reports.c.wave == wave)
        with translate_errors(), self._engine.connect() as connection:
            return int(connection.execute(query).scalar_one())

    def by_hour(self, campaign_id: str, *, wave: int | None = None) -> list[tuple[int, int]]:
        """Return the Unix time of each hour with reports, of all waves or of one, and their number; earliest first."""
        query = select(reports.c.hour, func.count()).where(reports.c.campaign == campaign_id)
        if wave is not None:
            query = query.where(reports.c.wave == wave)
        query = query.group_by(reports.c.hour).order_by(reports.c.hour)
        with translate_errors(), self._engine.connect() as connection:
            return [(hour, count) for hour, count in connection.execute(query)]

    def iterate(self, campaign: Campaign, *, wave: int | None = None) -> Iterator[Report]:
        """Iterate over the reports of a campaign by node and wave, validated again.

        One page is in memory at a time.

        Args:
            campaign: campaign of the reports.
            wave: the only wave to read; default: all of them.
        """
        # Tables of earlier versions have no waves, so that a node has one row.
        key = [reports.c.node, reports.c.wave] if self._has_waves else [reports.c.node]
        query = select(reports.c.content, *key).where(reports.c.campaign == campaign.series)
        wave = campaign.stored_wave if wave is None and self._has_waves else wave
        if wave is not None:
            query = query.where(reports.c.wave == wave)
        query = query.order_by(*key).limit(self._page_size)
        last: Sequence[Any] = ("", 0)[: len(key)]
        while True:
            with translate_errors(), self._engine.connect() as connection:
                page = connection.execute(query.where(tuple_(*key) > tuple_(*last))).all()
            if not page:
                return
            for row in page:
                yield Report.parse(json.loads(row[0]), campaign)
            last = page[-1][1:]

    def settled_nodes(self, campaign_id: str, *, wave: int | None = None) -> set[str]:
        """Return the names of the nodes that reported, withdrew or objected: nobody has to remind them.

        Args:
            campaign_id: the campaign.
            wave: the wave that is open; default: a report of any wave counts.
        """
        reported = select(reports.c.node).where(reports.c.campaign == campaign_id)
        if wave is not None and self._has_waves:
            reported = reported.where(reports.c.wave == wave)
        withdrew = select(withdrawals.c.node).where(withdrawals.c.campaign == campaign_id)
        with translate_errors(), self._engine.connect() as connection:
            settled = set(connection.execute(reported).scalars())
            return settled | set(connection.execute(withdrew).scalars()) if self._has_waves else settled

    def standing(self, campaign_id: str, node: str, *, report_sha256: str | None = None) -> Standing:
        """Return what is stored of a node now.

        Args:
            campaign_id: the campaign.
            node: name of the node.
            report_sha256: hash of the report in question; without it, every report of the node counts as another.
        """
        of_node = select(reports.c.content).where(reports.c.campaign == campaign_id, reports.c.node == node)
        with translate_errors(), self._engine.connect() as connection:
            hashes = {hashlib.sha256(content.encode()).hexdigest() for (content,) in connection.execute(of_node)}
            gone = _deleted(connection, campaign_id, node)
        if report_sha256 in hashes:
            return gone or Standing.STORED
        return gone or (Standing.ANOTHER if hashes else Standing.MISSING)

    def has_reported(self, campaign_id: str, node: str, *, wave: int | None) -> Standing:
        """Return whether a node has reported: `STORED` in this wave, `EARLIER` in others only, or why it has not.

        Args:
            campaign_id: the campaign.
            node: name of the node.
            wave: the wave that is asked now; None if none is.
        """
        of_node = select(reports.c.wave).where(reports.c.campaign == campaign_id, reports.c.node == node)
        with translate_errors(), self._engine.connect() as connection:
            waves = set(connection.execute(of_node).scalars())
            gone = _deleted(connection, campaign_id, node)
        if wave in waves:
            return gone or Standing.STORED
        return gone or (Standing.EARLIER if waves else Standing.MISSING)

    # --- Withdrawals and purges --------------------------------------------------------------------------------------

    def withdraw(self, campaign_id: str, node: str, *, now: float, actor: str = "participant") -> Withdrawal:
        """Delete the reports of a node, of all waves, and store none of it again; in one transaction.

        A node without reports objects: its act has this name in the audit log. Withdrawing again changes nothing. The
        audit log never names the node, because it outlives a purge: the tombstone does, until then.

        Args:
            campaign_id: the campaign.
            node: name of the node. It need not have reported.
            now: Unix time; only its hour is kept.
            actor: who withdraws: `participant`, for a holder of the node's token, or another for the audit log.
        """
        hour = hour_of(now)
        with translate_errors(), writing(self._engine) as connection:
            _lock_withdrawals(connection)
            if (purged := _purged(connection, campaign_id)) is not None:
                return Withdrawal(hour=purged, is_new=False)
            tombstone = self._insert(withdrawals).on_conflict_do_nothing().returning(withdrawals.c.hour)
            row = {"campaign": campaign_id, "node": node, "hour": hour}
            is_new = connection.execute(tombstone, row).first() is not None
            since = _withdrawn(connection, campaign_id, node)
            of_node = (reports.c.campaign == campaign_id) & (reports.c.node == node)
            deleted = connection.execute(delete(reports).where(of_node)).rowcount
            if is_new:
                action = "withdraw" if deleted else "object"
                audit_log.append(connection, now=now, actor=actor, action=action, detail={"campaign": campaign_id})
        empty_journal(self._engine)
        return Withdrawal(hour=hour if since is None else since, is_new=is_new)

    def withdrawals(self, campaign_id: str) -> int:
        """Return the number of nodes whose reports were deleted when they withdrew; it never becomes smaller."""
        if not self._has_waves:
            return 0
        standing = select(func.count()).select_from(withdrawals).where(withdrawals.c.campaign == campaign_id)
        forgotten = select(campaigns.c.withdrawals).where(campaigns.c.id == campaign_id)
        with translate_errors(), self._engine.connect() as connection:
            all_of_them = int(connection.execute(standing).scalar_one())
            return (
                all_of_them
                + int(connection.execute(forgotten).scalar() or 0)
                - self._objections(connection, campaign_id)
            )

    def objections(self, campaign_id: str) -> int:
        """Return the number of nodes that objected before any report was stored; it never becomes smaller."""
        with translate_errors(), self._engine.connect() as connection:
            return self._objections(connection, campaign_id)

    def _objections(self, connection: Connection, campaign_id: str) -> int:
        return audit_log.count(connection, campaign_id, "object") if self._is_current else 0

    def withdrawn_nodes(self, campaign_id: str) -> set[str]:
        """Return the names of the nodes that withdrew or objected; none after a purge, which forgets them."""
        query = select(withdrawals.c.node).where(withdrawals.c.campaign == campaign_id)
        with translate_errors(), self._engine.connect() as connection:
            return set(connection.execute(query).scalars())

    def purge(self, campaign: Campaign, *, now: float, actor: str) -> int:
        """Delete all reports and tombstones of a campaign, and store none of it again.

        Reports are refused from the first transaction on, which also writes the audit log. Those that follow delete
        the reports, a page at a time. A purge that was interrupted is finished by calling this again.

        Returns:
            Number of reports that were deleted by this call.
        """
        with translate_errors(), writing(self._engine) as connection:
            _lock_withdrawals(connection)
            if _purged(connection, campaign.series) is None:
                self._mark_purged(connection, campaign, now=now, actor=actor)
        of_campaign = reports.c.campaign == campaign.series
        key = [reports.c.campaign, reports.c.node, reports.c.wave]
        page = select(*key).where(of_campaign).limit(_PURGED_AT_ONCE)
        deleted = 0
        while True:
            with translate_errors(), writing(self._engine) as connection:
                removed = connection.execute(delete(reports).where(tuple_(*key).in_(page))).rowcount
            deleted += removed
            if removed < _PURGED_AT_ONCE:
                break
        empty_journal(self._engine)
        return deleted

    def _mark_purged(self, connection: Connection, campaign: Campaign, *, now: float, actor: str) -> None:
        number = select(func.count()).select_from(reports).where(reports.c.campaign == campaign.series)
        stored = int(connection.execute(number).scalar_one())
        forgotten = connection.execute(delete(withdrawals).where(withdrawals.c.campaign == campaign.series)).rowcount
        _check_series(connection, campaign)
        self._register(connection, campaign)
        connection.execute(
            update(campaigns)
            .where(campaigns.c.id == campaign.series)
            .values(purged=hour_of(now), withdrawals=campaigns.c.withdrawals + forgotten)
        )
        detail = {"campaign": campaign.series, "reports": stored, "withdrawals": forgotten}
        audit_log.append(connection, now=now, actor=actor, action="purge", detail=detail)

    def purged(self, campaign_id: str) -> int | None:
        """Return the Unix time of the hour from which a campaign's reports are deleted, or None."""
        if not self._has_waves:
            return None
        with translate_errors(), self._engine.connect() as connection:
            return _purged(connection, campaign_id)

    def check_kept(self, campaign_id: str) -> None:
        """Raise an error if the campaign's reports were deleted for good."""
        if self.purged(campaign_id) is not None:
            raise StoreError(
                "the reports of this campaign were deleted, and it accepts none again: nothing can be learned from it, "
                "and nobody is asked to answer"
            )

    # --- Campaigns and the audit log ---------------------------------------------------------------------------------

    def register(self, campaign: Campaign, *, now: float, actor: str = "collector") -> None:
        """Keep the newest document of a campaign; the audit log says when its notice is new.

        An older notice than the stored one is refused: devices refuse it too, and its retention date may be later. So
        is a wave about neighbours whose earlier documents were not served from this database.
        """
        with translate_errors(), writing(self._engine) as connection:
            _lock_campaigns(connection)
            _check_series(connection, campaign)
            stored = connection.execute(select(campaigns.c.document).where(campaigns.c.id == campaign.id)).scalar()
            newest = 0 if stored is None else Campaign.from_json(stored).notice_version
            if campaign.notice_version < newest:
                raise StoreError(
                    f"the campaign file holds notice {campaign.notice_version}, and notice {newest} was served before: "
                    "use the newest file, or 'veilgraph campaign revise'"
                )
            if self._register(connection, campaign):
                detail = {
                    "campaign": campaign.series,
                    "notice": campaign.notice_version,
                    "sha256": hashlib.sha256(campaign.to_json().encode()).hexdigest(),
                }
                audit_log.append(connection, now=now, actor=actor, action="notice", detail=detail)

    def _register(self, connection: Connection, campaign: Campaign) -> bool:
        """Write the document, and return whether it was not there."""
        insert = self._insert(campaigns)
        statement = insert.on_conflict_do_update(
            index_elements=[campaigns.c.id],
            set_={"document": insert.excluded.document},
            where=campaigns.c.document != insert.excluded.document,
        ).returning(campaigns.c.id)
        row = {"id": campaign.id, "document": campaign.to_json(), "withdrawals": 0}
        return connection.execute(statement, row).first() is not None

    def campaigns(self) -> dict[str, str]:
        """Return the newest document of each campaign that a collector of this database served, by id."""
        with translate_errors(), self._engine.connect() as connection:
            rows = connection.execute(select(campaigns.c.id, campaigns.c.document).order_by(campaigns.c.id))
            return {row.id: row.document for row in rows}

    def check_newest(self, campaign: Campaign) -> None:
        """Refuse a document of a series about neighbours after which a wave was opened: that closed it for good."""
        with translate_errors(), self._engine.connect() as connection:
            texts = connection.execute(select(campaigns.c.document)).scalars().all()
        later = [documents for each in texts if campaign.id in (documents := _documents_before(each))]
        if later:
            raise StoreError(
                f"wave {max(map(len, later))} of this series was opened before: give --tables, the folder with its "
                "document, or the document itself"
            )

    def record(self, action: str, detail: Mapping[str, Any], *, now: float, actor: str) -> None:
        """Append an administrative act to the audit log of the campaign that its detail names."""
        with translate_errors(), writing(self._engine) as connection:
            audit_log.append(connection, now=now, actor=actor, action=action, detail=detail)

    def audit_logs(self) -> dict[str, list[audit_log.Entry]]:
        """Return the audit log of each campaign, by id. One without an id is of an earlier version, and of several."""
        with translate_errors(), self._engine.connect() as connection:
            return audit_log.read_all(connection)

    def audit_log(self, campaign_id: str) -> list[audit_log.Entry]:
        """Return all entries of a campaign's audit log, in their order."""
        with translate_errors(), self._engine.connect() as connection:
            return audit_log.read(connection, campaign_id)

    # --- Refusals and sessions ---------------------------------------------------------------------------------------

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
        with translate_errors(), writing(self._engine) as connection:
            connection.execute(statement, rows)

    def refusals(self, campaign_id: str) -> dict[str, int]:
        """Return the number of refusals by reason."""
        query = select(refusals.c.reason, refusals.c.count).where(refusals.c.campaign == campaign_id)
        with translate_errors(), self._engine.connect() as connection:
            return {reason: int(count) for reason, count in connection.execute(query.order_by(refusals.c.reason))}

    def end_session(self, session: str, *, expires: float, now: float) -> None:
        """Remember that a dashboard session ended, until the Unix time when it would expire anyway."""
        statement = self._insert(ended_sessions).on_conflict_do_nothing()
        with translate_errors(), writing(self._engine) as connection:
            connection.execute(delete(ended_sessions).where(ended_sessions.c.expires < int(now)))
            connection.execute(statement, [{"session": session, "expires": int(expires) + 1}])

    def has_ended(self, session: str) -> bool:
        """Return whether a dashboard session was ended, by any collector on this database."""
        query = select(ended_sessions.c.session).where(ended_sessions.c.session == session)
        with translate_errors(), self._engine.connect() as connection:
            return connection.execute(query).first() is not None

    def check(self) -> None:
        """Raise an error unless the database answers, and its tables are those of this version."""
        with translate_errors(), self._engine.connect() as connection:
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
        with translate_errors(), writing(self._engine) as connection:
            connection.execute(self._insert(reports), row)
            connection.execute(delete(reports).where(reports.c.campaign == ""))


def _key(report: Report) -> Key:
    return report.series or report.campaign, report.node, report.wave or 0


def _check_series(connection: Connection, campaign: Campaign) -> None:
    """Refuse a wave about neighbours that does not continue a series of this database."""
    if campaign.neighbours is None:
        return
    asked = campaign.neighbours
    known = set(connection.execute(select(campaigns.c.id).where(campaigns.c.id.in_(asked.documents))).scalars())
    if missing := [each for each in asked.documents if each not in known]:
        raise StoreError(
            f"wave {asked.wave} is of another series: the store never served its document {missing[0]}; "
            "give the store of the series, and serve every document of it"
        )
    for served, text_of in connection.execute(select(campaigns.c.id, campaigns.c.document)):
        if served != campaign.id and _documents_before(text_of) == list(asked.documents):
            raise StoreError(f"another wave {asked.wave} of this series was served before, {served}: serve that one")


def _documents_before(text_of: str) -> list[str]:
    """Return the ids of the documents before that of a wave about neighbours; none for other campaigns."""
    stated = json.loads(text_of).get("bound", {}).get("neighbours") or {}
    return list(stated.get("documents", ()))


def _lock_campaigns(connection: Connection) -> None:
    """Let others that register a campaign wait, so that two collectors cannot open different waves of a series."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("LOCK TABLE campaigns IN SHARE ROW EXCLUSIVE MODE"))


def _lock_withdrawals(connection: Connection) -> None:
    """Wait for the writers of reports, and let others wait until the transaction ends.

    SQLite has one writer at a time anyway. In PostgreSQL this lock excludes statements that read the table FOR KEY
    SHARE, and nothing else: readers, backups and VACUUM of the reports go on.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("LOCK TABLE withdrawals IN EXCLUSIVE MODE"))


def _purged(connection: Connection, campaign_id: str) -> int | None:
    hour = connection.execute(select(campaigns.c.purged).where(campaigns.c.id == campaign_id)).scalar()
    return None if hour is None else int(hour)


def _withdrawn(connection: Connection, campaign_id: str, node: str) -> int | None:
    of_node = (withdrawals.c.campaign == campaign_id) & (withdrawals.c.node == node)
    hour = connection.execute(select(withdrawals.c.hour).where(of_node)).scalar()
    return None if hour is None else int(hour)


def _deleted(connection: Connection, campaign_id: str, node: str) -> Standing | None:
    """Return why no report of a node is stored any more; None if one may be."""
    if _purged(connection, campaign_id) is not None:
        return Standing.PURGED
    return None if _withdrawn(connection, campaign_id, node) is None else Standing.WITHDRAWN


def _gone(connection: Connection, keys: Set[Key], hour: int) -> dict[Key, PutResult]:
    """Return why reports that are neither stored now nor before are not wanted."""
    found: dict[Key, PutResult] = {}
    for campaign, node, wave in keys:
        withdrawn = _withdrawn(connection, campaign, node)
        outcome = Outcome.PURGED if withdrawn is None else Outcome.WITHDRAWN
        found[campaign, node, wave] = PutResult(outcome, hour if withdrawn is None else withdrawn)
    return found
