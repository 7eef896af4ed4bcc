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
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from fastapi import FastAPI, Request, Response
from jinja2 import Environment, FunctionLoader, StrictUndefined
from starlette.background import BackgroundTask
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse

from veilgraph.campaign import Campaign
from veilgraph.campaign.plausibility import LEVEL, shift_per_liar
from veilgraph.collector.arrivals_chart import arrivals_chart
from veilgraph.collector.auth import SESSION_SECONDS, Role, end_session, require_role
from veilgraph.collector.collector import SharedParts
from veilgraph.collector.errors import Refusal, RefusalReason
from veilgraph.collector.export import write_parquet
from veilgraph.collector.reminders import nodes_asked, nodes_to_remind, to_csv
from veilgraph.collector.served_campaign import ServedCampaign
from veilgraph.collector.statistics import StatisticsCache
from veilgraph.collector.store import ReportStore
from veilgraph.graph import Graph
from veilgraph.privacy.estimate import QUANTILE
from veilgraph.privacy.frequency import reports_needed
from veilgraph.privacy.plain_text import counted

# The page says how many reports an interval of this half-width needs: five points of a share.
HALF_WIDTH = 0.05
_MAX_LOGIN_BYTES = 4096


class Dashboard:
    """Pages for the campaign's owner; all but the login need a session, or the token of the owner or a viewer.

    Links are relative, so that the pages also work below a path of a reverse proxy.

    Args:
        served: what the files of the campaign hold.
        shared: what the campaign shares with others.
        revised: returns the campaign with its latest notice, which the pages show and exports hold.
    """

    def __init__(self, served: ServedCampaign, shared: SharedParts, revised: Callable[[], Campaign]) -> None:
        self._served, self._shared, self._revised = served, shared, revised
        self._store, self._credentials = shared.store, served.credentials
        self._statistics = StatisticsCache(served.campaign, served.graph, shared.store, plausible=served.plausible)
        self._asked = cache(lambda: _Asked.of(served.campaign, served.names, served.graph))

    async def show(self, request: Request) -> Response:
        """Show the campaign's page, or the login."""
        try:
            role = await require_role(request, self._credentials, self._store, Role.VIEWER)
        except Refusal:
            return _page("login.html", 401, wrong=False, base="")
        values = await asyncio.to_thread(_page_values, self._revised(), self._store, self._statistics, self._asked)
        assessment, campaign_id = self._served.assessment, self._served.campaign.id
        assessed = None if assessment is None else await asyncio.to_thread(assessment.read, campaign_id)
        return _page("dashboard.html", assessment=assessed, exports=role is Role.OWNER, **values)

    async def login(self, request: Request) -> Response:
        """Open a session for a token."""
        seconds = self._shared.limits.body_seconds
        async with self._shared.bodies.receive(request, max_bytes=_MAX_LOGIN_BYTES, seconds=seconds) as body:
            token = parse_qs(body.decode("utf-8", "replace")).get("token", [""])[0].strip()
        if (role := self._credentials.role_of(token)) not in (Role.OWNER, Role.VIEWER) or role is None:
            return _page("login.html", 401, wrong=True, base="../")
        await self._record("login", actor=role.value)
        response = RedirectResponse("../dashboard", 303)
        response.set_cookie(
            self._credentials.session_cookie,
            self._credentials.new_session(role),
            max_age=SESSION_SECONDS,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return response

    async def logout(self, request: Request) -> Response:
        """End the session."""
        await end_session(request, self._credentials, self._store)
        response = RedirectResponse("../dashboard", 303)
        response.delete_cookie(self._credentials.session_cookie)
        return response

    async def export(self, request: Request) -> Response:
        """Send all reports as a Parquet file."""
        await self._check_exports(request)
        campaign = self._served.campaign
        path = Path(tempfile.mkdtemp(prefix="veilgraph-export-")) / "reports.parquet"
        try:
            reports = self._store.reports.iterate(campaign)
            written = await asyncio.to_thread(write_parquet, self._revised(), reports, path)
            await self._record("export", reports=written)
        except BaseException:
            _remove(path)
            raise
        return FileResponse(
            path, filename=f"reports-{campaign.id[:12]}.parquet", background=BackgroundTask(_remove, path)
        )

    async def missing(self, request: Request) -> Response:
        """Send the list of the nodes to remind."""
        await self._check_exports(request)
        silent = await asyncio.to_thread(nodes_to_remind, self._served.names, self._store, self._revised())
        await self._record("list missing", nodes=len(silent))
        name = f"missing-{self._served.campaign.id[:12]}.csv"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(to_csv(silent), media_type="text/csv; charset=utf-8", headers=headers)

    async def _check_exports(self, request: Request) -> None:
        """Refuse all but the owner, and everybody after a purge."""
        await require_role(request, self._credentials, self._store)
        if await asyncio.to_thread(self._store.purges.hour, self._served.campaign.series) is not None:
            raise Refusal(RefusalReason.PURGED)

    async def _record(self, action: str, *, actor: str = "owner", **detail: int) -> None:
        of_campaign = {"campaign": self._served.campaign.series, **detail}
        await asyncio.to_thread(self._store.audit_log.record, action, of_campaign, now=time.time(), actor=actor)


def add_dashboard(
    app: FastAPI, served: ServedCampaign, shared: SharedParts, *, revised: Callable[[], Campaign]
) -> None:
    """Add the pages below /dashboard; `Dashboard` describes the arguments."""
    pages = Dashboard(served, shared, revised)
    for path, page in (
        ("/dashboard", pages.show),
        ("/dashboard/", _without_slash),
        ("/dashboard/reports.parquet", pages.export),
        ("/dashboard/missing.csv", pages.missing),
        ("/dashboard/style.css", _style),
    ):
        app.get(path, include_in_schema=False)(page)
    app.post("/dashboard/login", include_in_schema=False)(pages.login)
    app.post("/dashboard/logout", include_in_schema=False)(pages.logout)


async def _without_slash() -> Response:
    return RedirectResponse("../dashboard", 308)


async def _style() -> Response:
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
        "in_turns": campaign.asked.documents.in_turns,
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
