"""Store of a collector: a database, and what is kept in it, each part with its own table."""

from __future__ import annotations

from typing import Self

from veilgraph.collector.audit_log import AuditLog
from veilgraph.collector.database import Database
from veilgraph.collector.documents import Documents
from veilgraph.collector.ended_sessions import EndedSessions
from veilgraph.collector.purges import Purges
from veilgraph.collector.refusal_counts import RefusalCounts
from veilgraph.collector.reports import Reports
from veilgraph.collector.withdrawals import Withdrawals


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
