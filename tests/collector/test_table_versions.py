"""Versions of the tables, and who may open which."""

from __future__ import annotations

from importlib import resources

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text

from veilgraph.collector.store import ReportStore
from veilgraph.collector.table_versions import known_versions
from veilgraph.collector.tables import metadata
from veilgraph.errors import StoreError


def test_the_migrations_lead_to_the_tables_that_the_code_uses(store_url: str) -> None:
    ReportStore.open(store_url).close()
    store = ReportStore.open(store_url)  # again: nothing is left to do
    inspector = inspect(store.database.engine)
    for name, table in metadata.tables.items():
        found = [(c["name"], c["nullable"]) for c in inspector.get_columns(name)]
        assert found == [(c.name, c.nullable) for c in table.columns]
        assert inspector.get_pk_constraint(name)["constrained_columns"] == [c.name for c in table.primary_key]
    store.close()


def test_the_files_of_the_migrations_name_the_versions_they_lead_to() -> None:
    scripts = ScriptDirectory(str(resources.files("veilgraph.collector") / "migrations"))
    assert known_versions() == sorted(script.revision for script in scripts.walk_revisions())


def test_a_database_of_a_newer_version_is_refused(store_url: str) -> None:
    store = ReportStore.open(store_url)
    with store.database.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    store.close()
    for create in (True, False):
        with pytest.raises(StoreError, match=r"9999.*upgrade veilgraph"):
            ReportStore.open(store_url, create=create)
