"""The collector as a web application: routes, and nothing that another file could do."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

import veilgraph
from veilgraph.campaign import Campaign
from veilgraph.campaign.assemble import check_graph
from veilgraph.campaign.report import Report
from veilgraph.collector import openapi
from veilgraph.collector.auth import Credentials, bearer_token, require_admin
from veilgraph.collector.dashboard import add_dashboard
from veilgraph.collector.errors import AsciiJSON, Refusal
from veilgraph.collector.metrics import Metrics
from veilgraph.collector.middleware import Guard, Limits, RateLimit, most_report_bytes, read_body
from veilgraph.collector.report_writer import GroupCommit
from veilgraph.collector.static_pages import add_participant_page
from veilgraph.collector.store import Outcome, ReportStore
from veilgraph.collector.validation import Intake, batch_entries, parse_json
from veilgraph.errors import StoreError, StoreFullError
from veilgraph.graph import Graph

logger = logging.getLogger("veilgraph.collector")

_STATUS = {Outcome.STORED: 201, Outcome.SAME: 200, Outcome.CONFLICT: 409}
_FLUSH_SECONDS = 5.0
# Entries of a batch that are checked before other requests get a turn.
_TURN = 50


def make_app(
    *,
    campaign: Campaign,
    graph: Graph,
    store: ReportStore,
    credentials: Credentials,
    joined: Iterable[str] = (),
    limits: Limits | None = None,
    clock: Callable[[], float] = time.time,
) -> FastAPI:
    """The collector of one campaign on its public graph.

    Args:
        campaign: what is collected.
        graph: the public graph that the campaign was made for; its nodes may report.
        store: where reports go.
        credentials: who may do what.
        joined: nodes that came to the graph after the campaign was made, and may report too.
        limits: what the collector puts up with.
        clock: Unix time.
    """
    check_graph(campaign, graph)
    limits = limits or Limits(report_bytes=most_report_bytes(campaign))
    nodes = frozenset(graph.names) | frozenset(joined)
    intake = Intake(campaign=campaign, nodes=nodes, credentials=credentials, clock=clock)
    commit = GroupCommit(store, clock=clock)
    metrics = Metrics(waiting=lambda: commit.waiting)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        commit.start()
        flushing = asyncio.create_task(_flush_refusals(store, campaign.id, metrics))
        yield
        flushing.cancel()
        await commit.stop()
        await asyncio.to_thread(_save_refusals, store, campaign.id, metrics)
        store.close()

    app = FastAPI(
        title="veilgraph collector",
        version=veilgraph.__version__,
        lifespan=lifespan,
        # The usual pages load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        default_response_class=AsciiJSON,
    )
    app.add_middleware(
        Guard, rate=RateLimit(per_second=limits.requests_per_second, burst=limits.burst), metrics=metrics
    )

    def refuse(_: Request, error: Exception) -> Response:
        refusal = _as_refusal(error)
        metrics.refused(refusal.reason)
        return refusal.response()

    for kind in (Refusal, StoreError, HTTPException):
        app.add_exception_handler(kind, refuse)
    _add_public(app, campaign, store)
    _add_submission(app, intake, commit, metrics, limits)
    _add_administration(app, campaign, intake, store, credentials, metrics)
    add_participant_page(app)
    add_dashboard(app, campaign=campaign, graph=graph, store=store, credentials=credentials, limits=limits)
    return app


def _add_public(app: FastAPI, campaign: Campaign, store: ReportStore) -> None:
    document = campaign.to_json()

    @app.get("/v1/campaign", summary="The campaign, as participants answer it", responses=openapi.CAMPAIGN)
    async def get_campaign(request: Request) -> Response:
        headers = {"ETag": f'"{campaign.id}"', "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        return Response(document, media_type="application/json", headers=headers)

    @app.get("/health", summary="Whether reports can be taken in", responses=openapi.HEALTH)
    async def health() -> dict[str, str]:
        await asyncio.to_thread(store.check)
        return {"status": "ok"}


def _add_submission(app: FastAPI, intake: Intake, commit: GroupCommit, metrics: Metrics, limits: Limits) -> None:
    @app.put("/v1/reports/{node:path}", summary="Submit a node's report", **openapi.submit_one(intake.campaign))
    async def submit_one(node: str, request: Request) -> Response:
        started = time.perf_counter()
        body = await read_body(request, most_bytes=limits.report_bytes, seconds=limits.body_seconds)
        intake.check_open()
        report = intake.check_report_of(node, bearer_token(request), body)
        (outcome,) = await commit.submit([report])
        metrics.took(time.perf_counter() - started)
        metrics.answered(outcome)
        if outcome is Outcome.CONFLICT:
            raise _conflict()
        return AsciiJSON({"node": node, "status": outcome.value}, _STATUS[outcome])

    @app.post("/v1/reports", summary="Submit many reports", **openapi.submit_many(intake.campaign))
    async def submit_many(request: Request) -> Response:
        started = time.perf_counter()
        body = await read_body(request, most_bytes=limits.batch_bytes, seconds=limits.body_seconds)
        intake.check_open()
        checked: list[Report | Refusal] = []
        for number, entry in enumerate(batch_entries(parse_json(body)), start=1):
            checked.append(_checked(intake, entry))
            if number % _TURN == 0:
                await asyncio.sleep(0)
        outcomes = iter(await commit.submit([report for report in checked if isinstance(report, Report)]))
        metrics.took(time.perf_counter() - started)
        return AsciiJSON({"results": [_result(entry, outcomes, metrics) for entry in checked]})


def _checked(intake: Intake, entry: object) -> Report | Refusal:
    try:
        return intake.check_entry(entry)
    except Refusal as refusal:
        return refusal


def _result(entry: Report | Refusal, outcomes: Iterator[Outcome], metrics: Metrics) -> dict[str, Any]:
    """A line of the answer to many reports, in their order. Only who showed a node's token is told its name."""
    if isinstance(entry, Refusal):
        metrics.refused(entry.reason)
        return {"node": None, "status": entry.status, "reason": entry.reason, "detail": entry.sentence}
    outcome = next(outcomes)
    metrics.answered(outcome)
    result = {"node": entry.node, "status": _STATUS[outcome]}
    if outcome is Outcome.CONFLICT:
        conflict = _conflict()
        metrics.refused(conflict.reason)
        return result | {"reason": conflict.reason, "detail": conflict.sentence}
    return result


def _add_administration(
    app: FastAPI,
    campaign: Campaign,
    intake: Intake,
    store: ReportStore,
    credentials: Credentials,
    metrics: Metrics,
) -> None:
    @app.get(
        "/v1/status", summary="Whether the campaign is open; counts for the administration", responses=openapi.STATUS
    )
    async def status(request: Request) -> dict[str, Any]:
        public = {
            "campaign": campaign.id,
            "closes": campaign.document["closes"],
            "open": intake.is_open,
        }
        if not bearer_token(request):
            return public
        require_admin(request, credentials)
        reports, refusals = await asyncio.gather(
            asyncio.to_thread(store.count, campaign.id), asyncio.to_thread(store.refusals, campaign.id)
        )
        return public | {"nodes": campaign.nodes, "reports": reports, "refused": refusals}

    @app.get("/metrics", summary="Counters for Prometheus; needs the admin token", responses=openapi.METRICS)
    async def get_metrics(request: Request) -> Response:
        require_admin(request, credentials)
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")


def _conflict() -> Refusal:
    return Refusal(409, "conflict", "another report of this node stands; the first one counts")


def _as_refusal(error: Exception) -> Refusal:
    if isinstance(error, Refusal):
        return error
    if isinstance(error, StoreFullError):
        return Refusal(507, "store_full", str(error))
    if isinstance(error, StoreError):
        return Refusal(503, "store_unavailable", str(error))
    status = error.status_code if isinstance(error, HTTPException) else 500
    return Refusal(status, f"http_{status}", "there is nothing here" if status == 404 else "this is not possible here")


async def _flush_refusals(store: ReportStore, campaign_id: str, metrics: Metrics) -> None:
    while True:
        await asyncio.sleep(_FLUSH_SECONDS)
        await asyncio.to_thread(_save_refusals, store, campaign_id, metrics)


def _save_refusals(store: ReportStore, campaign_id: str, metrics: Metrics) -> None:
    counts = metrics.take_unsaved()
    try:
        store.add_refusals(campaign_id, counts)
    except StoreError as error:
        metrics.restore_unsaved(counts)
        logger.warning("counts of refusals are kept for later: %s", type(error).__name__)
