"""The collector of one campaign as a web application: its routes, and the participant's page."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

import veilgraph
from veilgraph.campaign import Campaign
from veilgraph.campaign.assemble import check_graph
from veilgraph.campaign.series_folder import PublishedWave
from veilgraph.collector import openapi
from veilgraph.collector.auth import Credentials, Role, bearer_token, require_role
from veilgraph.collector.collector import SharedParts
from veilgraph.collector.contact_names import add_contact_names
from veilgraph.collector.dashboard import add_dashboard
from veilgraph.collector.errors import AsciiJSON, Refusal, RefusalReason
from veilgraph.collector.health import add_health
from veilgraph.collector.metrics import Metrics
from veilgraph.collector.middleware import ErrorBoundary, RateLimit, SecurityHeaders, max_report_bytes
from veilgraph.collector.participant_page import PageFile, PageFiles, participant_page
from veilgraph.collector.participant_rights import add_participant_rights
from veilgraph.collector.published import add_published, check_published
from veilgraph.collector.retention import maintain_regularly
from veilgraph.collector.revisions import RevisedFile, take_up_revisions
from veilgraph.collector.served_campaign import ServedCampaign
from veilgraph.collector.store import ReportStore
from veilgraph.collector.submission import ReportSizes, add_submission
from veilgraph.collector.validation import ReportValidator
from veilgraph.errors import StoreError, StoreFullError, StoreUnavailableError

logger = logging.getLogger("veilgraph.collector")

_SAVE_REFUSALS_SECONDS = 5.0
# Digits of a campaign's id that name it in the metrics.
_ID_DIGITS = 12


class CampaignApp:
    """ASGI application of one campaign on its public graph.

    All its addresses are relative, so that it can be at the root or below a path: `CampaignsTogether`.

    Args:
        served: what the files of the campaign hold.
        shared: what the campaign shares with others of this process.

    Attributes:
        served: what the files of the campaign hold.
        shared: what the campaign shares with others of this process.
        api: its routes.
    """

    def __init__(self, served: ServedCampaign, shared: SharedParts) -> None:
        check_published(served.campaign, served.published)
        check_graph(served.campaign, served.graph)
        documents, now = shared.store.documents, shared.clock()
        for earlier in served.earlier:
            documents.register(earlier, now=now)
        documents.check_newest(served.campaign)
        documents.register(served.campaign, now=now)
        shared.served.add(served.campaign.id)
        self.served, self.shared = served, shared
        self._validator = ReportValidator(
            campaign=served.campaign,
            nodes=frozenset(served.names),
            credentials=served.credentials,
            clock=shared.clock,
        )
        self._metrics = Metrics(
            campaign=served.campaign.id[:_ID_DIGITS],
            queued=lambda: shared.writer.queued,
            database_up=lambda: shared.database.is_up,
        )
        self.api = self._routes()

    @property
    def campaign(self) -> Campaign:
        """The campaign with its latest notice."""
        return self._validator.campaign

    def followed_by(self, wave: PublishedWave) -> CampaignApp:
        """Return the application of the next wave; raise an error where it cannot be served."""
        return CampaignApp(self.served.followed_by(wave), self.shared)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        await self.api(scope, receive, send)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Take up revised notices, purge, count and assess, as long as the context lasts."""
        campaign, store = self.served.campaign, self.shared.store
        started: dict[str, str | int] = {"campaign": campaign.series, "version": veilgraph.__version__}
        started |= campaign.asked.documents.described
        record = store.audit_log.record
        await asyncio.to_thread(record, "start", started, now=self.shared.clock(), actor="collector")
        tasks = [asyncio.create_task(work) for work in self._regular_work()]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.to_thread(_save_refusals, store, campaign.series, self._metrics)

    def _regular_work(self) -> Iterator[Coroutine[Any, Any, None]]:
        served, shared = self.served, self.shared
        yield _save_refusals_regularly(shared.store, served.campaign.series, self._metrics)
        yield maintain_regularly(
            lambda: self.campaign,
            shared.store,
            clock=shared.clock,
            counted=self._metrics.set_stored,
            unavailable=shared.database.suspect,
            seconds=shared.maintenance_seconds,
        )
        if served.campaign_file is not None:
            take_up = partial(setattr, self._validator, "campaign")
            yield take_up_revisions(RevisedFile(served.campaign_file, served.campaign), take_up)
        if served.assessment is not None and served.assessment.command:
            yield served.assessment.compute_regularly(shared.assessing)

    def _routes(self) -> FastAPI:
        served, shared, validator, metrics = self.served, self.shared, self._validator, self._metrics
        api = new_app(title="veilgraph collector", version=veilgraph.__version__)
        answer_refusals(api, shared, metrics)
        sizes = ReportSizes(max_report_bytes(served.campaign, longest_name=max(map(len, served.names))))
        add_submission(api, validator=validator, shared=shared, metrics=metrics, sizes=sizes)
        _add_campaign(api, validator, shared)
        add_health(api, shared)
        add_boundaries(api, shared, metrics, files=participant_page())
        add_participant_rights(api, validator=validator, shared=shared)
        _add_administration(api, validator, shared, served.credentials, metrics)
        if served.published:
            add_published(api, served.published)
            add_contact_names(api, served.contact_names, validator=validator)
        add_dashboard(api, served, shared, revised=lambda: validator.campaign)
        return api


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


def answer_refusals(app: FastAPI, shared: SharedParts, metrics: Metrics) -> None:
    """Answer and count refusals and errors of the store, wherever a route raises them."""

    def refuse(_: Request, error: Exception) -> Response:
        refusal = _as_refusal(error)
        metrics.count_refusal(refusal.reason)
        if refusal.reason in (RefusalReason.STORE_UNAVAILABLE, RefusalReason.STORE_FULL):
            shared.database.count_refusal()
        return refusal.response()

    for kind in (Refusal, StoreError, HTTPException):
        app.add_exception_handler(kind, refuse)


def add_boundaries(app: FastAPI, shared: SharedParts, metrics: Metrics, *, files: Mapping[str, PageFile]) -> None:
    """Add what every request passes: security headers, rate limit, and an answer to unexpected errors.

    Files in memory have a rate of their own, because a crowd may have one address.
    """
    # The last one added is the outermost.
    app.add_middleware(ErrorBoundary)
    app.add_middleware(RateLimit, buckets=shared.buckets, metrics=metrics)
    app.add_middleware(PageFiles, files=files, buckets=shared.file_buckets, metrics=metrics)
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
