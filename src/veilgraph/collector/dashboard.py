"""The dashboard: pages for the campaign's owner, with charts, estimates and the export of all reports."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from fastapi import FastAPI, Request, Response
from jinja2 import Environment, FunctionLoader, StrictUndefined
from starlette.background import BackgroundTask
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse

from veilgraph.campaign import Campaign
from veilgraph.campaign.plausibility import LEVEL, PlausibleShares, shift_per_liar
from veilgraph.campaign.report import Report
from veilgraph.collector.assessment_file import AssessmentFile
from veilgraph.collector.auth import SESSION_SECONDS, Credentials, Role, end_session, require_role
from veilgraph.collector.errors import Refusal, RefusalReason
from veilgraph.collector.middleware import Limits
from veilgraph.collector.reminders import nodes_asked, nodes_to_remind, to_csv
from veilgraph.collector.shared_parts import SharedParts
from veilgraph.collector.statistics import StatisticsCache
from veilgraph.collector.store import ReportStore
from veilgraph.graph import Graph
from veilgraph.graph.arrow import arrow, column_type
from veilgraph.privacy.estimate import QUANTILE
from veilgraph.privacy.frequency import reports_needed
from veilgraph.privacy.plain_text import counted

# Size of the chart, in the coordinates of its SVG element.
WIDTH, HEIGHT = 1000.0, 200.0
MAX_BARS = 120
# The page says how many reports an interval of this half-width needs: five points of a share.
HALF_WIDTH = 0.05
_HOUR = 3600
_STEPS = (_HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR, 24 * _HOUR, 7 * 24 * _HOUR, 28 * 24 * _HOUR)
_MAX_LOGIN_BYTES = 4096
# Reports of one row group of the export.
_ROW_GROUP = 10_000


@dataclass(frozen=True, kw_only=True)
class Bar:
    """Reports of one time step, as a rectangle of the chart.

    Attributes:
        x: left edge.
        y: upper edge.
        width: width of the bar.
        height: height of the bar.
        text: time and number of reports.
    """

    x: float
    y: float
    width: float
    height: float
    text: str


@dataclass(frozen=True, kw_only=True)
class ArrivalsChart:
    """Geometry of a chart of reports over time; the page draws it.

    Attributes:
        bars: one bar for each time step with reports.
        line: points of the running total, in SVG's notation.
        highest: number of reports of the highest bar.
        step: length of a time step, in words.
        first: start of the first time step.
        last: end of the last time step.
    """

    bars: Sequence[Bar]
    line: str
    highest: int
    step: str
    first: str
    last: str


def arrivals_chart(hours: Sequence[tuple[int, int]]) -> ArrivalsChart | None:
    """Lay out bars of reports per time step, and their running total, with at most `MAX_BARS` time steps.

    Args:
        hours: Unix time of each hour with reports, and their number; earliest first.

    Returns:
        The chart, or None without reports.

    >>> chart = arrivals_chart([(0, 3), (7200, 1)])
    >>> [(round(bar.x), round(bar.height)) for bar in chart.bars], chart.line
    ([(0, 200), (667, 67)], '0,200 333,50 667,50 1000,0')
    """
    if not hours:
        return None
    span = hours[-1][0] + _HOUR - hours[0][0]
    step = next((s for s in _STEPS if span <= s * MAX_BARS), span // MAX_BARS + 1)
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
            text=f"{_time_text(start + number * step)}: {counted(count, 'report')}",
        )
        for number, count in enumerate(counts)
        if count
    ]
    return ArrivalsChart(
        bars=bars,
        line=" ".join(points),
        highest=highest,
        step=_step_text(step),
        first=_time_text(start),
        last=_time_text(start + len(counts) * step),
    )


def _time_text(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%d %H:%M")


def _step_text(step: int) -> str:
    hours = round(step / _HOUR)
    if hours < 24:
        return "hour" if hours == 1 else f"{hours} hours"
    return "day" if hours == 24 else f"{hours // 24} days"


def add_dashboard(
    app: FastAPI,
    *,
    campaign: Campaign,
    revised: Callable[[], Campaign],
    graph: Graph,
    shared: SharedParts,
    credentials: Credentials,
    limits: Limits,
    joined: Iterable[str] = (),
    plausible: PlausibleShares | None = None,
    assessment: AssessmentFile | None = None,
) -> None:
    """Add the pages below /dashboard; all but the login need a session, or the token of the owner or a viewer.

    `revised` returns the campaign with its latest notice, which the pages show and exports hold.

    Links are relative, so that the pages also work below a path of a reverse proxy.
    """
    store = shared.store
    statistics = StatisticsCache(campaign, graph, store, plausible=plausible)
    names = (*graph.names, *joined)
    asked = cache(lambda: _Asked.of(campaign, names, graph))

    async def check_kept() -> None:
        if await asyncio.to_thread(store.purges.hour, campaign.series) is not None:
            raise Refusal(RefusalReason.PURGED)

    @app.get("/dashboard", include_in_schema=False)
    async def show(request: Request) -> Response:
        try:
            role = await require_role(request, credentials, store, Role.VIEWER)
        except Refusal:
            return _page("login.html", 401, wrong=False, base="")
        values = await asyncio.to_thread(_page_values, revised(), store, statistics, asked)
        assessed = None if assessment is None else await asyncio.to_thread(assessment.read, campaign.id)
        return _page("dashboard.html", assessment=assessed, exports=role is Role.OWNER, **values)

    @app.get("/dashboard/", include_in_schema=False)
    async def without_slash() -> Response:
        return RedirectResponse("../dashboard", 308)

    @app.post("/dashboard/login", include_in_schema=False)
    async def login(request: Request) -> Response:
        seconds = limits.body_seconds
        async with shared.bodies.receive(request, max_bytes=_MAX_LOGIN_BYTES, seconds=seconds) as body:
            token = parse_qs(body.decode("utf-8", "replace")).get("token", [""])[0].strip()
        if (role := credentials.role_of(token)) not in (Role.OWNER, Role.VIEWER) or role is None:
            return _page("login.html", 401, wrong=True, base="../")
        await asyncio.to_thread(
            store.audit_log.record, "login", {"campaign": campaign.series}, now=time.time(), actor=role.value
        )
        response = RedirectResponse("../dashboard", 303)
        response.set_cookie(
            credentials.session_cookie,
            credentials.new_session(role),
            max_age=SESSION_SECONDS,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return response

    @app.post("/dashboard/logout", include_in_schema=False)
    async def logout(request: Request) -> Response:
        await end_session(request, credentials, store)
        response = RedirectResponse("../dashboard", 303)
        response.delete_cookie(credentials.session_cookie)
        return response

    @app.get("/dashboard/reports.parquet", include_in_schema=False)
    async def export(request: Request) -> Response:
        await require_role(request, credentials, store)
        await check_kept()
        path = Path(tempfile.mkdtemp(prefix="veilgraph-export-")) / "reports.parquet"
        try:
            written = await asyncio.to_thread(write_parquet, revised(), store.reports.iterate(campaign), path)
            exported = {"campaign": campaign.series, "reports": written}
            await asyncio.to_thread(store.audit_log.record, "export", exported, now=time.time(), actor="owner")
        except BaseException:
            _remove(path)
            raise
        return FileResponse(
            path, filename=f"reports-{campaign.id[:12]}.parquet", background=BackgroundTask(_remove, path)
        )

    @app.get("/dashboard/missing.csv", include_in_schema=False)
    async def missing(request: Request) -> Response:
        await require_role(request, credentials, store)
        await check_kept()
        silent = await asyncio.to_thread(nodes_to_remind, names, store, revised())
        listed = {"campaign": campaign.series, "nodes": len(silent)}
        await asyncio.to_thread(store.audit_log.record, "list missing", listed, now=time.time(), actor="owner")
        headers = {"Content-Disposition": f'attachment; filename="missing-{campaign.id[:12]}.csv"'}
        return Response(to_csv(silent), media_type="text/csv; charset=utf-8", headers=headers)

    @app.get("/dashboard/style.css", include_in_schema=False)
    async def style() -> Response:
        return Response(_page_source("dashboard.css"), media_type="text/css; charset=utf-8")


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """Whom a campaign asks; in turns, each wave asks other people.

    Attributes:
        nodes: names of the nodes that are asked now, with those that joined later.
        people: number of nodes of the graph that each document of a series asks, the label first; otherwise of the
            campaign alone.
    """

    nodes: Sequence[str]
    people: Sequence[int]

    @classmethod
    def of(cls, campaign: Campaign, names: Iterable[str], graph: Graph) -> _Asked:
        """Count whom each document asks; names are all that may report."""
        return cls(nodes=nodes_asked(names, campaign), people=campaign.asked.documents.people_asked(graph.names))


def _page_values(
    campaign: Campaign, store: ReportStore, cache: StatisticsCache, asked: Callable[[], _Asked]
) -> dict[str, Any]:
    """Return the values of dashboard.html."""
    refused = store.refusals.by_reason(campaign.series)
    has_time = campaign.is_open(datetime.now(tz=UTC))
    hours = store.reports.by_hour(campaign.series, wave=campaign.asked.stored_number)
    statistics, label, purged = cache.get(), campaign.label_mechanism, store.purges.hour(campaign.series)
    return {
        "campaign": campaign,
        "is_open": purged is None and has_time,
        "has_time": has_time,
        "purged": None if purged is None else datetime.fromtimestamp(purged, tz=UTC),
        "guarantee": campaign.asked.words.guarantee,
        "series": waves_of_series(campaign, store, asked().people),
        "asked": len(asked().nodes),
        "missing": len(nodes_to_remind(asked().nodes, store, campaign)) if purged is None else 0,
        "in_turns": campaign.asked.documents.turns is not None,
        "share": _share(statistics.reports, asked().people[-1]),
        "reports": sum(count for _, count in hours),
        "withdrawn": store.withdrawals.count(campaign.series),
        "objected": store.withdrawals.objections(campaign.series),
        "chart": arrivals_chart(hours),
        "statistics": statistics,
        "level": LEVEL,
        "label": label,
        "shift_per_liar": shift_per_liar(label.channel) if label else None,
        "half_width": HALF_WIDTH,
        "reports_needed": reports_needed(label.channel, HALF_WIDTH, quantile=QUANTILE) if label else None,
        "computed_at": datetime.fromtimestamp(statistics.computed_at, tz=UTC),
        "refused": sorted(((count, _reason_text(reason)) for reason, count in refused.items()), reverse=True),
    }


def waves_of_series(campaign: Campaign, store: ReportStore, people: Sequence[int]) -> list[tuple[str, int, float]]:
    """Return of each document of a series about neighbours what it asked, how many answered, and their share.

    Other campaigns have no such documents.

    Args:
        campaign: the newest document.
        store: store of the reports.
        people: number of people whom each document asks.
    """
    titles = campaign.asked.documents.titles
    if not titles:
        return []
    counts = [store.reports.count(campaign.series, wave=wave) for wave in range(len(titles))]
    return [(title, count, _share(count, asked)) for title, count, asked in zip(titles, counts, people, strict=True)]


def _share(part: int, whole: int) -> float:
    """Return a share; 0 of nobody."""
    return part / whole if whole else 0.0


def _reason_text(reason: str) -> str:
    """Return the explanation of a reason; the store may hold reasons of another version."""
    try:
        return RefusalReason(reason).text
    except ValueError:
        return reason


def _page(name: str, status: int = 200, **values: Any) -> HTMLResponse:
    return HTMLResponse(_ENVIRONMENT.get_template(name).render(counted=counted, **values), status)


def _page_source(name: str) -> str:
    return (resources.files("veilgraph.collector") / "pages" / name).read_text(encoding="utf-8")


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.parent.rmdir()


_ENVIRONMENT = Environment(
    autoescape=True,
    loader=FunctionLoader(_page_source),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def write_parquet(campaign: Campaign, reports: Iterable[Report], path: Path) -> int:
    """Write one row for each report, in a series with its wave, and the campaign in the file's metadata.

    Args:
        campaign: campaign of the reports.
        reports: its reports; one row group is in memory at a time.
        path: file to write.

    Returns:
        Number of reports.
    """
    pa, parquet = arrow(), arrow("parquet")
    fields = [("node", pa.string()), *((part, column_type(each)) for part, each in campaign.asked.report_parts.items())]
    schema = pa.schema(fields, metadata={"veilgraph.campaign": campaign.to_json()})
    written, remaining = 0, iter(reports)
    with parquet.ParquetWriter(path, schema) as writer:
        while group := list(islice(remaining, _ROW_GROUP)):
            columns = [[getattr(report, name) for report in group] for name, _ in fields]
            writer.write_table(pa.table(columns, schema=schema))
            written += len(group)
    return written
