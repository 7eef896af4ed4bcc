"""Counts of refused requests and reports; nothing else of a refused request is kept."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import select

from veilgraph.collector.database import Database
from veilgraph.collector.tables import refusals


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
