"""How much, how fast and how long: what one sender may ask of the collector."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from veilgraph.campaign import Campaign
from veilgraph.campaign.report import LONGEST_NODE
from veilgraph.collector.errors import Refusal
from veilgraph.collector.metrics import Metrics

MOST_IN_A_BATCH = 1000
_MOST_SENDERS = 50_000
# Keys, the campaign's id and the label.
_FRAME_BYTES = 2048


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What the collector puts up with.

    Args:
        report_bytes: of one report; `most_report_bytes` says what a campaign needs.
        batch_bytes: of many reports in one request.
        body_seconds: for a whole request body to arrive.
        requests_per_second: of one address, on average; 0 is no limit.
        burst: requests of one address at once.
    """

    report_bytes: int = 64 * 1024
    batch_bytes: int = 16 * 1024 * 1024
    body_seconds: float = 10.0
    requests_per_second: float = 50.0
    burst: int = 200


def most_report_bytes(campaign: Campaign) -> int:
    """Room for the longest report of the campaign with every character escaped, and as much again for spaces."""
    codes = sum(len(str(size - 1)) + 1 for size in campaign.schema.domain_sizes)
    return 2 * (codes + 12 * LONGEST_NODE) + _FRAME_BYTES


class RateLimit:
    """A token bucket per sender. Time is monotonic, so that setting the clock neither opens nor closes it.

    >>> now = iter([0.0, 0.0, 0.0, 1.0])
    >>> limit = RateLimit(per_second=1, burst=2, clock=lambda: next(now))
    >>> [limit.allows("a") for _ in range(4)]
    [True, True, False, True]
    """

    def __init__(self, *, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second, self._burst, self._clock = per_second, burst, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allows(self, sender: str) -> bool:
        """Whether the sender may go on; counts the request."""
        if self._per_second <= 0:
            return True
        now = self._clock()
        left, since = self._buckets.pop(sender, (float(self._burst), now))
        left = min(self._burst, left + (now - since) * self._per_second)
        allowed = left >= 1
        self._buckets[sender] = (left - 1 if allowed else left, now)
        # The senders that were quiet the longest have full buckets again, or nearly so.
        while len(self._buckets) > _MOST_SENDERS:
            self._buckets.popitem(last=False)
        return allowed


async def read_body(request: Request, *, most_bytes: int, seconds: float) -> bytes:
    """The whole body, unless it is too long or too slow."""
    declared = request.headers.get("content-length", "0")
    if not declared.isdecimal() or int(declared) > most_bytes:
        raise Refusal(413, "too_large", f"a request may have {most_bytes:,} bytes at most")
    received = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                received += chunk
                if len(received) > most_bytes:
                    raise Refusal(413, "too_large", f"a request may have {most_bytes:,} bytes at most")
    except TimeoutError:
        raise Refusal(408, "too_slow", f"the request did not arrive within {seconds:g} seconds") from None
    except ClientDisconnect:
        raise Refusal(400, "broken_off", "the request ended early") from None
    return bytes(received)


logger = logging.getLogger("veilgraph.collector")

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Guard:
    """Limits senders, adds security headers, and turns whatever goes wrong inside into a bare 500.

    An unexpected error is logged by its type and place. Its text may quote a report, so it is not.

    Args:
        app: the application inside.
        rate: how often one sender may ask.
        metrics: where refusals are counted.
    """

    def __init__(self, app: ASGIApp, *, rate: RateLimit, metrics: Metrics) -> None:
        self._app, self._rate, self._metrics = app, rate, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def send_guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                _add_headers(MutableHeaders(scope=message))
            await send(message)

        if not self._rate.allows(_sender(scope)):
            refusal = Refusal(429, "too_many_requests", "too many requests from this address: wait and send again")
            self._metrics.refused(refusal.reason)
            await refusal.response()(scope, receive, send_guarded)
            return
        try:
            await self._app(scope, receive, send_guarded)
        except Exception as error:  # noqa: BLE001  the last place where anything can be caught
            place = traceback.extract_tb(error.__traceback__)[-1]
            logger.error("unexpected %s in %s, line %s", type(error).__name__, place.name, place.lineno)
            if not started:
                refusal = Refusal(500, "unexpected", "something is wrong with the collector; its log says where")
                await refusal.response()(scope, receive, send_guarded)


def _add_headers(headers: MutableHeaders) -> None:
    for name, value in _HEADERS.items():
        headers[name] = value
    headers.setdefault("Cache-Control", "no-store")


def _sender(scope: Scope) -> str:
    """The address that a sender controls one of: an IPv4 address, or an IPv6 network of 64 bits."""
    client = scope.get("client")
    if not client:
        return ""
    try:
        address = ipaddress.ip_address(client[0])
    except ValueError:
        return str(client[0])
    return str(address) if address.version == 4 else str(ipaddress.ip_network((address, 64), strict=False))
