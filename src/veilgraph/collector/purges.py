"""Purges: all reports and tombstones of a campaign are deleted for good, and none is stored again."""

from __future__ import annotations

from sqlalchemy import Connection, delete, func, select, text, tuple_, update

from veilgraph.campaign import Campaign
from veilgraph.collector import audit_log
from veilgraph.collector.database import Database
from veilgraph.collector.documents import Documents
from veilgraph.collector.tables import campaigns, hour_of, reports, withdrawals
from veilgraph.errors import StoreError

# Number of reports that one transaction of a purge deletes: others write in between.
_PURGED_AT_ONCE = 5000


class Purges:
    """The campaigns whose reports were deleted for good.

    Args:
        database: the database.
        documents: documents of its campaigns.
    """

    def __init__(self, database: Database, documents: Documents) -> None:
        self._database, self._documents = database, documents

    def purge(self, campaign: Campaign, *, now: float, actor: str) -> int:
        """Delete all reports and tombstones of a campaign, and store none of it again.

        Reports are refused from the first transaction on, which also writes the audit log. Those that follow delete
        the reports, a page at a time. A purge that was interrupted is finished by calling this again.

        Returns:
            Number of reports that were deleted by this call.
        """
        with self._database.writing() as connection:
            wait_for_writers(connection)
            if purged_at(connection, campaign.series) is None:
                self._mark(connection, campaign, now=now, actor=actor)
        key = [reports.c.campaign, reports.c.node, reports.c.wave]
        page = select(*key).where(reports.c.campaign == campaign.series).limit(_PURGED_AT_ONCE)
        deleted, removed = 0, _PURGED_AT_ONCE
        while removed == _PURGED_AT_ONCE:
            with self._database.writing() as connection:
                removed = connection.execute(delete(reports).where(tuple_(*key).in_(page))).rowcount
            deleted += removed
        self._database.empty_journal()
        return deleted

    def _mark(self, connection: Connection, campaign: Campaign, *, now: float, actor: str) -> None:
        number = select(func.count()).select_from(reports).where(reports.c.campaign == campaign.series)
        stored = int(connection.execute(number).scalar_one())
        forgotten = connection.execute(delete(withdrawals).where(withdrawals.c.campaign == campaign.series)).rowcount
        self._documents.write(connection, campaign)
        connection.execute(
            update(campaigns)
            .where(campaigns.c.id == campaign.series)
            .values(purged=hour_of(now), withdrawals=campaigns.c.withdrawals + forgotten)
        )
        detail = {"campaign": campaign.series, "reports": stored, "withdrawals": forgotten}
        audit_log.append(connection, now=now, actor=actor, action="purge", detail=detail)

    def hour(self, campaign_id: str) -> int | None:
        """Return the Unix time of the hour from which a campaign's reports are deleted, or None."""
        with self._database.reading() as connection:
            return purged_at(connection, campaign_id)

    def check_kept(self, campaign_id: str) -> None:
        """Raise an error if the campaign's reports were deleted for good."""
        if self.hour(campaign_id) is not None:
            raise StoreError(
                "the reports of this campaign were deleted, and it accepts none again: nothing can be learned from it, "
                "and nobody is asked to answer"
            )


def purged_at(connection: Connection, campaign_id: str) -> int | None:
    """Return, in a transaction, the Unix time of the hour from which a campaign's reports are deleted, or None."""
    hour = connection.execute(select(campaigns.c.purged).where(campaigns.c.id == campaign_id)).scalar()
    return None if hour is None else int(hour)


def wait_for_writers(connection: Connection) -> None:
    """Wait for the writers of reports, and let others wait until the transaction ends.

    SQLite has one writer at a time anyway. In PostgreSQL this lock excludes statements that read the table of
    withdrawals FOR KEY SHARE, and nothing else: readers, backups and VACUUM of the reports go on.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("LOCK TABLE withdrawals IN EXCLUSIVE MODE"))
