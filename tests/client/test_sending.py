"""Sending a report: what is believed of an answer, what is tried again, and what never travels."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from tests.support.participant_page import answer_to
from veilgraph.client import DrawnReport, Patience, check_receipt, has_reported, send, withdraw
from veilgraph.client.connection import make_request
from veilgraph.errors import SendError
from veilgraph.privacy.strict_json import canonical_json

REPORT = DrawnReport({"campaign": "c", "node": "a/b ü", "features": [0], "label": 1}, 300)


class Collector:
    """A collector that gives prepared responses, and records the requests."""

    def __init__(self, replies: list[tuple[int, dict[str, str]]]) -> None:
        self.replies = replies
        self.answer: bytes | None = None
        self.standing = b'{"status":"missing","rounds":[]}'
        self.asked: list[tuple[str, str]] = []
        self.seen: list[tuple[str, str, bytes]] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"] or 0))
                collector.seen.append((self.path, self.headers["Authorization"], body))
                code, headers = collector.replies.pop(0)
                if code == 0:  # hangs up
                    self.close_connection = True
                    return
                self.send_response(code)
                for name, value in headers.items():
                    self.send_header(name, value)
                answer = collector.answer if collector.answer is not None else answer_to(body)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            do_DELETE = do_POST = do_PUT  # noqa: N815 (the names of http.server)

            def do_GET(self) -> None:
                collector.asked.append((self.path, self.headers["Authorization"]))
                self.send_response(200)
                self.send_header("Content-Length", str(len(collector.standing)))
                self.end_headers()
                self.wfile.write(collector.standing)

            def log_message(self, *_: Any) -> None: ...

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@contextmanager
def collector(*replies: int | tuple[int, dict[str, str]]) -> Iterator[Collector]:
    started = Collector([(reply, {}) if isinstance(reply, int) else reply for reply in replies])
    thread = threading.Thread(target=started.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield started
    finally:
        started.server.shutdown()
        thread.join()
        started.server.server_close()


@pytest.mark.parametrize(("code", "stored"), [(201, True), (200, False)])
def test_a_report_is_put_under_its_node_with_its_token(code: int, stored: bool) -> None:
    with collector(code) as running:
        receipt = send(running.url + "/", REPORT, "t0ken")
    assert bool(receipt) is receipt.is_new is stored
    assert receipt.document == json.loads(answer_to(canonical_json(REPORT).encode()))["receipt"]
    ((path, token, body),) = running.seen
    assert path == "/v1/reports/a%2Fb%20%C3%BC"
    assert token == "Bearer t0ken"  # noqa: S105
    assert json.loads(body) == REPORT
    assert body.decode() == REPORT.text
    assert len(body) == 300
    assert running.asked == [(path, token)]


@pytest.mark.parametrize("standing", ["stored", "withdrawn", "purged", "another", "", None])
def test_no_second_report_leaves_the_device_and_none_that_is_not_wanted(standing: str | None) -> None:
    with collector(200) as running:
        running.standing = (
            b"<html>Welcome!" if standing is None else json.dumps({"status": standing, "rounds": []}).encode()
        )
        with pytest.raises(SendError):
            send(running.url, REPORT, "t0ken", patience=Patience(attempts=1))
        assert running.seen == []
        assert not send(running.url, REPORT, "t0ken", again=True)
    assert len(running.seen) == len(running.asked) == 1


def of_round(number: int, remembered: set[int]) -> DrawnReport:
    return DrawnReport({**REPORT, "round": number}, 300, rounds=remembered)


def test_a_report_of_a_later_round_is_sent_by_a_device_that_remembers_the_earlier_ones() -> None:
    with collector(201) as running:
        running.standing = b'{"status":"earlier","rounds":[1]}'
        assert has_reported(running.url, "a/b", "t0ken") == "earlier"
        assert send(running.url, of_round(3, {1, 2, 3}), "t0ken")


@pytest.mark.parametrize("remembered", [{3}, {1, 3}, set()], ids=["nothing", "an older copy", "no folder"])
def test_no_second_permanent_answer_leaves_a_device_that_forgot_a_round(remembered: set[int]) -> None:
    with collector(201) as running:
        running.standing = b'{"status":"earlier","rounds":[1,2]}'
        with pytest.raises(SendError, match=r"round (1, )?2, and this device does not remember .*; nothing was sent"):
            send(running.url, of_round(3, remembered), "t0ken", patience=Patience(attempts=1))
        assert running.seen == []


@pytest.mark.parametrize("rounds", ["null", "1", '["1"]', "[true]", "[1.0]"])
def test_rounds_that_are_no_list_of_whole_numbers_are_no_answer(rounds: str) -> None:
    with collector(201) as running:
        running.standing = f'{{"status":"missing","rounds":{rounds}}}'.encode()
        with pytest.raises(SendError, match="did not say what the collector holds"):
            send(running.url, REPORT, "t0ken", patience=Patience(attempts=1))
        assert running.seen == []


def altered_answer(**changes: Any) -> bytes:
    document = json.loads(answer_to(canonical_json(REPORT).encode()))
    document["receipt"] |= changes
    return json.dumps(document).encode()


NO_CONFIRMATIONS = {
    "a login page": b"<html>Welcome! Please accept our terms.</html>",
    "nothing": b"",
    "an empty object": b"{}",
    "a list": b"[]",
    "no receipt": b'{"node": "a/b", "status": "stored"}',
    "a receipt of another campaign": altered_answer(campaign="d"),
    "a receipt of another node": altered_answer(node="b"),
    "a receipt of another report": altered_answer(report_sha256="0" * 64),
    "a signature that is not text": altered_answer(signature=1),
    "a signature that steers a terminal": altered_answer(signature="\x1b[2K"),
    "an endless answer": b" " * 2**17 + altered_answer(),
    "deep nesting": b"[" * 2**16,
}


NEVER = Patience(sleep=lambda _: pytest.fail("it waited"))


@pytest.mark.parametrize("answer", NO_CONFIRMATIONS)
def test_an_answer_that_does_not_confirm_what_was_asked_is_not_believed(answer: str) -> None:
    """Such as that of a captive portal, which answers 200 to everything."""
    with collector(200, 201, 200, 200) as running:
        running.answer = NO_CONFIRMATIONS[answer]
        for _ in range(2):
            with pytest.raises(SendError, match="did not confirm this report"):
                send(running.url, REPORT, "t", patience=NEVER)
        assert len(running.seen) == 2
        with pytest.raises(SendError, match="did not confirm the withdrawal"):
            withdraw(running.url, "a/b", "t", patience=NEVER)
        with pytest.raises(SendError, match="did not say what the collector holds"):
            check_receipt(running.url, {"node": "a/b"}, patience=NEVER)
    # To check a receipt needs no token.
    checked = ("/v1/receipts", None, b'{"node":"a/b"}')
    assert running.seen[2:] == [("/v1/reports/a%2Fb", "Bearer t", b""), checked]


def test_the_collectors_own_pause_is_honoured_and_one_that_is_too_long_is_an_error() -> None:
    pauses: list[float] = []
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    replies = [(429, {"Retry-After": "7"}), (503, {"Retry-After": date}), (503, {"Retry-After": "soon"}), (200, {})]
    with collector(*replies) as running:
        assert not send(running.url, REPORT, "t", patience=Patience(sleep=pauses.append))
    assert pauses[0] == 7
    assert 50 < pauses[1] <= 60
    assert pauses[2] <= 2
    with collector((503, {"Retry-After": "9" * 50})) as running, pytest.raises(SendError, match="asks to wait"):
        send(running.url, REPORT, "t", patience=NEVER)


@pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY", "all_proxy"])
def test_no_proxy_is_used_for_this_machine(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with collector() as proxy, collector(201) as running:
        monkeypatch.setenv(variable, proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        assert send(running.url, REPORT, "t")
    assert proxy.seen == []


def test_a_busy_or_absent_collector_is_tried_again_with_the_same_report() -> None:
    pauses: list[float] = []
    with collector(503, 0, 429, 500, 507, 408, 502, 504, 201) as running:
        assert send(running.url, REPORT, "t", patience=Patience(sleep=pauses.append, attempts=9))
    assert len({body for _, _, body in running.seen}) == 1
    assert all(0.25 * 2**i <= pause <= 0.5 * 2**i for i, pause in enumerate(pauses))
    assert len(pauses) == 8


def test_an_unreachable_collector_is_an_error_after_all_attempts() -> None:
    pauses: list[float] = []
    with collector() as running:
        url = running.url
    with pytest.raises(SendError, match="3 times; nothing was sent, and what this device drew stays here"):
        send(url, REPORT, "t", patience=Patience(attempts=3, sleep=pauses.append))
    assert len(pauses) == 2


REFUSED = {
    409: "first one counts",
    401: "token",
    410: "closed",
    422: "does not fit",
    418: "answered 418",
    302: "leads elsewhere",
}


@pytest.mark.parametrize("code", REFUSED)
def test_a_refusal_is_final_and_says_why(code: int) -> None:
    with collector(code) as running, pytest.raises(SendError, match=REFUSED[code]) as caught:
        send(running.url, REPORT, "s3cret", patience=Patience(sleep=lambda _: pytest.fail("it waited")))
    assert "s3cret" not in str(caught.value)
    assert len(running.seen) == 1


@pytest.mark.parametrize(
    "url", ["http://example.org", "ftp://127.0.0.1", "file:///etc/passwd", "", "http://127.0.0.1.example.org"]
)
def test_a_token_never_travels_in_the_clear(url: str) -> None:
    with pytest.raises(SendError, match="https"):
        send(url, REPORT, "t")


@pytest.mark.parametrize("url", ["https://[::1", "https://x:port", "https://exa mple.org", "https://" + "ü" * 70])
def test_an_invalid_address_is_not_tried_again(url: str) -> None:
    with pytest.raises(SendError, match="cannot be used"):
        send(url, REPORT, "t", patience=Patience(sleep=lambda _: pytest.fail("it waited")))


def test_a_slow_collector_does_not_block_a_device() -> None:
    with collector() as running:
        running.server.RequestHandlerClass.do_PUT = lambda _: time.sleep(0.5)  # type: ignore[attr-defined]
        with pytest.raises(SendError, match="cannot be reached"):
            send(running.url, REPORT, "t", patience=Patience(attempts=1, timeout=0.05))


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_no_redirection_is_followed(code: int) -> None:
    """Who leads elsewhere would get the token and the report, at an address of their choice."""
    with collector(200) as elsewhere, collector(*[(code, {"Location": elsewhere.url + "/"})] * 3) as running:
        running.answer = elsewhere.answer = b"{}"
        for asked in (
            lambda: send(running.url, REPORT, "t0ken", patience=NEVER),
            lambda: withdraw(running.url, "a/b", "t0ken", patience=NEVER),
            lambda: check_receipt(running.url, {"node": "a/b"}, patience=NEVER),
        ):
            with pytest.raises(SendError, match="leads elsewhere"):
                asked()
        assert len(running.seen) == 3
        assert (elsewhere.asked, elsewhere.seen) == ([], [])


def test_an_encrypted_address_is_asked_wherever_it_is_and_another_on_this_machine_alone() -> None:
    for url in (
        "https://collect.example.org/",
        "https://127.0.0.1",
        "http://127.0.0.1:8000",
        "http://[::1]",
        "http://localhost",
    ):
        assert make_request(url, "campaign", "", "GET").full_url == f"{url.rstrip('/')}/v1/campaign"
