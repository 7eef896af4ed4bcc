"""What every response carries and no log line does: the outermost layer of the application."""

from __future__ import annotations

import ipaddress
import logging
import traceback

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from veilgraph.collector.limits import RateLimit
from veilgraph.collector.metrics import Metrics
from veilgraph.collector.refusal import Refusal

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
