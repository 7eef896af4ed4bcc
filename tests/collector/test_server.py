"""Connections that do not send, do not read or are too many are closed; others are served, and no report is lost.

One place in the code writes few lines to the log, however often it is reached, and none is lost without a count.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from benchmarks.performance.collecting import Server
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tests.support.collection import Collection
from tests.support.running_collector import collector_of, listening, wait_until
from veilgraph.campaign.tokens import new_key
from veilgraph.cli import main
from veilgraph.collector.middleware import Limits
from veilgraph.collector.server import (
    ACCEPTED_PER_TURN,
    ConnectionLimits,
    DeadlineProtocol,
    LogRateLimit,
    make_server,
)
from veilgraph.collector.store import ReportStore

COLLECTION = Collection.ring()
SECONDS = 0.3
# More than the kernel keeps for a peer that does not read.
LARGE = 32 * 1024 * 1024


class Impatient(DeadlineProtocol):
    """A protocol with a deadline that a test can wait for."""

    header_seconds = SECONDS
    write_seconds = SECONDS


@contextmanager
def serving_much(folder: Path, protocol: type[DeadlineProtocol]) -> Iterator[httpx.Client]:
    """Serve a collector that also has a page of `LARGE` bytes."""
    app = collector_of(
        campaign=COLLECTION.campaign,
        graph=COLLECTION.graph,
        store=ReportStore.open(f"sqlite:///{folder}/reports.db"),
        credentials=COLLECTION.credentials,
        limits=Limits(requests_per_second=0, body_seconds=protocol.header_seconds),
    )

    async def with_a_large_page(scope: Scope, receive: Receive, send: Send) -> None:
        is_large = scope.get("path") == "/large"
        await (Response(b"x" * LARGE) if is_large else app)(scope, receive, send)

    with listening(with_a_large_page, protocol=protocol) as client:
        yield client


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with serving_much(tmp_path_factory.mktemp("server"), Impatient) as client:
        yield client


def connect(client: httpx.Client) -> socket.socket:
    return socket.create_connection((client.base_url.host, client.base_url.port or 0), timeout=60)


def received(connection: socket.socket) -> bytes:
    """Return everything until the collector closes the connection."""
    parts = []
    try:
        while part := connection.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


HEAD = b"PUT /v1/reports/n1 HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n"


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"", b""),
        (b"PUT /v1/rep", b""),
        (HEAD, b""),
        (HEAD + b"\r\n", b"HTTP/1.1 408"),
        (HEAD + b"\r\nhalf of a body", b"HTTP/1.1 408"),
        (b"GET /health HTTP/1.1\r\nHost: x\r\n\r\nGET /hea", b"HTTP/1.1 200"),
        (b"\r\n\r\n", b""),
        (b"GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nab", b"HTTP/1.1 200"),
        (b"\x16\x03\x01nonsense\r\n\r\n", b"HTTP/1.1 400"),
    ],
)
def test_a_half_open_connection_is_closed_in_time_and_others_are_served(
    client: httpx.Client, sent: bytes, answer: bytes
) -> None:
    with connect(client) as connection:
        connection.sendall(sent)
        assert client.get("/health").status_code == 200
        text = received(connection)
    assert text.startswith(answer)
    assert bool(text) == bool(answer)


def send_until_closed(connection: socket.socket, parts: Iterable[bytes], pause: float) -> bool:
    """Return whether the collector closed the connection before everything was sent."""
    try:
        for part in parts:
            connection.sendall(part)
            time.sleep(pause)
    except OSError:
        return True
    return False


@pytest.mark.parametrize(
    "sent",
    [
        HEAD.replace(b"100", b"10000000") + b"\r\n",
        HEAD + b"\r\nhalf of a body",
        b"GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nab",
    ],
)
def test_an_answer_before_the_end_of_a_body_says_that_the_connection_is_closed(
    client: httpx.Client, sent: bytes
) -> None:
    """Otherwise a client sends its next report on the same connection, and that one is lost."""
    with connect(client) as connection:
        connection.sendall(sent)
        assert b"\r\nconnection: close\r\n" in received(connection).partition(b"\r\n\r\n")[0] + b"\r\n"


def test_a_request_that_was_read_whole_keeps_its_connection(tmp_path: Path) -> None:
    with serving_much(tmp_path, DeadlineProtocol) as client, connect(client) as connection:
        for _ in range(2):
            connection.sendall(HEAD.replace(b"100", b"2") + b"\r\n")
            time.sleep(0.05)  # so that the head is parsed before the body has arrived
            connection.sendall(b"{}")
            answer = b""
            while not answer.endswith(b"}") and (part := connection.recv(65536)):
                answer += part
            assert answer.startswith(b"HTTP/1.1 401")
            assert b"connection: close" not in answer


def test_a_request_that_arrives_byte_by_byte_is_closed_in_time(client: httpx.Client) -> None:
    with connect(client) as connection:
        assert send_until_closed(connection, (bytes([byte]) for byte in HEAD * 100), 0.02)


def test_headers_without_end_are_cut_off(client: httpx.Client) -> None:
    headers = (b"X: " + b"y" * 100_000 + b"\r\n" for _ in range(1000))
    with connect(client) as connection:
        assert send_until_closed(connection, itertools.chain([b"GET /health HTTP/1.1\r\n"], headers), 0.001)


GET = b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
CHUNKED = GET.replace(b"GET", b"POST") + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("request_", "part", "most", "end", "status"),
    [
        (GET, b"a:\r\n", DeadlineProtocol.max_headers - 2, b"\r\n", b"200"),
        (CHUNKED, b"1\r\nx\r\n", DeadlineProtocol.max_chunks - 1, b"0\r\n\r\n", b"405"),
        (CHUNKED + b"0\r\n", b"a:\r\n", DeadlineProtocol.max_headers - 3, b"\r\n", b"405"),
    ],
)
@pytest.mark.parametrize("times", [1, 100])
def test_a_request_of_more_parts_than_it_may_have_is_cut_off_at_once(
    client: httpx.Client, request_: bytes, part: bytes, most: int, end: bytes, status: bytes, times: int
) -> None:
    """Each part is a call before anybody can refuse the request: 60,000 took 70 ms, and everybody waited."""
    with connect(client) as connection:
        connection.sendall(request_ + part * most + end)
        assert received(connection).startswith(b"HTTP/1.1 " + status)
    with connect(client) as connection:
        # All at once: one piece can hold more than everything that a request may have.
        more = request_ + part * (most + times) + end
        assert send_until_closed(connection, [more], 0) or received(connection) == b""


def test_headers_and_address_that_arrive_in_one_piece_have_a_size_too(client: httpx.Client) -> None:
    for more, answer in ((0, b"HTTP/1.1 200"), (1, b"")):
        address = b"/health?" + b"a" * (DeadlineProtocol.max_address_bytes - 8 + more)
        with connect(client) as connection:
            connection.sendall(GET.replace(b"/health", address) + b"\r\n")
            assert received(connection)[:12] == answer
    with connect(client) as connection:
        connection.sendall(GET + b"X: " + b"y" * DeadlineProtocol.max_header_bytes + b"\r\n\r\n")
        assert received(connection) == b""


@pytest.mark.parametrize("before", [b"0\r\nX: ", b"1;"], ids=["after the body", "beside a chunk"])
def test_what_is_neither_header_nor_body_is_cut_off_where_it_has_no_end(tmp_path: Path, before: bytes) -> None:
    head = CHUNKED.replace(b"POST /health", b"PUT /v1/reports/n1") + before
    # With the deadline of a real collector for the body: the size is what ends it.
    with serving_much(tmp_path, DeadlineProtocol) as client, connect(client) as connection:
        assert send_until_closed(connection, itertools.chain([head], itertools.repeat(b"y" * 10_000, 100)), 0.01)


def test_a_body_may_be_longer_than_headers_may(tmp_path: Path) -> None:
    entries = [{"token": COLLECTION.token(node), "report": COLLECTION.report(node).document} for node in ("n0", "n1")]
    body = "\n".join(json.dumps(entry).ljust(500) for entry in entries * 200).encode()
    head = f"POST /v1/reports HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with serving_much(tmp_path, DeadlineProtocol) as client, connect(client) as connection:
        for start in range(0, len(body), 10_000):
            connection.sendall((b"" if start else head) + body[start : start + 10_000])
            time.sleep(0.01)
        answer = received(connection)
        assert len(body) > 3 * DeadlineProtocol.max_header_bytes
        assert answer.startswith(b"HTTP/1.1 200")


def test_headers_after_a_body_add_nothing_to_those_before_it(tmp_path: Path) -> None:
    node = COLLECTION.graph.names[0]
    head = f"PUT /v1/reports/{node} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    late = f"0\r\nAuthorization: Bearer {COLLECTION.token(node)}\r\n\r\n"
    with serving_much(tmp_path, DeadlineProtocol) as client, connect(client) as connection:
        # All in one piece, so that the headers are there before the request is looked at.
        connection.sendall((head + late).encode())
        assert received(connection).startswith(b"HTTP/1.1 401")


@pytest.mark.parametrize("length", [str(10**7), "-1", "9" * 30, "ten"])
def test_a_body_that_is_too_long_is_not_read(client: httpx.Client, length: str) -> None:
    with connect(client) as connection:
        connection.sendall(f"PUT /v1/reports/n1 HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode())
        assert received(connection)[:12] in (b"HTTP/1.1 413", b"HTTP/1.1 400")


def test_a_body_without_a_length_is_cut_off_where_it_is_too_long(client: httpx.Client) -> None:
    with connect(client) as connection:
        connection.sendall(b"PUT /v1/reports/n1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        chunks = (b"8000\r\n" + b"x" * 0x8000 + b"\r\n" for _ in range(1000))
        assert send_until_closed(connection, chunks, 0), "32 MB were taken in"


def test_a_hundred_silent_connections_do_not_keep_others_waiting(client: httpx.Client) -> None:
    silent = [connect(client) for _ in range(100)]
    assert client.get("/health").status_code == 200
    for connection in silent:
        connection.close()


def test_empty_lines_after_a_request_keep_no_connection_open(client: httpx.Client) -> None:
    with connect(client) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = b""
        while not answer.endswith(b'{"status":"ok"}'):
            answer += connection.recv(65536)
        connection.sendall(b"\r\n")
        assert received(connection) == b""


@pytest.mark.parametrize("close", [b"", b"Connection: close\r\n"])
def test_a_peer_that_does_not_read_is_dropped(client: httpx.Client, close: bytes) -> None:
    with connect(client) as connection:
        connection.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n" + close + b"\r\n")
        time.sleep(4 * SECONDS)
        assert client.get("/health").status_code == 200
        assert len(received(connection)) < LARGE


def test_a_peer_that_reads_slowly_but_in_time_gets_everything(tmp_path: Path) -> None:
    # With the deadline of a real collector: on a busy machine a peer in time may pause for longer than `SECONDS`.
    with serving_much(tmp_path, DeadlineProtocol) as client:
        assert len(client.get("/large").content) == LARGE


def test_requests_beyond_the_rate_end_their_connection_and_the_rest_is_not_answered(tmp_path: Path) -> None:
    app = collector_of(
        campaign=COLLECTION.campaign,
        graph=COLLECTION.graph,
        store=ReportStore.open(f"sqlite:///{tmp_path}/reports.db"),
        credentials=COLLECTION.credentials,
        limits=Limits(requests_per_second=0.001, burst=3),
    )
    with listening(app) as client, connect(client) as connection:
        connection.sendall(b"GET /v1/campaign HTTP/1.1\r\nHost: x\r\n\r\n" * 10)
        answer = received(connection)
    assert (answer.count(b"HTTP/1.1 200"), answer.count(b"HTTP/1.1 429")) == (3, 1)


@pytest.mark.parametrize(("requests", "answers"), [(17, 17), (1000, 0)])
def test_a_connection_on_which_too_many_requests_wait_is_closed(
    client: httpx.Client, requests: int, answers: int
) -> None:
    with connect(client) as connection:
        request = b"GET /v1/campaign HTTP/1.1\r\nHost: x\r\n"
        connection.sendall((request + b"\r\n") * (requests - 1) + request + b"Connection: close\r\n\r\n")
        assert received(connection).count(b"HTTP/1.1 200") == answers


def is_open(connection: socket.socket) -> bool:
    """Return whether the collector serves the connection."""
    try:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        return connection.recv(65536).startswith(b"HTTP/1.1 200")
    except OSError:
        return False


@pytest.mark.parametrize(
    ("limits", "proxy", "served"),
    [
        # Of the addresses ending in 1, 1, 1, 2, 3, 3.
        (ConnectionLimits(total=10, per_sender=2), None, [True, True, False, True, True, True]),
        (ConnectionLimits(total=3, per_sender=2), None, [True, True, False, True, False, False]),
        (ConnectionLimits(total=4, per_sender=1), "127.0.0.1", [True, True, True, True, False, False]),
    ],
)
def test_connections_are_limited_for_each_address_and_in_all(
    tmp_path: Path, limits: ConnectionLimits, proxy: str | None, served: list[bool]
) -> None:
    app = collector_of(
        campaign=COLLECTION.campaign,
        graph=COLLECTION.graph,
        store=ReportStore.open(f"sqlite:///{tmp_path}/reports.db"),
        credentials=COLLECTION.credentials,
    )
    with listening(app, limits=limits, trusted_proxy=proxy) as client:
        address = (client.base_url.host, client.base_url.port or 0)
        connections = []
        for last in (1, 1, 1, 2, 3, 3):
            connections.append(socket.create_connection(address, timeout=5, source_address=(f"127.0.0.{last}", 0)))
            assert is_open(connections[-1]) == served[len(connections) - 1]
        for connection in connections:
            connection.close()
        # Closed connections make room for others.
        wait_until(lambda: client.get("/health").status_code == 200)


def test_serve_stops_in_good_order_and_keeps_what_it_acknowledged(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/reports.db"
    options = [*COLLECTION.write(tmp_path), "--store", url]
    with Server(options, log=tmp_path / "log") as process:
        acknowledged: list[str] = []

        def send() -> None:
            with httpx.Client(base_url=process.url) as client:
                for node in COLLECTION.graph.names:
                    body, headers = COLLECTION.report(node).to_json(), COLLECTION.headers(node)
                    try:
                        if client.put(f"/v1/reports/{node}", content=body, headers=headers).status_code == 201:
                            acknowledged.append(node)
                    except httpx.HTTPError:
                        return

        sender = threading.Thread(target=send)
        sender.start()
        while not acknowledged:
            time.sleep(0.001)
        assert process.stop() == 0
        sender.join()
    store = ReportStore.open(url)
    assert {r.node for r in store.reports.iterate(COLLECTION.campaign)} >= set(acknowledged)
    store.close()
    assert COLLECTION.token("n0") not in process.text
    assert "Traceback" not in process.text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"--store": "mysql://u:secret@h/d"}, "sqlite:///FILE"),
        ({"--store": "postgresql://u:secret@127.0.0.1:1/d"}, "does not answer"),
        ({"": "no.json"}, "no.json"),
        ({"--graph": "no.csv"}, "no.csv"),
        ({"--admin-token-file": "keys.txt"}, "keys.txt is given as keys-file and as admin-token-file"),
        ({"--keys-file": "admin.txt"}, "admin.txt is given as keys-file and as admin-token-file"),
        ({"--set": "plausible=no.toml"}, "no.toml cannot be read as plausible shares"),
        ({"--set": "plausible=shares.toml"}, "shares.toml: 'il' is not a class of the campaign: known are well, ill"),
        ({"--host": "192.0.2.1"}, "cannot listen on 192.0.2.1"),
        ({"--port": "70000"}, "70000"),
    ],
)
def test_serve_refuses_unusable_options_in_one_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    change: dict[str, str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [*COLLECTION.write(tmp_path), "--store", f"sqlite:///{tmp_path}/reports.db"]
    (tmp_path / "keys.txt").write_text("\n".join([*COLLECTION.credentials.keys, new_key()]), encoding="utf-8")
    (tmp_path / "shares.toml").write_text("il = [0, 1]", encoding="utf-8")
    options = dict(zip(["", *words[1::2]], [words[0], *words[2::2]], strict=True)) | change
    assert main(["serve", *(word for pair in options.items() for word in pair if word)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "secret" not in error
    assert len(error.strip().splitlines()) == 1


class Lines(logging.Handler):
    """A handler that keeps its lines."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def test_lines_beyond_the_rate_are_left_out_and_counted() -> None:
    now = [0.0]
    logger, handler = logging.Logger("test"), Lines()
    handler.addFilter(LogRateLimit(per_second=1, burst=3, clock=lambda: now[0]))
    logger.addHandler(handler)

    def flood(times: int) -> None:
        for number in range(times):
            logger.warning("malformed request %d", number)

    flood(1000)
    logger.warning("another place")
    assert handler.lines == [f"malformed request {number}" for number in range(3)] + ["another place"]
    now[0] = 1.0
    flood(2)
    assert handler.lines[4:] == ["malformed request 0 (997 more like this were left out)"]


def test_connections_that_nobody_accepts_yet_wait_beyond_those_of_one_turn() -> None:
    async def nothing(scope: Scope, receive: Receive, send: Send) -> None: ...

    async def connect_all() -> int:
        server = make_server(nothing, host="127.0.0.1", port=0)
        server.config.load()
        server.lifespan = server.config.lifespan_class(server.config)
        await server.startup()
        address = server.servers[0].sockets[0].getsockname()
        peers = [socket.socket() for _ in range(3 * ACCEPTED_PER_TURN)]
        try:
            for peer in peers:  # the loop accepts none meanwhile
                peer.settimeout(0.5)
                peer.connect(address)
        except TimeoutError:
            return peers.index(peer)
        finally:
            for each in peers:
                each.close()
            server.force_exit = True
            await server.shutdown()
        return len(peers)

    assert asyncio.run(connect_all()) == 3 * ACCEPTED_PER_TURN
