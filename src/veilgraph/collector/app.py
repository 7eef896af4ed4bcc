"""The collector of one campaign as a web application: its routes, and the participant's page."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

import veilgraph
from veilgraph.campaign import Campaign
from veilgraph.campaign.assemble import check_graph
from veilgraph.campaign.plausibility import PlausibleShares
from veilgraph.collector import openapi
from veilgraph.collector.assessment_file import AssessmentFile
from veilgraph.collector.auth import Credentials, Role, bearer_token, require_role
from veilgraph.collector.dashboard import add_dashboard
from veilgraph.collector.errors import AsciiJSON, Refusal, RefusalReason
from veilgraph.collector.health import add_health
from veilgraph.collector.metrics import Metrics
from veilgraph.collector.middleware import (
    DirectRoute,
    ErrorBoundary,
    Limits,
    RateLimit,
    SecurityHeaders,
    max_report_bytes,
)
from veilgraph.collector.participant_page import PageFile, PageFiles, participant_page
from veilgraph.collector.participant_rights import add_participant_rights
from veilgraph.collector.published import add_published, check_published
from veilgraph.collector.retention import maintain_regularly
from veilgraph.collector.revisions import RevisedFile, take_up_revisions
from veilgraph.collector.shared_parts import SharedParts
from veilgraph.collector.store import ReportStore
from veilgraph.collector.submission import ReportSizes, add_submission
from veilgraph.collector.validation import ReportValidator
from veilgraph.errors import StoreError, StoreFullError, StoreUnavailableError
from veilgraph.graph import Graph

logger = logging.getLogger("veilgraph.collector")

_SAVE_REFUSALS_SECONDS = 5.0
# Digits of a campaign's id that name it in the metrics.
_ID_DIGITS = 12


def make_app(
    *,
    campaign: Campaign,
    graph: Graph,
    store: ReportStore,
    credentials: Credentials,
    joined: Iterable[str] = (),
    limits: Limits | None = None,
    plausible: PlausibleShares | None = None,
    campaign_file: Path | None = None,
    assessment: AssessmentFile | None = None,
    clock: Callable[[], float] = time.time,
    maintenance_seconds: float = 60.0,
    shared: SharedParts | None = None,
    published: Mapping[str, bytes] | None = None,
) -> FastAPI:
    """Make the collector of one campaign on its public graph.

    All its addresses are relative, so that it can be served at the root or below a path: `CampaignsTogether`. Its
    `state.campaign()` is the campaign with its latest notice.

    Args:
        campaign: campaign whose reports are collected.
        graph: public graph that the campaign was made for; its nodes may report.
        store: store of the reports.
        credentials: signing keys of node tokens, and the admin token.
        joined: names of nodes that joined the graph after the campaign was made, and may report too.
        limits: limits on requests.
        plausible: class shares that the owner declared plausible; the dashboard compares the estimates with them.
        campaign_file: file of the campaign; a revised notice in it is taken up.
        assessment: file with the accuracy of a model on these reports, which the dashboard shows.
        clock: Unix time.
        maintenance_seconds: time between two looks at the campaign's notice and its retention date.
        shared: what the campaign shares with others of this process; default: it is alone.
        published: files of a wave about neighbours by their SHA-256: the belief table and the people. Each is served
            whole, so that a device that looks somebody up reveals nothing.
    """
    check_published(campaign, published or {})
    check_graph(campaign, graph)
    store.documents.register(campaign, now=clock())
    joined = tuple(joined)
    limits = limits or Limits()
    nodes = frozenset(graph.names) | frozenset(joined)
    sizes = ReportSizes(max_report_bytes(campaign, longest_name=max(map(len, nodes))))
    validator = ReportValidator(campaign=campaign, nodes=nodes, credentials=credentials, clock=clock)
    alone = shared is None
    shared = shared or SharedParts(store, limits=limits, clock=clock, maintenance_seconds=maintenance_seconds)
    shared.served.add(campaign.id)
    writer = shared.writer
    metrics = Metrics(
        campaign=campaign.id[:_ID_DIGITS],
        queued=lambda: writer.queued,
        database_up=lambda: shared.database.is_up,
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            if alone:
                await stack.enter_async_context(shared.running())
            started: dict[str, str | int] = {"campaign": campaign.series, "version": veilgraph.__version__}
            started |= campaign.asked.documents.described
            await asyncio.to_thread(store.audit_log.record, "start", started, now=clock(), actor="collector")
            tasks = [
                asyncio.create_task(_save_refusals_regularly(store, campaign.series, metrics)),
                asyncio.create_task(
                    maintain_regularly(
                        lambda: validator.campaign,
                        store,
                        clock=clock,
                        counted=metrics.set_stored,
                        unavailable=shared.database.suspect,
                        seconds=maintenance_seconds,
                    )
                ),
            ]
            if campaign_file is not None:
                take_up = partial(setattr, validator, "campaign")
                tasks.append(asyncio.create_task(take_up_revisions(RevisedFile(campaign_file, campaign), take_up)))
            if assessment is not None and assessment.command:
                tasks.append(asyncio.create_task(assessment.compute_regularly(shared.assessing)))
            yield
            for task in tasks:
                task.cancel()
            await asyncio.to_thread(_save_refusals, store, campaign.series, metrics)

    app = new_app(title="veilgraph collector", version=veilgraph.__version__, lifespan=lifespan)
    app.state.campaign = lambda: validator.campaign
    refuse = answer_refusals(app, shared, metrics)
    _add_campaign(app, validator, shared)
    add_health(app, shared)
    submit_one = add_submission(
        app, validator=validator, shared=shared, metrics=metrics, sizes=sizes, seconds=limits.body_seconds
    )
    app.add_middleware(
        DirectRoute,
        method="PUT",
        prefix="/v1/reports/",
        endpoint=submit_one,
        refuse=refuse,
        refused=(Refusal, StoreError),
    )
    add_boundaries(app, shared, metrics, files=participant_page())
    add_participant_rights(app, validator=validator, shared=shared, limits=limits)
    _add_administration(app, validator, shared, credentials, metrics)
    if published:
        add_published(app, published)
    add_dashboard(
        app,
        campaign=campaign,
        revised=lambda: validator.campaign,
        graph=graph,
        shared=shared,
        credentials=credentials,
        limits=limits,
        joined=joined,
        plausible=plausible,
        assessment=assessment,
    )
    return app


def new_app(**options: Any) -> FastAPI:
    """Make an application without what FastAPI would add to it."""
    return FastAPI(
        # The pages load scripts from another site.
        docs_url=None,
        redoc_url=None,
        default_response_class=AsciiJSON,
        # A redirection would name the host that the client claims, and lead out of the path of a proxy.
        redirect_slashes=False,
        # Traces and logs would hold paths, which name nodes.
        telemetry={"tracing": False, "metrics": False, "logs": False},
        **options,
    )


def answer_refusals(app: FastAPI, shared: SharedParts, metrics: Metrics) -> Callable[[Request, Exception], Response]:
    """Answer and count refusals and errors of the store, wherever a route raises them; return what answers."""

    def refuse(_: Request, error: Exception) -> Response:
        refusal = _as_refusal(error)
        metrics.count_refusal(refusal.reason)
        if refusal.reason in (RefusalReason.STORE_UNAVAILABLE, RefusalReason.STORE_FULL):
            shared.database.count_refusal()
        return refusal.response()

    for kind in (Refusal, StoreError, HTTPException):
        app.add_exception_handler(kind, refuse)
    return refuse


def add_boundaries(app: FastAPI, shared: SharedParts, metrics: Metrics, *, files: Mapping[str, PageFile]) -> None:
    """Add what every request passes: security headers, rate limit, and an answer to unexpected errors.

    Files in memory are outside of the rate limit: to refuse one costs as much, and a crowd may have one address.
    """
    # The last one added is the outermost.
    app.add_middleware(ErrorBoundary)
    app.add_middleware(RateLimit, buckets=shared.buckets, metrics=metrics)
    app.add_middleware(PageFiles, files=files)
    app.add_middleware(SecurityHeaders)


def _as_refusal(error: Exception) -> Refusal:
    if isinstance(error, Refusal):
        return error
    if isinstance(error, StoreError):
        full = isinstance(error, StoreFullError)
        return Refusal(RefusalReason.STORE_FULL if full else RefusalReason.STORE_UNAVAILABLE, str(error))
    # The router raises it, for paths and methods that no route has.
    status = error.status_code if isinstance(error, HTTPException) else None
    return Refusal(RefusalReason(f"http_{status}"))


def _add_campaign(app: FastAPI, validator: ReportValidator, shared: SharedParts) -> None:
    @app.get("/v1/campaign", summary="The campaign document that participants answer", responses=openapi.CAMPAIGN)
    async def get_campaign(request: Request) -> Response:
        campaign = validator.campaign
        if await _is_purged(shared, campaign):  # nobody answers in vain
            raise Refusal(RefusalReason.PURGED)
        headers = {"ETag": f'"{campaign.id}.{campaign.notice.version}"', "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        return Response(campaign.to_json(), media_type="application/json", headers=headers)


async def _is_purged(shared: SharedParts, campaign: Campaign) -> bool:
    """Return whether the campaign's reports were deleted for good. During an outage nobody knows, and it is open."""
    if shared.database.is_up:
        try:
            return await asyncio.to_thread(shared.store.purges.hour, campaign.series) is not None
        except StoreError:
            shared.database.suspect()
    return False


def _add_administration(
    app: FastAPI,
    validator: ReportValidator,
    shared: SharedParts,
    credentials: Credentials,
    metrics: Metrics,
) -> None:
    store = shared.store

    @app.get(
        "/v1/status", summary="Whether the campaign is open; counts for the administration", responses=openapi.STATUS
    )
    async def status(request: Request) -> openapi.StatusBody:
        campaign = validator.campaign
        is_purged = await _is_purged(shared, campaign)
        body: openapi.StatusBody = {
            "campaign": campaign.id,
            "closes": campaign.notice.document["closes"],
            "open": validator.is_open and not is_purged,
            "purged": is_purged,
        }
        if not bearer_token(request):
            return body
        await require_role(request, credentials, store, Role.VIEWER)
        reports, refusals = await asyncio.gather(
            asyncio.to_thread(store.reports.count, campaign.series, wave=campaign.asked.stored_number),
            asyncio.to_thread(store.refusals.by_reason, campaign.series),
        )
        return {**body, "nodes": campaign.nodes, "reports": reports, "refused": refusals}

    @app.get("/metrics", summary="Metrics for Prometheus; needs the scraper's token", responses=openapi.METRICS)
    async def get_metrics(request: Request) -> Response:
        await require_role(request, credentials, store, Role.SCRAPER)
        return Response(metrics.render(), media_type="text/plain; version=0.0.4")

    @app.get("/v1/audit-log", include_in_schema=False)
    async def get_audit_log(request: Request) -> Response:
        await require_role(request, credentials, store, Role.AUDITOR)
        entries = await asyncio.to_thread(store.audit_log.entries, validator.campaign.series)
        return AsciiJSON({"entries": [entry.document for entry in entries]})


async def _save_refusals_regularly(store: ReportStore, campaign_id: str, metrics: Metrics) -> None:
    while True:
        await asyncio.sleep(_SAVE_REFUSALS_SECONDS)
        await asyncio.to_thread(_save_refusals, store, campaign_id, metrics)


def _save_refusals(store: ReportStore, campaign_id: str, metrics: Metrics) -> None:
    counts = metrics.take_unsaved()
    try:
        store.refusals.add(campaign_id, counts)
    except (StoreUnavailableError, StoreFullError):
        # Requests find it out, too; this is not worth a line of the log.
        metrics.restore_unsaved(counts)
    except StoreError as error:
        metrics.restore_unsaved(counts)
        logger.warning("the counts of refusals could not be stored, and are kept for later: %s", type(error).__name__)
