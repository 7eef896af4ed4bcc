"""Published files go out in pieces, from any byte on, to slow peers whole and to those that do not read in part."""

from __future__ import annotations

import hashlib
import os
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from tests.support.running_collector import listening, wait_until
from veilgraph.collector.app import new_app
from veilgraph.collector.published import add_published
from veilgraph.collector.server import ConnectionLimits, DeadlineProtocol

CONTENT = bytes(range(251)) * 40_000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
PATH = f"/v1/published/{SHA256}"


@contextmanager
def serving(write_seconds: float = 20.0) -> Iterator[httpx.Client]:
    class Protocol(DeadlineProtocol):
        pass

    Protocol.write_seconds = write_seconds
    app = new_app()
    add_published(app, {SHA256: CONTENT})
    with listening(app, protocol=Protocol, limits=ConnectionLimits(total=300, per_sender=300)) as client:
        yield client


def test_a_file_is_sent_whole_or_from_a_byte_on() -> None:
    size = len(CONTENT)
    with serving() as client:
        whole = client.get(PATH)
        assert (whole.status_code, whole.content) == (200, CONTENT)
        assert whole.headers["accept-ranges"] == "bytes"
        assert "immutable" in whole.headers["cache-control"]
        for asked, part in [
            ("bytes=0-", CONTENT),
            ("bytes=0-0", CONTENT[:1]),
            ("bytes=5-9", CONTENT[5:10]),
            (f"bytes={size - 3}-", CONTENT[-3:]),
            (f"bytes=7-{size + 9}", CONTENT[7:]),
            ("bytes=-4", CONTENT[-4:]),
        ]:
            answer = client.get(PATH, headers={"Range": asked})
            assert (answer.status_code, answer.content) == (206, part), asked
            if asked == "bytes=5-9":
                assert answer.headers["content-range"] == f"bytes 5-9/{size}"


def test_a_range_that_holds_nothing_is_refused_and_one_that_is_not_understood_is_left_out() -> None:
    with serving() as client:
        for asked in ("bytes=3-2", "bytes=99999999-", "bytes=-0"):
            answer = client.get(PATH, headers={"Range": asked})
            assert (answer.status_code, answer.headers["content-range"]) == (416, f"bytes */{len(CONTENT)}")
        for asked in ("bytes=-", "bytes=1-2,4-5", "lines=1-2"):
            assert client.get(PATH, headers={"Range": asked}).status_code == 200
        assert client.get(PATH, headers={"Range": "bytes=1-", "If-Range": '"x"'}).status_code == 200


def test_who_has_the_file_gets_nothing_and_the_rest_comes_from_the_same_file() -> None:
    with serving() as client:
        tag = client.get(PATH).headers["etag"]
        assert client.get(PATH, headers={"If-None-Match": tag}).status_code == 304
        rest = client.get(PATH, headers={"Range": "bytes=10-", "If-Range": tag})
        assert (rest.status_code, rest.content) == (206, CONTENT[10:])


def asking(client: httpx.Client, closing: ExitStack) -> socket.socket:
    """Ask for the file on a connection that keeps little of it in the kernel."""
    connection = closing.enter_context(socket.socket())
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect((client.base_url.host, client.base_url.port))
    connection.sendall(f"GET {PATH} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    return connection


@pytest.mark.slow
def test_a_slow_peer_has_time_for_each_piece_and_gets_the_whole_file() -> None:
    deadline = 2.0
    with serving(deadline) as client, ExitStack() as closing:
        connection, received, began = asking(client, closing), 0, time.monotonic()
        connection.settimeout(10)
        while received < len(CONTENT):
            piece = connection.recv(2**18)
            assert piece, f"closed after {received} bytes"
            received += len(piece)
            # At most 2 MB a second.
            time.sleep(len(piece) / 2e6)
        assert time.monotonic() - began > 2 * deadline


def test_a_peer_that_does_not_read_is_dropped() -> None:
    with serving(0.2) as client, ExitStack() as closing:
        connection = asking(client, closing)
        time.sleep(1.0)
        connection.settimeout(10)
        received = 0
        with pytest.raises(ConnectionResetError):  # noqa: PT012
            while piece := connection.recv(2**18):
                received += len(piece)
            raise ConnectionResetError
        assert received < len(CONTENT)


def memory() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
def test_250_peers_that_do_not_read_cost_little_memory() -> None:
    """One piece each, of 64 KiB, and what belongs to a connection; the whole file each would be 2.5 GB."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 1024)), hard))
    with serving() as client, ExitStack() as closing:
        assert client.get(PATH, headers={"Range": "bytes=0-9"}).status_code == 206
        before = memory()
        for _ in range(250):
            asking(client, closing)
        wait_until(lambda: memory() > before + 2**20, seconds=10)
        time.sleep(3)
        grown = memory() - before
    assert grown < 250 * 2**18
