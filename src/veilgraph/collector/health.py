"""Routes for those who operate the collector: whether it can store reports."""

from __future__ import annotations

import asyncio

from fastapi import FastAPI

from veilgraph.collector import openapi
from veilgraph.collector.store import ReportStore


def add_health(app: FastAPI, store: ReportStore) -> None:
    """Add the routes; they say nothing about a campaign."""

    @app.get("/health", summary="Whether the collector can store reports", responses=openapi.HEALTH)
    async def health() -> openapi.HealthBody:
        await asyncio.to_thread(store.check)
        return {"status": "ok"}
