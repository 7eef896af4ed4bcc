"""Alembic's environment: runs migrations over the connection that the database opened."""

from __future__ import annotations

from alembic import context

from veilgraph.collector.tables import metadata

# Alembic runs this file with a configuration; a plain import does nothing.
if hasattr(context, "config"):
    context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
    context.run_migrations()
