"""HTTP server that closes connections which do not send a request in time."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from veilgraph.errors import RunError

_KEEP_ALIVE_SECONDS = 15
_SHUTDOWN_SECONDS = 10
_MAX_CONNECTIONS = 2000


class DeadlineProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol with a deadline and a maximum size for the headers of a request.

    Without them, a connection that sends nothing, or one byte at a time, stays open for ever.

    Attributes:
        header_seconds: time within which the headers of a request must arrive.
        max_header_bytes: maximum size of the headers of a request.
    """

    header_seconds = 10.0
    max_header_bytes = 64 * 1024
    _deadline: asyncio.TimerHandle | None = None
    _header_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the deadline of the first request."""
        super().connection_made(transport)
        self._start_deadline()

    def data_received(self, data: bytes) -> None:
        """Parse received bytes; close the connection if the headers are too long."""
        self._header_bytes += len(data)
        super().data_received(data)
        if self._deadline is not None and self._header_bytes > self.max_header_bytes:
            self.transport.abort()

    def on_message_begin(self) -> None:
        """Start the deadline of a request."""
        super().on_message_begin()
        self._start_deadline()

    def on_headers_complete(self) -> None:
        """Stop the deadline: the body of the request has its own."""
        self._stop_deadline()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """Close the connection if the response came before the end of the request's body."""
        if self.cycle.more_body:
            self.transport.close()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the deadline of a closed connection."""
        self._stop_deadline()
        super().connection_lost(exc)

    def _start_deadline(self) -> None:
        self._stop_deadline()
        self._header_bytes = 0
        self._deadline = self.loop.call_later(self.header_seconds, self.transport.abort)

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def serve(app: FastAPI, *, host: str, port: int, trusted_proxy: str | None = None) -> None:
    """Serve until SIGINT or SIGTERM; then finish the requests that have begun.

    Args:
        app: the collector.
        host: address to listen on.
        port: port to listen on; 0 takes a free one.
        trusted_proxy: address of the reverse proxy whose statement of a sender's address is trusted.
    """
    _check_address(host, port)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("alembic").setLevel(logging.WARNING)
    # uvicorn shuts down and then raises the signal again, which would end the process with a failure.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _ignore)
    make_server(app, host=host, port=port, trusted_proxy=trusted_proxy).run()


def make_server(
    app: FastAPI,
    *,
    host: str,
    port: int,
    trusted_proxy: str | None = None,
    protocol: type[DeadlineProtocol] = DeadlineProtocol,
) -> uvicorn.Server:
    """Make a server, which `run` starts and `should_exit` stops.

    Args:
        app: the collector.
        host: address to listen on.
        port: port to listen on; 0 takes a free one.
        trusted_proxy: address of the reverse proxy whose statement of a sender's address is trusted.
        protocol: HTTP protocol with its deadlines.
    """
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=protocol,
        ws="none",
        log_config=None,
        # A request line names a node: the log must not show which node reports when.
        access_log=False,
        server_header=False,
        proxy_headers=trusted_proxy is not None,
        forwarded_allow_ips=trusted_proxy,
        limit_concurrency=_MAX_CONNECTIONS,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )
    return uvicorn.Server(config)


def _check_address(host: str, port: int) -> None:
    """Refuse an address that cannot be used, with a message; uvicorn would end the process."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        raise RunError(f"cannot listen on {host}, port {port}: {error.strerror}; choose another") from None


def _ignore(*_: Any) -> None:
    pass
