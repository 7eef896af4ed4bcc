"""Withdrawals: a node's reports are deleted, and a tombstone keeps them from being stored again."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, delete, func, select

from veilgraph.collector import audit_log
from veilgraph.collector.database import Database
from veilgraph.collector.purges import purged_at, wait_for_writers
from veilgraph.collector.tables import campaigns, hour_of, reports, withdrawals


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
