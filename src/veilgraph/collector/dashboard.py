"""The owner's page."""

from __future__ import annotations

from fastapi import FastAPI

from veilgraph.campaign import Campaign
from veilgraph.collector.auth import Credentials
from veilgraph.collector.limits import Limits
from veilgraph.collector.store import ReportStore
from veilgraph.graph import Graph


def add_dashboard(
    app: FastAPI, *, campaign: Campaign, graph: Graph, store: ReportStore, credentials: Credentials, limits: Limits
) -> None:
    """Soon."""
