"""Limits of what one sender may request, metrics, and ASGI middleware: rate limit, security headers, error boundary."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import time
import traceback
from collections import Counter as Tally
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from veilgraph.campaign import Campaign
from veilgraph.campaign.report import MAX_NODE_LENGTH
from veilgraph.collector.errors import Refusal, RefusalReason
from veilgraph.collector.store import Outcome

logger = logging.getLogger("veilgraph.collector")

# JSON keys, the campaign's id and the label.
_REPORT_OVERHEAD_BYTES = 2048

_SECURITY_HEADERS = {
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


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits on requests.

    Args:
        report_bytes: maximum size of one report; `max_report_bytes` computes what a campaign needs.
        batch_bytes: maximum size of a batch of reports.
        body_seconds: time within which a whole request body must arrive.
        requests_per_second: average rate of one address; 0 means no limit.
        burst: number of requests that one address may send at once.
    """

    report_bytes: int = 64 * 1024
    batch_bytes: int = 16 * 1024 * 1024
    body_seconds: float = 10.0
    requests_per_second: float = 50.0
    burst: int = 200


def max_report_bytes(campaign: Campaign) -> int:
    """Return the size of the campaign's longest report, with every character escaped, and the same again for spaces."""
    codes = sum(len(str(size - 1)) + 1 for size in campaign.schema.domain_sizes)
    return 2 * (codes + 12 * MAX_NODE_LENGTH) + _REPORT_OVERHEAD_BYTES


async def read_body(request: Request, *, max_bytes: int, seconds: float) -> bytes:
    """Read the whole body of a request; refuse one that is too long or too slow.

    Args:
        request: the request.
        max_bytes: maximum size of the body.
        seconds: time within which it must arrive.
    """
    declared = request.headers.get("content-length", "0")
    if not declared.isdecimal() or int(declared) > max_bytes:
        raise _too_large(max_bytes)
    received = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                received += chunk
                if len(received) > max_bytes:
                    raise _too_large(max_bytes)
    except TimeoutError:
        detail = f"the request did not arrive within {seconds:g} seconds"
        raise Refusal(RefusalReason.TOO_SLOW, detail) from None
    except ClientDisconnect:
        raise Refusal(RefusalReason.BROKEN_OFF) from None
    return bytes(received)


def _too_large(max_bytes: int) -> Refusal:
    return Refusal(RefusalReason.TOO_LARGE, f"a request may have at most {max_bytes:,} bytes")


class TokenBuckets:
    """Token-bucket rate limit with one bucket for each sender.

    Time is monotonic, so setting the system clock does not change the limit.

    Args:
        per_second: average rate of one sender; 0 means no limit.
        burst: number of requests that a sender may send at once.
        max_senders: number of senders that are remembered; the ones that were quiet the longest are forgotten.
        clock: monotonic time in seconds.

    >>> now = iter([0.0, 0.0, 0.0, 1.0])
    >>> buckets = TokenBuckets(per_second=1, burst=2, clock=lambda: next(now))
    >>> [buckets.allow("a") for _ in range(4)]
    [True, True, False, True]
    """

    def __init__(
        self,
        *,
        per_second: float,
        burst: int,
        max_senders: int = 50_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._per_second, self._burst, self._max_senders, self._clock = per_second, burst, max_senders, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def allow(self, sender: str) -> bool:
        """Count a request of the sender, and return whether it is within the limit."""
        if self._per_second <= 0:
            return True
        now = self._clock()
        left, since = self._buckets.pop(sender, (float(self._burst), now))
        left = min(self._burst, left + (now - since) * self._per_second)
        allowed = left >= 1
        self._buckets[sender] = (left - 1 if allowed else left, now)
        # The buckets of quiet senders are full again, or nearly so: forgetting them changes little.
        while len(self._buckets) > self._max_senders:
            self._buckets.popitem(last=False)
        return allowed


class RateLimit:
    """ASGI middleware that refuses senders who exceed their rate.

    Args:
        app: application inside.
        buckets: rate limit of each sender.
        metrics: counter of refusals.
    """

    def __init__(self, app: ASGIApp, *, buckets: TokenBuckets, metrics: Metrics) -> None:
        self._app, self._buckets, self._metrics = app, buckets, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http" or self._buckets.allow(sender_of(scope.get("client"))):
            await self._app(scope, receive, send)
            return
        refusal = Refusal(RefusalReason.TOO_MANY_REQUESTS)
        self._metrics.count_refusal(refusal.reason)
        await refusal.response()(scope, receive, send)


def sender_of(client: tuple[str, int] | None) -> str:
    """Return the part of an address that one sender controls: an IPv4 address, or an IPv6 network of 64 bits.

    An IPv4 address that is written as an IPv6 address is the same sender.

    >>> sender_of(("192.0.2.1", 80)), sender_of(("::ffff:192.0.2.1", 80)), sender_of(("2001:db8::7", 80))
    ('192.0.2.1', '192.0.2.1', '2001:db8::/64')
    """
    if not client:
        return ""
    try:
        address = ipaddress.ip_address(client[0])
    except ValueError:
        return str(client[0])
    if isinstance(address, ipaddress.IPv6Address):
        mapped = address.ipv4_mapped
        return str(mapped or ipaddress.ip_network((address, 64), strict=False))
    return str(address)


class Metrics:
    """Prometheus counters since the process started, and the refusals that are not in the store yet.

    They say nothing about any node.

    Args:
        queued: function that returns the number of reports that wait for the store.
    """

    def __init__(self, queued: Callable[[], int]) -> None:
        self._registry = CollectorRegistry()
        self._reports = Counter(
            "veilgraph_reports", "Reports that were answered, by outcome", ["outcome"], registry=self._registry
        )
        self._refused = Counter(
            "veilgraph_refused",
            "Requests and reports that were refused, by reason",
            ["reason"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "veilgraph_submit_seconds",
            "Time from a report's arrival to its acknowledgement",
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
            registry=self._registry,
        )
        waiting = Gauge("veilgraph_reports_waiting", "Reports that wait for the store", registry=self._registry)
        waiting.set_function(queued)
        self._unsaved: Tally[str] = Tally()

    def count_outcome(self, outcome: Outcome) -> None:
        """Count a report that the store answered."""
        self._reports.labels(outcome.value).inc()

    def count_refusal(self, reason: RefusalReason) -> None:
        """Count a refused request, or a refused report of a batch."""
        self._refused.labels(reason.value).inc()
        self._unsaved[reason.value] += 1

    def observe_seconds(self, seconds: float) -> None:
        """Record how long a submission took."""
        self._seconds.observe(seconds)

    def take_unsaved(self) -> dict[str, int]:
        """Return the refusals since the last call, by reason, for the store."""
        counts, self._unsaved = self._unsaved, Tally()
        return dict(counts)

    def restore_unsaved(self, counts: dict[str, int]) -> None:
        """Keep counts that could not be stored for the next call of `take_unsaved`."""
        self._unsaved.update(counts)

    def render(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        return generate_latest(self._registry)


class SecurityHeaders:
    """ASGI middleware that adds security headers to every response, and forbids caching unless a route allows it.

    Args:
        app: application inside.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_SECURITY_HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._app(scope, receive, send_with_headers)


class ErrorBoundary:
    """ASGI middleware that turns unexpected errors into a response without details.

    The log names the type and the place of the error. Its message may quote a report, so it is not logged.

    Args:
        app: application inside.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def send_and_note(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        except Exception as error:  # noqa: BLE001  the last place where anything can be caught
            place = traceback.extract_tb(error.__traceback__)[-1]
            logger.error("unexpected %s in %s, line %s", type(error).__name__, place.name, place.lineno)
            if not started:
                await Refusal(RefusalReason.UNEXPECTED).response()(scope, receive, send)
