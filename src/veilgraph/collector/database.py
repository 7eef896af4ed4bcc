"""The tables of the store, as the newest migration leaves them."""

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


# Any number, the same in every process: two collectors that start at once migrate one after the other.
_LOCK = 7_239_114_001


def migrate(connection: Connection) -> None:
    """Run the missing migrations in the connection's transaction."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    if is_current(connection):
        return
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def is_current(connection: Connection) -> bool:
    """Whether nothing is left to migrate; a version that is not known here is refused."""
    scripts = ScriptDirectory.from_config(_config())
    current = MigrationContext.configure(connection).get_current_revision()
    known = {script.revision for script in scripts.walk_revisions()}
    if current is not None and current not in known:
        raise StoreError(
            f"the database has version {current}, this program knows {max(known)} and older: upgrade veilgraph"
        )
    return current == scripts.get_current_head()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(resources.files("veilgraph.collector") / "migrations"))
    return config
