"""Third version: waves, withdrawals, campaigns and the audit log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Create the tables, and give the reports of earlier versions wave 0."""
    op.create_table(
        "reports_with_waves",
        sa.Column("campaign", sa.Text, nullable=False),
        sa.Column("node", sa.Text, nullable=False),
        sa.Column("wave", sa.BigInteger, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("hour", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("campaign", "node", "wave", name="reports_by_wave"),
        sqlite_with_rowid=False,
    )
    # Copied and not altered: SQLite cannot change a primary key. In the order of the key, so that pages are full.
    op.execute(
        "INSERT INTO reports_with_waves (campaign, node, wave, content, hour) "
        "SELECT campaign, node, 0, content, hour FROM reports ORDER BY campaign, node"
    )
    op.drop_table("reports")
    op.rename_table("reports_with_waves", "reports")
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
        sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("hour", sa.BigInteger, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("previous", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
    )
