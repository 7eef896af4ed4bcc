"""Limits of what one sender may request, and ASGI middleware: rate limit, security headers, error boundary."""

from __future__ import annotations

import ipaddress
import logging
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from veilgraph.campaign import Campaign
from veilgraph.campaign.report import MAX_NODE_LENGTH, sent_length
from veilgraph.collector.errors import Refusal, RefusalReason
from veilgraph.collector.metrics import Metrics

logger = logging.getLogger("veilgraph.collector")

_BYTES_LIKE_A_REQUEST = 32 * 1024

_SECURITY_HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        b"form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits on requests.

    Args:
        body_seconds: time within which a whole request body must arrive.
        requests_per_second: average rate of one address; 0 means no limit. 32 KiB of bodies count as a request.
        burst: number of requests that one address may send at once.
    """

    body_seconds: float = 10.0
    requests_per_second: float = 50.0
    burst: int = 200


def max_report_bytes(campaign: Campaign, longest_name: int = MAX_NODE_LENGTH) -> int:
    """Return the size of the campaign's longest report, and the same again for spaces.

    Args:
        campaign: the campaign.
        longest_name: number of characters of the longest name of a node that may report.
    """
    return 2 * sent_length(campaign, longest_name * "\U0010ffff")


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
        left, now = self._left(sender)
        self._keep(sender, left - 1 if left >= 1 else left, now)
        return left >= 1

    def charge(self, sender: str, size: int) -> None:
        """Count a part of a body, of `size` bytes; the sender's next requests wait for what it took too much."""
        if self._per_second > 0:
            left, now = self._left(sender)
            self._keep(sender, left - size / _BYTES_LIKE_A_REQUEST, now)

    def _left(self, sender: str) -> tuple[float, float]:
        """Return the number of requests that a sender may still make now, and the time."""
        now = self._clock()
        left, since = self._buckets.get(sender, (float(self._burst), now))
        return min(self._burst, left + (now - since) * self._per_second), now

    def _keep(self, sender: str, left: float, now: float) -> None:
        self._buckets[sender] = (left, now)
        self._buckets.move_to_end(sender)
        # The buckets of quiet senders are full again, or nearly so: forgetting them changes little.
        while len(self._buckets) > self._max_senders:
            self._buckets.popitem(last=False)


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
    return _sender_at(str(client[0])) if client else ""


@lru_cache(maxsize=10_000)
def _sender_at(host: str) -> str:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        mapped = address.ipv4_mapped
        return str(mapped or ipaddress.ip_network((address, 64), strict=False))
    return str(address)


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
                headers = [*message["headers"], *_SECURITY_HEADERS]
                if not any(name == b"cache-control" for name, _ in headers):
                    headers.append((b"cache-control", b"no-store"))
                message["headers"] = headers
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
