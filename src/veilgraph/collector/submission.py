"""Routes that take reports: one of a node, or a batch by a holder of several nodes' tokens.

Nothing is parsed before its sender has shown a token, and a batch is worked off in short turns: other requests never
wait for more than one of them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from fastapi import FastAPI, Request, Response
from fastapi.routing import APIRoute
from starlette.routing import request_response

from veilgraph.campaign.report import Report
from veilgraph.collector import openapi
from veilgraph.collector.auth import Credentials, bearer_token
from veilgraph.collector.collector import SharedParts
from veilgraph.collector.errors import AsciiJSON, Refusal, RefusalReason
from veilgraph.collector.metrics import Metrics
from veilgraph.collector.reports import Outcome, PutResult
from veilgraph.collector.validation import ReportValidator

T = TypeVar("T")
Made = TypeVar("Made")

_STATUS = {Outcome.STORED: 201, Outcome.SAME: 200}
_REFUSED = {
    Outcome.CONFLICT: RefusalReason.CONFLICT,
    Outcome.WITHDRAWN: RefusalReason.WITHDRAWN,
    Outcome.PURGED: RefusalReason.PURGED,
}
MAX_BATCH_REPORTS = 1000
_MOST_BATCH_BYTES = 4 * 2**20
# JSON keys and the token.
_ENTRY_OVERHEAD_BYTES = 512
# A report that arrives alone waits for one transaction of a batch at most.
_REPORTS_IN_A_TRANSACTION = 100
_TURN_SECONDS = 0.002


@dataclass(frozen=True)
class ReportSizes:
    """Maximum sizes, in bytes.

    Attributes:
        report: of one report; `max_report_bytes` computes what a campaign needs.
        entry: of one report of a batch, with its token.
        batch: of a batch: as many of the longest reports as it may hold, up to 4 MiB, and always one.

    >>> ReportSizes(3000).batch, ReportSizes(100_000).batch, ReportSizes(10_000_000).batch
    (3512000, 4194304, 10000512)
    """

    report: int

    @property
    def entry(self) -> int:  # noqa: D102
        return self.report + _ENTRY_OVERHEAD_BYTES

    @property
    def batch(self) -> int:  # noqa: D102
        return max(self.entry, min(MAX_BATCH_REPORTS * self.entry, _MOST_BATCH_BYTES))


class _DirectRoute(APIRoute):
    """Route that calls its function with the request alone: to find parameters takes FastAPI longer than a report."""

    def __init__(self, path: str, endpoint: Callable[[Request], Awaitable[Response]], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        self.app = request_response(endpoint)


def add_submission(
    app: FastAPI,
    *,
    validator: ReportValidator,
    shared: SharedParts,
    metrics: Metrics,
    sizes: ReportSizes,
) -> None:
    """Add the routes of single reports and of batches."""
    seconds = shared.limits.body_seconds

    async def submit_one(request: Request) -> Response:
        started, node = time.perf_counter(), request.path_params["node"]
        try:
            validator.check_open()
            validator.authenticate(node, bearer_token(request))
        except Refusal:
            await shared.bodies.discard(request, max_bytes=sizes.report, seconds=seconds)
            raise
        async with shared.bodies.receive(request, max_bytes=sizes.report, seconds=seconds) as body:
            report = validator.validate_body(node, body)
        ((outcome, hour),) = await shared.writer.write([report])
        metrics.observe_seconds(time.perf_counter() - started)
        metrics.count_outcome(outcome)
        if outcome in _REFUSED:
            raise Refusal(_REFUSED[outcome])
        receipt = validator.credentials.receipt(report, hour=hour)
        stored: openapi.StoredBody = {"node": node, "status": outcome.value, "receipt": openapi.receipt(receipt)}
        return AsciiJSON(stored, _STATUS[outcome])

    app.router.add_api_route(
        "/v1/reports/{node:path}",
        submit_one,
        methods=["PUT"],
        summary="Submit a node's report",
        route_class_override=_DirectRoute,
        **openapi.submit_one(validator.campaign),
    )
    work_off = partial(_work_off, validator=validator, shared=shared, metrics=metrics, max_bytes=sizes.entry)
    described = openapi.submit_many(validator.campaign, most=MAX_BATCH_REPORTS)

    @app.post("/v1/reports", summary="Submit a batch of reports", **described)
    async def submit_many(request: Request) -> Response:
        started = time.perf_counter()
        validator.check_open()
        check = partial(_check_first_line, validator, sizes.entry)
        results: list[openapi.BatchResult] = []
        async with shared.bodies.receive(request, max_bytes=sizes.batch, seconds=seconds, check=check) as body:
            lines = body.splitlines()
            if len(lines) > MAX_BATCH_REPORTS:
                detail = f"a batch of {len(lines)} reports: send at most {MAX_BATCH_REPORTS} at once"
                raise Refusal(RefusalReason.TOO_LARGE, detail)
            if lines:
                validator.check_sender(lines[0])
            async with shared.batches:
                for start in range(0, len(lines), _REPORTS_IN_A_TRANSACTION):
                    results += await work_off(lines[start : start + _REPORTS_IN_A_TRANSACTION])
        metrics.observe_seconds(time.perf_counter() - started)
        batch: openapi.BatchBody = {"results": results}
        return AsciiJSON(batch)


async def _work_off(
    lines: Sequence[bytes], *, validator: ReportValidator, shared: SharedParts, metrics: Metrics, max_bytes: int
) -> list[openapi.BatchResult]:
    """Store the reports of some lines of a batch in one transaction, and return the result of each line."""
    entries = await _in_turns(lines, partial(_validate_entry, validator, max_bytes))
    written = iter(await shared.writer.write([entry for entry in entries if isinstance(entry, Report)]))
    answer = partial(_batch_result, written=written, credentials=validator.credentials, metrics=metrics)
    return await _in_turns(entries, answer)


async def _in_turns(items: Iterable[T], work: Callable[[T], Made]) -> list[Made]:
    """Apply `work` to each item and return the results; other requests get a turn every few milliseconds."""
    made, ends = [], time.perf_counter() + _TURN_SECONDS
    for item in items:
        made.append(work(item))
        if time.perf_counter() > ends:
            await asyncio.sleep(0)
            ends = time.perf_counter() + _TURN_SECONDS
    return made


def _check_first_line(validator: ReportValidator, max_bytes: int, arrived: bytearray) -> bool:
    """Refuse a sender without a token as soon as the first line of the batch is there."""
    end = arrived.find(b"\n", 0, max_bytes + 1)
    if end >= 0:
        validator.check_sender(bytes(arrived[:end]))
    elif len(arrived) > max_bytes:
        raise _too_long(max_bytes)
    return end >= 0


def _too_long(max_bytes: int) -> Refusal:
    return Refusal(RefusalReason.TOO_LARGE, f"a line of a batch may have at most {max_bytes:,} bytes")


def _validate_entry(validator: ReportValidator, max_bytes: int, line: bytes) -> Report | Refusal:
    try:
        if len(line) > max_bytes:
            raise _too_long(max_bytes)
        return validator.validate_entry(line)
    except Refusal as refusal:
        return refusal


def _batch_result(
    entry: Report | Refusal, *, written: Iterator[PutResult], credentials: Credentials, metrics: Metrics
) -> openapi.BatchResult:
    """Return the result of one entry, and count it. Only senders who gave a node's token get its name."""
    node = None
    if isinstance(entry, Report):
        outcome, hour = next(written)
        metrics.count_outcome(outcome)
        if outcome in _STATUS:
            receipt = openapi.receipt(credentials.receipt(entry, hour=hour))
            return {"node": entry.node, "status": _STATUS[outcome], "receipt": receipt}
        node, entry = entry.node, Refusal(_REFUSED[outcome])
    metrics.count_refusal(entry.reason)
    return {"node": node, "status": entry.reason.status, "reason": entry.reason.value, "detail": entry.detail}
