"""Fourth version: each campaign has an audit log of its own."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Create the table, and keep the chain of earlier versions as it is.

    It goes on as the log of its campaign. If it names several, it stays as it is, and each campaign begins a new one:
    its entries are bound to each other, so a chain cannot be divided.
    """
    op.create_table(
        "audit_log_of_campaigns",
        sa.Column("campaign", sa.Text, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("hour", sa.BigInteger, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("previous", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("campaign", "sequence", name="audit_log_by_campaign"),
    )
    connection = op.get_bind()
    details = connection.execute(sa.text("SELECT detail FROM audit_log")).scalars()
    named = {json.loads(detail).get("campaign", "") for detail in details}
    copied = sa.text(
        "INSERT INTO audit_log_of_campaigns (campaign, sequence, hour, actor, action, detail, previous, hash) "
        "SELECT :campaign, sequence, hour, actor, action, detail, previous, hash FROM audit_log ORDER BY sequence"
    )
    connection.execute(copied, {"campaign": named.pop() if len(named) == 1 else ""})
    op.drop_table("audit_log")
    op.rename_table("audit_log_of_campaigns", "audit_log")
