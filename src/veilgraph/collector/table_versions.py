"""Versions of the collector's tables, and the migrations that lead from one to the next."""

from __future__ import annotations

from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from sqlalchemy import Connection, inspect, text

from veilgraph.errors import StoreError

# Key of the advisory lock: collectors that start at the same time migrate one after the other.
_MIGRATION_LOCK = 7_239_114_001


def migrate(connection: Connection) -> None:
    """Run the pending migrations in the connection's transaction; refuse a database of a newer version."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATION_LOCK})
    if _is_current(connection):
        return
    from alembic import command  # slow to import, and needed here only
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_migrations()))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def check_current(connection: Connection) -> None:
    """Refuse a database whose tables have another version than this program."""
    if not _is_current(connection):
        raise StoreError("the database holds no reports of this version; run 'veilgraph serve' on it")


@cache
def newest_version() -> str:
    """Return the version of the tables that this program writes."""
    return max(known_versions())


def known_versions() -> list[str]:
    """Return the versions of the tables that there are migrations to: their files are vVERSION_TITLE.py.

    >>> known_versions()[0]
    '0001'
    """
    files = (path.name for path in (_migrations() / "versions").iterdir())
    return sorted(name[1:].partition("_")[0] for name in files if name.startswith("v"))


def _is_current(connection: Connection) -> bool:
    if not inspect(connection).has_table("alembic_version"):
        return False
    version = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    if version is not None and version not in known_versions():
        raise StoreError(
            f"the database has version {version}, this program knows version {newest_version()}: upgrade veilgraph"
        )
    return version == newest_version()


def _migrations() -> Traversable:
    return resources.files("veilgraph.collector") / "migrations"
