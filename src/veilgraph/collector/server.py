"""An HTTP server that waits for nobody: connections that bring no request in time are closed."""

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

_HEADER_SECONDS = 10.0
_HEADER_BYTES = 64 * 1024
_KEEP_ALIVE_SECONDS = 15
_SHUTDOWN_SECONDS = 10
_MOST_CONNECTIONS = 2000


class PunctualProtocol(HttpToolsProtocol):
    """uvicorn's protocol with a deadline and a size for what comes before a request's body.

    Without them a connection that is opened and says nothing, or says it a byte at a time, is kept for ever.
    """

    _deadline: asyncio.TimerHandle | None = None
    _header_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A first request is awaited."""
        super().connection_made(transport)
        self._await_headers()

    def data_received(self, data: bytes) -> None:
        """Bytes that do not complete a request's headers count."""
        self._header_bytes += len(data)
        super().data_received(data)
        if self._deadline is not None and self._header_bytes > _HEADER_BYTES:
            self.transport.abort()

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._await_headers()

    def on_headers_complete(self) -> None:
        """A request can be answered; its body has a deadline of its own."""
        self._stop_waiting()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """Whatever is left of the body after the answer is not worth waiting for."""
        if self.cycle.more_body:
            self.transport.close()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing more will come."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _await_headers(self) -> None:
        self._stop_waiting()
        self._header_bytes = 0
        self._deadline = self.loop.call_later(_HEADER_SECONDS, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def serve(app: FastAPI, *, host: str, port: int, trusted_proxy: str | None = None) -> None:
    """Serve until a signal asks to stop; then finish what was begun.

    Args:
        app: the collector.
        host: address to listen on.
        port: 0 takes a free one.
        trusted_proxy: address of a reverse proxy whose word counts on where a request came from.
    """
    _check_address(host, port)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("alembic").setLevel(logging.WARNING)
    # uvicorn stops in good order and then raises the signal again; to have been asked to stop is no failure.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _ignore)
    make_server(app, host=host, port=port, trusted_proxy=trusted_proxy).run()


def make_server(app: FastAPI, *, host: str, port: int, trusted_proxy: str | None = None) -> uvicorn.Server:
    """A server that `run` starts and `should_exit` stops."""
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=PunctualProtocol,
        ws="none",
        log_config=None,
        # A request line names a node, and when it reports is nobody's business.
        access_log=False,
        server_header=False,
        proxy_headers=trusted_proxy is not None,
        forwarded_allow_ips=trusted_proxy,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )
    return uvicorn.Server(config)


def _check_address(host: str, port: int) -> None:
    """Refuse an address that cannot be listened on, in one sentence; uvicorn would end the process."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        raise RunError(f"cannot listen on {host}, port {port}: {error.strerror}; choose another") from None


def _ignore(*_: Any) -> None:
    pass
