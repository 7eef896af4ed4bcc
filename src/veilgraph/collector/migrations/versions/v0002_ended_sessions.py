"""Second version: table of dashboard sessions that ended before their time."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "ended_sessions",
        sa.Column("session", sa.Text, primary_key=True),
        sa.Column("expires", sa.BigInteger, nullable=False),
    )
