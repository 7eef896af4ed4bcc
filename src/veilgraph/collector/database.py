"""The store's SQL tables, as the newest migration leaves them, and the runner of the migrations."""

from __future__ import annotations

from importlib import resources

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import BigInteger, Column, Connection, MetaData, Table, Text, text

from veilgraph.errors import StoreError

metadata = MetaData()

reports = Table(
    "reports",
    metadata,
    Column("campaign", Text, primary_key=True),
    Column("node", Text, primary_key=True),
    # Canonical JSON of the report: two reports are equal if these texts are.
    Column("content", Text, nullable=False),
    # Unix time of the hour of arrival. A more precise time is not needed, so it is not kept.
    Column("hour", BigInteger, nullable=False),
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

# Key of the advisory lock: collectors that start at the same time migrate one after the other.
_MIGRATION_LOCK = 7_239_114_001


def migrate(connection: Connection) -> None:
    """Run the pending migrations in the connection's transaction."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATION_LOCK})
    if is_current(connection):
        return
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def is_current(connection: Connection) -> bool:
    """Return whether no migration is pending; refuse a database of a newer version."""
    scripts = ScriptDirectory.from_config(_config())
    current = MigrationContext.configure(connection).get_current_revision()
    known = {script.revision for script in scripts.walk_revisions()}
    if current is not None and current not in known:
        raise StoreError(
            f"the database has version {current}, this program knows version {max(known)} and older: upgrade veilgraph"
        )
    return current == scripts.get_current_head()


def holds_reports(connection: Connection) -> bool:
    """Return whether this version can read the reports; refuse a database of a newer version.

    No migration has changed the table of reports since the first version.
    """
    return is_current(connection) or MigrationContext.configure(connection).get_current_revision() is not None


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(resources.files("veilgraph.collector") / "migrations"))
    return config
