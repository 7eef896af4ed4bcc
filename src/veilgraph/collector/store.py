"""Store of a collector: a database, and what is kept in it, each part with its own table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from sqlalchemy import delete, select

from veilgraph.collector.audit_log import AuditLog
from veilgraph.collector.database import Database
from veilgraph.collector.deletions import Purges, Withdrawals
from veilgraph.collector.documents import Documents
from veilgraph.collector.reports import Reports
from veilgraph.collector.tables import ended_sessions, refusals


class RefusalCounts:
    """Number of refusals of each campaign by reason.

    Args:
        database: the database.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, campaign_id: str, counts: Mapping[str, int]) -> None:
        """Add to the counts, by the value of their reason."""
        if not counts:
            return
        insert = self._database.insert(refusals)
        statement = insert.on_conflict_do_update(
            index_elements=[refusals.c.campaign, refusals.c.reason],
            set_={"count": refusals.c.count + insert.excluded.count},
        )
        rows = [{"campaign": campaign_id, "reason": reason, "count": n} for reason, n in sorted(counts.items())]
        with self._database.writing() as connection:
            connection.execute(statement, rows)

    def by_reason(self, campaign_id: str) -> dict[str, int]:
        """Return the number of refusals by reason."""
        query = select(refusals.c.reason, refusals.c.count).where(refusals.c.campaign == campaign_id)
        with self._database.reading() as connection:
            return {reason: int(count) for reason, count in connection.execute(query.order_by(refusals.c.reason))}


class EndedSessions:
    """Sessions that were ended, until they would expire anyway.

    Args:
        database: the database.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, session: str, *, expires: float, now: float) -> None:
        """Remember that a session ended, until the Unix time when it would expire anyway."""
        statement = self._database.insert(ended_sessions).on_conflict_do_nothing()
        with self._database.writing() as connection:
            connection.execute(delete(ended_sessions).where(ended_sessions.c.expires < int(now)))
            connection.execute(statement, [{"session": session, "expires": int(expires) + 1}])

    def __contains__(self, session: str) -> bool:
        query = select(ended_sessions.c.session).where(ended_sessions.c.session == session)
        with self._database.reading() as connection:
            return connection.execute(query).first() is not None


class ReportStore:
    """Reports of one campaign or of several, and what a collector has to remember with them.

    Args:
        database: the database.
        page_size: number of reports that one query reads.

    Attributes:
        database: the database.
        reports: the reports.
        withdrawals: nodes that withdrew or objected.
        purges: campaigns whose reports were deleted for good.
        documents: newest document of each campaign.
        audit_log: administrative acts.
        refusals: counts of refusals.
        ended_sessions: dashboard sessions that ended before their time.
    """

    def __init__(self, database: Database, *, page_size: int = 2000) -> None:
        self.database = database
        self.reports = Reports(database, page_size=page_size)
        self.withdrawals = Withdrawals(database)
        self.documents = Documents(database)
        self.purges = Purges(database, self.documents)
        self.audit_log = AuditLog(database)
        self.refusals = RefusalCounts(database)
        self.ended_sessions = EndedSessions(database)

    @classmethod
    def open(cls, url: str, *, create: bool = True, page_size: int = 2000) -> Self:
        """Open the database at `url` and migrate its tables to this version.

        Args:
            url: `sqlite:///reports.db`, or `postgresql://user:password@host/database`.
            create: whether to create or migrate the tables; readers pass False and need a complete store.
            page_size: number of reports that one query reads.
        """
        return cls(Database.open(url, creates=create, writes=create), page_size=page_size)

    @classmethod
    def administer(cls, url: str) -> Self:
        """Open a store that a collector of this version made, to withdraw, purge, or read the audit log."""
        return cls(Database.open(url, creates=False, writes=True))

    def close(self) -> None:
        """Close every connection."""
        self.database.close()
