"""Shapes of the dashboard's charts, in the coordinates of their SVG elements: numbers only, drawn by the page."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
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
from veilgraph.collector.errors import Refusal
from veilgraph.collector.export import write_parquet
from veilgraph.collector.middleware import Limits, read_body
from veilgraph.collector.statistics import SnapshotCache
from veilgraph.collector.store import ReportStore
from veilgraph.graph import Graph

WIDTH, HEIGHT = 1000.0, 200.0
_MOST_BARS = 120
_HOUR = 3600
_STEPS = (_HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR, 24 * _HOUR, 7 * 24 * _HOUR, 28 * 24 * _HOUR)


@dataclass(frozen=True, kw_only=True)
class Bar:
    """Reports that arrived in one step of time.

    Attributes:
        x: left edge.
        y: upper edge.
        width: of the bar.
        height: of the bar.
        text: what it stands for.
    """

    x: float
    y: float
    width: float
    height: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Arrivals:
    """Reports over time.

    Attributes:
        bars: one per step.
        line: points of the running total, as SVG wants them.
        highest: reports in the highest bar.
        step: of time, in words.
        first: when the first step begins.
        last: when the last step ends.
    """

    bars: Sequence[Bar]
    line: str
    highest: int
    step: str
    first: str
    last: str


def arrivals_chart(hours: Sequence[tuple[int, int]]) -> Arrivals | None:
    """Bars of reports per step and the running total; steps are as short as fit. None before the first report.

    >>> chart = arrivals_chart([(0, 3), (7200, 1)])
    >>> [(round(bar.x), round(bar.height)) for bar in chart.bars], chart.line
    ([(0, 200), (667, 67)], '0,200 333,50 667,50 1000,0')
    """
    if not hours:
        return None
    span = hours[-1][0] + _HOUR - hours[0][0]
    step = next((s for s in _STEPS if span <= s * _MOST_BARS), span // _MOST_BARS + 1)
    start = hours[0][0] // step * step
    counts = [0] * ((hours[-1][0] - start) // step + 1)
    for hour, count in hours:
        counts[(hour - start) // step] += count
    width, highest, total = WIDTH / len(counts), max(counts), sum(counts)
    running, points = 0, [f"0,{HEIGHT:g}"]
    for number, count in enumerate(counts, start=1):
        running += count
        points.append(f"{number * width:.0f},{HEIGHT * (1 - running / total):.0f}")
    bars = [
        Bar(
            x=number * width,
            y=HEIGHT * (1 - count / highest),
            width=width,
            height=HEIGHT * count / highest,
            text=f"{_time(start + number * step)}: {count:,} reports",
        )
        for number, count in enumerate(counts)
        if count
    ]
    return Arrivals(
        bars=bars,
        line=" ".join(points),
        highest=highest,
        step=_words(step),
        first=_time(start),
        last=_time(start + len(counts) * step),
    )


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%d %H:%M")


def _words(step: int) -> str:
    hours = round(step / _HOUR)
    if hours < 24:
        return "hour" if hours == 1 else f"{hours} hours"
    return "day" if hours == 24 else f"{hours // 24} days"


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
