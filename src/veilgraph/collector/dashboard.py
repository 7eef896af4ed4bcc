"""The owner's pages: what came in, what it says about everyone, what was refused, and the reports to take away."""

from __future__ import annotations

import asyncio
import tempfile
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from fastapi import FastAPI, Request, Response
from jinja2 import Environment, FunctionLoader, StrictUndefined
from starlette.background import BackgroundTask
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse

from veilgraph.campaign import Campaign
from veilgraph.collector.auth import SESSION_COOKIE, SESSION_SECONDS, Credentials, require_admin
from veilgraph.collector.charts import arrivals_chart
from veilgraph.collector.export import write_parquet
from veilgraph.collector.limits import Limits, read_body
from veilgraph.collector.refusal import Refusal
from veilgraph.collector.snapshot import SnapshotCache
from veilgraph.collector.store import ReportStore
from veilgraph.graph import Graph

_REASONS = {
    "another_node": "the report names another node than the request",
    "broken_off": "the connection ended before the request did",
    "closed": "the campaign was closed",
    "conflict": "another report of the node stands",
    "http_404": "there is no such address",
    "http_405": "there is no such method at this address",
    "not_admin": "the administration's token was missing or wrong",
    "not_json": "the request was not JSON",
    "not_valid": "the report does not fit the campaign",
    "store_full": "the store was full",
    "store_unavailable": "the database did not answer",
    "too_large": "the request was too large",
    "too_many_requests": "one address asked too often",
    "too_slow": "the request did not arrive in time",
    "unknown_node": "the public graph has no such node",
    "wrong_token": "the token was missing or not the node's",
}


def add_dashboard(
    app: FastAPI, *, campaign: Campaign, graph: Graph, store: ReportStore, credentials: Credentials, limits: Limits
) -> None:
    """Serve the pages below /dashboard; all but the login need a session.

    Addresses are relative, so that the pages also work below a path of a reverse proxy.
    """
    cache = SnapshotCache(campaign, graph, store)

    @app.get("/dashboard", include_in_schema=False)
    async def show(request: Request) -> Response:
        try:
            require_admin(request, credentials)
        except Refusal:
            return _page("login.html", 401, wrong=False, base="")
        return _page("dashboard.html", **await asyncio.to_thread(_values, campaign, store, cache))

    @app.post("/dashboard/login", include_in_schema=False)
    async def login(request: Request) -> Response:
        body = await read_body(request, most_bytes=4096, seconds=limits.body_seconds)
        token = parse_qs(body.decode("utf-8", "replace")).get("token", [""])[0].strip()
        if not credentials.opens_administration(token):
            return _page("login.html", 401, wrong=True, base="../")
        response = RedirectResponse("../dashboard", 303)
        response.set_cookie(
            SESSION_COOKIE,
            credentials.new_session(),
            max_age=SESSION_SECONDS,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return response

    @app.post("/dashboard/logout", include_in_schema=False)
    async def logout() -> Response:
        response = RedirectResponse("../dashboard", 303)
        response.delete_cookie(SESSION_COOKIE)
        return response

    @app.get("/dashboard/reports.parquet", include_in_schema=False)
    async def export(request: Request) -> Response:
        require_admin(request, credentials)
        path = Path(tempfile.mkdtemp(prefix="veilgraph-export-")) / "reports.parquet"
        try:
            await asyncio.to_thread(write_parquet, campaign, store.iterate(campaign), path)
        except BaseException:
            _remove(path)
            raise
        return FileResponse(
            path, filename=f"reports-{campaign.id[:12]}.parquet", background=BackgroundTask(_remove, path)
        )

    @app.get("/dashboard/style.css", include_in_schema=False)
    async def style() -> Response:
        return Response(_source("dashboard.css"), media_type="text/css; charset=utf-8")


def _values(campaign: Campaign, store: ReportStore, cache: SnapshotCache) -> dict[str, Any]:
    """Everything that the page shows."""
    refused = store.refusals(campaign.id)
    hours = store.by_hour(campaign.id)
    snapshot = cache.get()
    return {
        "campaign": campaign,
        "is_open": campaign.is_open(datetime.now(tz=UTC)),
        "guarantee": campaign.guarantee.in_words()[:3],
        "reports": sum(count for _, count in hours),
        "chart": arrivals_chart(hours),
        "snapshot": snapshot,
        "made": datetime.fromtimestamp(snapshot.made, tz=UTC),
        "refused": sorted(((count, _REASONS.get(why, why)) for why, count in refused.items()), reverse=True),
    }


def _page(name: str, status: int = 200, **values: Any) -> HTMLResponse:
    return HTMLResponse(_ENVIRONMENT.get_template(name).render(**values), status)


def _source(name: str) -> str:
    return (resources.files("veilgraph.collector") / "pages" / name).read_text(encoding="utf-8")


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.parent.rmdir()


_ENVIRONMENT = Environment(
    autoescape=True, loader=FunctionLoader(_source), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)
