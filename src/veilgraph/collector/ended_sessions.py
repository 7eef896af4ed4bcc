"""Dashboard sessions that ended before their time: every collector on a database refuses them."""

from __future__ import annotations

from sqlalchemy import delete, select

from veilgraph.collector.database import Database
from veilgraph.collector.tables import ended_sessions


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
