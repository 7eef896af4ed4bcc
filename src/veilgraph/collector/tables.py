"""The tables of the store, as the newest migration leaves them."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, MetaData, Table, Text

metadata = MetaData()

reports = Table(
    "reports",
    metadata,
    Column("campaign", Text, primary_key=True),
    Column("node", Text, primary_key=True),
    # The canonical JSON that was acknowledged: equality of reports is equality of this text.
    Column("content", Text, nullable=False),
    # Unix time of the hour in which it arrived. Nothing needs to know the minute.
    Column("hour", BigInteger, nullable=False),
)

refusals = Table(
    "refusals",
    metadata,
    Column("campaign", Text, primary_key=True),
    Column("reason", Text, primary_key=True),
    Column("count", BigInteger, nullable=False),
)
