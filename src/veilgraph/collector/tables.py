"""The tables of the collector's database, as the newest migration leaves them."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, MetaData, Table, Text

_HOUR = 3600

metadata = MetaData()

reports = Table(
    "reports",
    metadata,
    Column("campaign", Text, primary_key=True),
    Column("node", Text, primary_key=True),
    # Number of the round, or of the wave about neighbours, from 1; 0 where people are asked once.
    Column("wave", BigInteger, primary_key=True),
    # Canonical JSON of the report: two reports are equal if these texts are.
    Column("content", Text, nullable=False),
    # Unix time of the hour of arrival. A more precise time is not needed, so it is not kept.
    Column("hour", BigInteger, nullable=False),
)

withdrawals = Table(
    "withdrawals",
    metadata,
    # A tombstone: the node's reports are deleted, and none is stored again.
    Column("campaign", Text, primary_key=True),
    Column("node", Text, primary_key=True),
    Column("hour", BigInteger, nullable=False),
)

campaigns = Table(
    "campaigns",
    metadata,
    Column("id", Text, primary_key=True),
    # The newest document that a collector served.
    Column("document", Text, nullable=False),
    # Unix time of the hour from which the campaign's reports are deleted, and none is stored again.
    Column("purged", BigInteger),
    # Number of withdrawals whose tombstones were deleted with the reports.
    Column("withdrawals", BigInteger, nullable=False),
)

audit_log = Table(
    "audit_log",
    metadata,
    Column("campaign", Text, primary_key=True),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("hour", BigInteger, nullable=False),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("previous", Text, nullable=False),
    Column("hash", Text, nullable=False),
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


def hour_of(now: float) -> int:
    """Return the Unix time of the beginning of the hour.

    >>> hour_of(7201.5)
    7200
    """
    return int(now // _HOUR) * _HOUR
