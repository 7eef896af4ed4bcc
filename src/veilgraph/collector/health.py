"""Routes for those who operate the collector: whether its process is alive, and whether it can store reports."""

from __future__ import annotations

from fastapi import FastAPI

from veilgraph.collector import openapi
from veilgraph.collector.collector import SharedParts


def add_health(app: FastAPI, *shared: SharedParts) -> None:
    """Add the routes, for GET and HEAD; they say nothing about a campaign. With several stores, all must be ready."""

    async def live() -> openapi.HealthBody:
        for parts in shared:
            parts.writer.check_alive()
        return {"status": "ok"}

    async def ready() -> openapi.HealthBody:
        for parts in shared:
            await parts.check_ready()
        return {"status": "ok"}

    can_store = "Whether the collector can store reports: database, room, version of the tables, writer and queue"
    for path, summary, endpoint in (
        ("/health/live", "Whether the process is alive; if not, restart it", live),
        ("/health/ready", can_store, ready),
        ("/health", "The same as /health/ready", ready),
    ):
        app.get(path, summary=summary, responses=openapi.HEALTH)(endpoint)
        app.head(path, include_in_schema=False)(endpoint)
