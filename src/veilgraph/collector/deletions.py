"""Deletions: what is withdrawn or purged is deleted for good, and never stored again.

A withdrawal deletes the reports of one node, and a tombstone keeps them from being stored again. A purge deletes all
reports and tombstones of a campaign, which accepts none from then on.
"""

from __future__ import annotations

from typing import NamedTuple

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


class Withdrawal(NamedTuple):
    """Outcome of a withdrawal.

    Attributes:
        hour: Unix time of the hour in which the node's reports were deleted, now or before.
        is_new: whether they were withdrawn now.
    """

    hour: int
    is_new: bool


class Withdrawals:
    """The nodes that withdrew what they had reported, or objected before they reported anything.

    Args:
        database: the database.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def withdraw(self, campaign_id: str, node: str, *, now: float, actor: str = "participant") -> Withdrawal:
        """Delete the reports of a node, of all rounds or waves, and store none of it again; in one transaction.

        A node without reports objects: its act has this name in the audit log. Withdrawing again changes nothing. The
        audit log never names the node, because it outlives a purge: the tombstone does, until then.

        Args:
            campaign_id: the campaign.
            node: name of the node. It need not have reported.
            now: Unix time; only its hour is kept.
            actor: who withdraws: `participant`, for a holder of the node's token, or another for the audit log.
        """
        hour = hour_of(now)
        with self._database.writing() as connection:
            wait_for_writers(connection)
            if (purged := purged_at(connection, campaign_id)) is not None:
                return Withdrawal(hour=purged, is_new=False)
            tombstone = self._database.insert(withdrawals).on_conflict_do_nothing().returning(withdrawals.c.hour)
            row = {"campaign": campaign_id, "node": node, "hour": hour}
            is_new = connection.execute(tombstone, row).first() is not None
            since = withdrawn_at(connection, campaign_id, node)
            of_node = (reports.c.campaign == campaign_id) & (reports.c.node == node)
            deleted = connection.execute(delete(reports).where(of_node)).rowcount
            if is_new:
                action = "withdraw" if deleted else "object"
                audit_log.append(connection, now=now, actor=actor, action=action, detail={"campaign": campaign_id})
        self._database.empty_journal()
        return Withdrawal(hour=hour if since is None else since, is_new=is_new)

    def count(self, campaign_id: str) -> int:
        """Return the number of nodes whose reports were deleted when they withdrew; it never becomes smaller."""
        standing = select(func.count()).select_from(withdrawals).where(withdrawals.c.campaign == campaign_id)
        forgotten = select(campaigns.c.withdrawals).where(campaigns.c.id == campaign_id)
        with self._database.reading() as connection:
            tombstones = int(connection.execute(standing).scalar_one())
            forgotten_in_purges = int(connection.execute(forgotten).scalar() or 0)
            return tombstones + forgotten_in_purges - audit_log.count(connection, campaign_id, "object")

    def objections(self, campaign_id: str) -> int:
        """Return the number of nodes that objected before any report was stored; it never becomes smaller."""
        with self._database.reading() as connection:
            return audit_log.count(connection, campaign_id, "object")

    def nodes(self, campaign_id: str) -> set[str]:
        """Return the names of the nodes that withdrew or objected; none after a purge, which forgets them."""
        query = select(withdrawals.c.node).where(withdrawals.c.campaign == campaign_id)
        with self._database.reading() as connection:
            return set(connection.execute(query).scalars())


def withdrawn_at(connection: Connection, campaign_id: str, node: str) -> int | None:
    """Return, in a transaction, the Unix time of the hour in which a node withdrew or objected, or None."""
    of_node = (withdrawals.c.campaign == campaign_id) & (withdrawals.c.node == node)
    hour = connection.execute(select(withdrawals.c.hour).where(of_node)).scalar()
    return None if hour is None else int(hour)
