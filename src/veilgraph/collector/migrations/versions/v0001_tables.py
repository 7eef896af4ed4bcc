"""First version: all tables of version 1.0."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "reports",
        sa.Column("campaign", sa.Text, primary_key=True),
        sa.Column("node", sa.Text, primary_key=True),
        sa.Column("wave", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("hour", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "withdrawals",
        sa.Column("campaign", sa.Text, primary_key=True),
        sa.Column("node", sa.Text, primary_key=True),
        sa.Column("hour", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "campaigns",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("purged", sa.BigInteger),
        sa.Column("withdrawals", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "audit_log",
        sa.Column("campaign", sa.Text, primary_key=True),
        sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("hour", sa.BigInteger, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("previous", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
    )
    op.create_table(
        "refusals",
        sa.Column("campaign", sa.Text, primary_key=True),
        sa.Column("reason", sa.Text, primary_key=True),
        sa.Column("count", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "ended_sessions",
        sa.Column("session", sa.Text, primary_key=True),
        sa.Column("expires", sa.BigInteger, nullable=False),
    )
