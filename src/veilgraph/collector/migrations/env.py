"""Alembic's entry: migrates over the connection that the store opened."""

from __future__ import annotations

from alembic import context

from veilgraph.collector.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
