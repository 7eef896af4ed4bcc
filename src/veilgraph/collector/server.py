"""HTTP server that limits connections and log lines, and closes connections that neither send nor read in time.

The number of open connections stays below what the process may open, and one sender has a part of it.

uvicorn has none of these limits. What is ours here is what a collector without a proxy needs; measured with uvicorn
0.54 on two busy cores, with our classes and without them:

- `DeadlineProtocol`. Of 250 connections that do not read 10 MB, all are closed after 27 s, with 3.5 MB of memory;
  without it all are still open, with 19.5 MB. Of 3,000 that send nothing or half a request, none is left after 17 s;
  without it all are. Caddy, the proxy of `deploy/`, holds back those that do not send. It lets all 250 through that do
  not read: with the deadline they are closed behind it, too.
- `FewAcceptedAtOnce`. While 1,500 connections arrive at once, another address waits for 106 ms (90th percentile; at
  most 254 ms); without it 332 ms (619 ms).

Both cost 0.01 ms of the 0.17 ms of processor time that a report takes. Headers and body of an answer are not joined
to one write: that saved nothing that could be measured, bare (0.171 ms against 0.166 ms) or behind Caddy.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable, Set
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from veilgraph.collector.middleware import TokenBuckets, sender_of
from veilgraph.errors import RunError

logger = logging.getLogger("veilgraph.collector")

_KEEP_ALIVE_SECONDS = 15
_SHUTDOWN_SECONDS = 10
# Number of connections that may wait for the collector to accept them.
_WAITING_CONNECTIONS = 2048
# Number of connections that one turn of the event loop accepts. Few, so that open connections get their turn.
ACCEPTED_PER_TURN = 64
# A connection that is refused is closed three turns after it was accepted.
_BEING_REFUSED = 4 * ACCEPTED_PER_TURN
# Descriptors of the database's connections, of exports and of the server itself.
_RESERVED = 128
_MOST_DESCRIPTORS = 65_536
_MOST_CONNECTIONS = 10_000
_MOST_OF_ONE_SENDER = 256
_FEWEST_CONNECTIONS = 128
# Number of new objects after which Python looks for cyclic garbage among them.
_GARBAGE_THRESHOLD = 20_000


@dataclass(frozen=True, kw_only=True)
class ConnectionLimits:
    """Maximum numbers of open connections.

    Args:
        total: of all senders together.
        per_sender: of one sender; trusted proxies, which speak for many, have no such limit.
    """

    total: int
    per_sender: int

    @classmethod
    def within(cls, descriptors: int) -> Self:
        """Return limits that a process with this number of descriptors can keep.

        >>> ConnectionLimits.within(1024)
        ConnectionLimits(total=640, per_sender=160)
        >>> ConnectionLimits.within(65_536)
        ConnectionLimits(total=10000, per_sender=256)
        >>> ConnectionLimits.within(256)
        Traceback (most recent call last):
        veilgraph.errors.RunError: 256 open files are allowed, 512 are needed: raise the limit, 'ulimit -n 1024'
        """
        total = min(_MOST_CONNECTIONS, descriptors - _BEING_REFUSED - _RESERVED)
        if total < _FEWEST_CONNECTIONS:
            needed = _FEWEST_CONNECTIONS + _BEING_REFUSED + _RESERVED
            raise RunError(
                f"{descriptors} open files are allowed, {needed} are needed: raise the limit, 'ulimit -n 1024'"
            )
        return cls(total=total, per_sender=min(_MOST_OF_ONE_SENDER, total // 4))


def raise_descriptor_limit() -> int:
    """Raise the limit on open files as far as the system allows, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return wanted if soft == resource.RLIM_INFINITY else soft


class OpenConnections:
    """Count of the open connections of each sender.

    Args:
        limits: maximum numbers of them.
        proxies: senders that speak for many, and count in all only.

    >>> connections = OpenConnections(ConnectionLimits(total=3, per_sender=1), proxies={"proxy"})
    >>> [connections.admit(sender) for sender in ("a", "a", "proxy", "proxy", "b")]
    [True, False, True, True, False]
    >>> connections.release("a")
    >>> connections.admit("b")
    True
    """

    def __init__(self, limits: ConnectionLimits, *, proxies: Set[str] = frozenset()) -> None:
        self._limits, self._proxies = limits, proxies
        self._open: Counter[str] = Counter()
        self._total = 0

    def admit(self, sender: str) -> bool:
        """Count a connection of the sender if the limits allow it, and return whether they do."""
        if self._total >= self._limits.total:
            return False
        if self._open[sender] >= self._limits.per_sender and sender not in self._proxies:
            return False
        self._open[sender] += 1
        self._total += 1
        return True

    def release(self, sender: str) -> None:
        """Count the end of a connection that was admitted."""
        self._total -= 1
        self._open[sender] -= 1
        if not self._open[sender]:
            del self._open[sender]


class LogRateLimit(logging.Filter):
    """Filter for a log handler: lines of one place beyond the rate are counted and left out.

    The next line of that place says how many were left out. So no sender can fill the disk.

    Args:
        per_second: average rate of one place.
        burst: number of lines that it may write at once.
        clock: monotonic time in seconds.
    """

    def __init__(
        self, *, per_second: float = 0.1, burst: int = 20, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self._buckets = TokenBuckets(per_second=per_second, burst=burst, clock=clock)
        self._left_out: Counter[str] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line is written; add the number of those that were left out before it."""
        # The place and not the text, which can differ in every line.
        place = f"{record.pathname}:{record.lineno}"
        if not self._buckets.allow(place):
            self._left_out[place] += 1
            return False
        if left_out := self._left_out.pop(place, 0):
            record.msg = f"{record.msg} ({left_out} more like this were left out)"
        return True


class DeadlineProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol with limits: connections of one sender, time and size of headers, time to read answers.

    Without them, a connection that sends nothing, one byte at a time, or reads nothing, stays open for ever. A request
    of many small parts would keep the others waiting: each part is a call, before anybody can refuse the request.

    Args:
        *arguments: arguments of uvicorn's protocol.
        connections: open connections of the server.
        **options: options of uvicorn's protocol.

    Attributes:
        header_seconds: time within which the headers of a request must arrive.
        max_header_bytes: maximum size of the headers of a request, and of what else is not its body.
        max_headers: number of headers that a request may have, with those that follow its body.
        max_address_bytes: maximum size of the path and query of a request.
        max_chunks: number of parts in which a request may send a body of unknown length.
        max_waiting_requests: number of requests that may wait for the answer of an earlier one.
        write_seconds: time within which the peer must read what was written.
    """

    header_seconds = 10.0
    max_header_bytes = 64 * 1024
    max_headers = 100
    max_address_bytes = 8 * 1024
    max_chunks = 256
    max_waiting_requests = 16
    write_seconds = 20.0
    _deadline: asyncio.TimerHandle | None = None
    _write_deadline: asyncio.TimerHandle | None = None
    _header_bytes = 0
    _headers = 0
    _chunks = 0
    _in_headers = False
    _keeps_alive = False
    _sender: str | None = None

    def __init__(self, *arguments: Any, connections: OpenConnections, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._open_connections = connections

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the deadline of the first request; close a connection that is beyond the limits."""
        self.transport = transport
        sender = sender_of(transport.get_extra_info("peername"))
        if not self._open_connections.admit(sender):
            logger.warning("a connection was closed: too many are open, of its address or in all")
            transport.abort()
            return
        self._sender = sender
        super().connection_made(transport)
        # Pauses the protocol as soon as anything waits for the peer to read it.
        transport.set_write_buffer_limits(high=0)
        self._start_deadline()

    def data_received(self, data: bytes) -> None:
        """Parse received bytes; start the deadline of headers that are not complete, and close if they are too long."""
        self._header_bytes += len(data)
        super().data_received(data)
        if self._header_bytes > self.max_header_bytes:
            self.transport.abort()
        # Empty lines before a request end the time of the idle connection, and begin no request.
        elif (self._in_headers or self.cycle is None or self.cycle.response_complete) and self._deadline is None:
            self._start_deadline()

    def on_message_begin(self) -> None:
        """Stop the deadline of the request before; close a connection with too many that wait for an answer."""
        self._demand(len(self.pipeline) < self.max_waiting_requests)
        super().on_message_begin()
        self._stop_deadline()
        self._in_headers, self._header_bytes, self._headers, self._chunks = True, 0, 0, 0

    def on_url(self, url: bytes) -> None:
        """Close a connection whose request has a path and query that are too long."""
        super().on_url(url)
        self._demand(len(self.url) <= self.max_address_bytes)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Close a connection whose request has too many headers; leave out those that follow a body."""
        self._headers += 1
        self._demand(self._headers <= self.max_headers)
        if self._in_headers:
            super().on_header(name, value)

    def on_chunk_header(self) -> None:
        """Close a connection whose request has a body of too many parts."""
        self._chunks += 1
        self._demand(self._chunks <= self.max_chunks)

    def on_body(self, body: bytes) -> None:
        """Hand on a part of a body, which has its own limits."""
        self._header_bytes -= len(body)
        super().on_body(body)

    def on_headers_complete(self) -> None:
        """Stop the deadline: the body of the request has its own."""
        # One piece of received bytes can hold far more than the limit, and is counted after it was parsed.
        self._demand(sum(len(name) + len(value) for name, value in self.headers) <= self.max_header_bytes)
        self._stop_deadline()
        self._in_headers = False
        super().on_headers_complete()
        # A response before the end of the body says that the connection is closed after it: the rest is not read.
        self._keeps_alive, self.cycle.keep_alive = self.cycle.keep_alive, False

    def on_message_complete(self) -> None:
        """Keep the connection for further requests, unless the response to this one has begun."""
        if not self.cycle.response_started:
            self.cycle.keep_alive = self._keeps_alive
        super().on_message_complete()

    def shutdown(self) -> None:
        """Keep the connection for no further request."""
        self._keeps_alive = False
        super().shutdown()

    def pause_writing(self) -> None:
        """Start the deadline of the peer to read what was written."""
        super().pause_writing()
        self._write_deadline = self.loop.call_later(self.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop the deadline: the peer has read everything."""
        self._stop_write_deadline()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the deadlines of a closed connection."""
        self._stop_deadline()
        self._stop_write_deadline()
        if self._sender is not None:
            self._open_connections.release(self._sender)
            self._sender = None
        super().connection_lost(exc)

    def _demand(self, is_within: bool) -> None:
        """Close the connection unless it is within a limit, and end the parsing of what was received already."""
        if not is_within:
            self.transport.abort()
            raise ConnectionAbortedError

    def _start_deadline(self) -> None:
        self._stop_deadline()
        self._header_bytes = 0
        self._deadline = self.loop.call_later(self.header_seconds, self.transport.abort)

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _stop_write_deadline(self) -> None:
        if self._write_deadline is not None:
            self._write_deadline.cancel()
            self._write_deadline = None


class FewAcceptedAtOnce(uvicorn.Server):
    """uvicorn's server, which accepts few connections in one turn and lets many wait for theirs."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen; asyncio has one number for both, so the second is set on the socket afterwards."""
        await super().startup(sockets)
        for server in self.servers:
            for listener in server.sockets:
                with socket.socket(fileno=os.dup(listener.fileno())) as same:
                    same.listen(_WAITING_CONNECTIONS)


def serve(app: ASGIApp, *, host: str, port: int, trusted_proxy: str | None = None) -> None:
    """Serve until SIGINT or SIGTERM; then finish the requests that have begun.

    Args:
        app: the collector.
        host: address to listen on.
        port: port to listen on; 0 takes a free one.
        trusted_proxy: address of the reverse proxy whose statement of a sender's address is trusted.
    """
    _check_address(host, port)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for handler in logging.getLogger().handlers:
        handler.addFilter(LogRateLimit())
    logging.getLogger("alembic").setLevel(logging.WARNING)
    # uvicorn shuts down and then raises the signal again, which would end the process with a failure.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _ignore)
    _collect_garbage_rarely()
    limits = ConnectionLimits.within(raise_descriptor_limit())
    make_server(app, host=host, port=port, trusted_proxy=trusted_proxy, limits=limits).run()


def make_server(
    app: ASGIApp,
    *,
    host: str,
    port: int,
    trusted_proxy: str | None = None,
    protocol: type[DeadlineProtocol] = DeadlineProtocol,
    limits: ConnectionLimits | None = None,
) -> uvicorn.Server:
    """Make a server, which `run` starts and `should_exit` stops.

    Args:
        app: the collector.
        host: address to listen on.
        port: port to listen on; 0 takes a free one.
        trusted_proxy: address of the reverse proxy whose statement of a sender's address is trusted.
        protocol: HTTP protocol with its deadlines.
        limits: maximum numbers of open connections; default: as many as a process with 1,024 open files can have.
    """
    proxies = {sender_of((address.strip(), 0)) for address in trusted_proxy.split(",")} if trusted_proxy else set()
    connections = OpenConnections(limits or ConnectionLimits.within(1024), proxies=proxies)
    # uvicorn calls it as it would call the class.
    limited: Any = partial(protocol, connections=connections)
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=limited,
        ws="none",
        log_config=None,
        # A request line names a node: the log must not show which node reports when.
        access_log=False,
        server_header=False,
        proxy_headers=trusted_proxy is not None,
        forwarded_allow_ips=trusted_proxy,
        backlog=ACCEPTED_PER_TURN,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )
    return FewAcceptedAtOnce(config)


def _collect_garbage_rarely() -> None:
    """Let Python look for cyclic garbage rarely, and not among what lives as long as the process.

    With the default, requests that are answered at the same time start the search again and again, which takes a
    fifth of their processor time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GARBAGE_THRESHOLD, 10, 10)


def _check_address(host: str, port: int) -> None:
    """Refuse an address that cannot be used, with a message; uvicorn would end the process."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        raise RunError(f"cannot listen on {host}, port {port}: {error.strerror}; choose another") from None


def _ignore(*_: Any) -> None:
    pass
