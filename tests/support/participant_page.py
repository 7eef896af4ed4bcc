"""The participant's page behind a collector that a test controls."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from tests.support.campaigns import campaign
from tests.support.chromium import Page
from veilgraph.collector.participant_page import participant_page
from veilgraph.privacy.schema import Column, FeatureSchema

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'none'; "
    "base-uri 'none'; frame-ancestors 'none'"
)


SCHEMA = FeatureSchema(
    columns=(
        Column(name="age", edges=(0, 30, 50, 120)),
        Column(name="<img src=x onerror=alert(1)>", values=("no", "yes")),
        Column(name="district", values=("North", "South", "East", "West", "Harbour", "Old Town", "Hills")),
    ),
    classes=("well", "ill"),
)
CAMPAIGN = campaign(SCHEMA, epsilon_x=0.5, sampled=1, epsilon_y=1.0, label="health")
INVITATION = "#node=u%2F17&token=t0ken"
FILL = """
document.getElementById("q0").value = "41.25";
document.querySelectorAll("input[name=q1]")[1].click();
document.getElementById("q2").value = "4";
document.querySelectorAll("input[name=q3]")[1].click();
document.getElementById("consent").click();
"""
CHECK = "document.getElementById('next').click()"
# Through the check of the answers to the draw; a form that cannot be submitted draws nothing.
SUBMIT = """(async () => {
const part = (name) => document.getElementById(name);
if (!part("form").hidden) part("next").click();
for (let i = 0; i < 100 && part("checking").hidden && part("form").checkValidity(); i++)
  await new Promise((done) => setTimeout(done, 20));
if (!part("checking").hidden) part("draw").click();
})()"""


def answer_to(body: bytes) -> bytes:
    """Return what a collector answers to a report that it stored."""
    report = json.loads(body)
    receipt = {
        "campaign": report["campaign"],
        "node": report["node"],
        "report_sha256": hashlib.sha256(body.rstrip(b" ")).hexdigest(),  # of the report alone
        "stored": "2027-01-31T17:00:00Z",
        "signature": "s1gnature",
    }
    return json.dumps({"node": report["node"], "status": "stored", "receipt": receipt}).encode()


class Collector(ThreadingHTTPServer):
    """Server of a campaign and the page, which answers reports with the given statuses, then with 201."""

    def __init__(self, campaign: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.campaign = campaign
        self.published: dict[str, bytes] = {}  # files of a wave about neighbours, by their SHA-256
        self.contact_names: dict[str, str] = {}  # by number, for who has a code
        self.names_asked: list[tuple[str, str | None]] = []  # path and code of each request for them
        self.broken = False
        self.date: str | None = None  # of its clock; default: the true time
        self.lengths: list[int] = []  # of the bodies of reports
        self.part: int | None = None  # bytes after which a published file breaks off
        self.asked_from: list[str | None] = []  # what was asked of published files
        self.answer: bytes | None = None
        self.codes: list[int] = []
        self.standing: tuple[int, bytes] = (
            200,
            b'{"status": "missing", "rounds": []}',
        )  # whether the node has reported
        self.asked: list[tuple[str, str]] = []
        self.received: list[tuple[str, str, dict[str, Any]]] = []
        self.withdrawn: list[tuple[str, str]] = []
        self.checked: list[dict[str, str]] = []
        self.url = f"http://127.0.0.1:{self.server_port}/"


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def date_time_string(self, timestamp: float | None = None) -> str:
        return self.server.date or super().date_time_string(timestamp)

    def do_GET(self) -> None:
        if self.path == "/v1/campaign" and self.server.broken:
            self._reply(503, b"", "text/plain")
        elif self.path == "/v1/campaign":
            self._reply(200, self.server.campaign.encode(), "application/json")
        elif self.path.startswith("/v1/reports/"):
            node = unquote(self.path.removeprefix("/v1/reports/"))
            self.server.asked.append((node, self.headers["Authorization"]))
            self._reply(*self.server.standing, "application/json")
        elif self.path.startswith("/v1/contact-names"):
            self.server.names_asked.append((self.path, self.headers["Authorization"]))
            names = self.server.contact_names
            said = {"names": list(names.items())} if self.headers["Authorization"] else {"people": len(names)}
            self._reply(200, json.dumps(said).encode(), "application/json")
        elif found := participant_page().get(self.path):
            self._reply(200 if found.content else 204, found.content, found.media_type)
        elif self.path.removeprefix("/v1/published/") in self.server.published:
            self._publish(self.server.published[self.path.removeprefix("/v1/published/")])
        else:
            self._reply(404, b"", "text/plain")

    def _publish(self, content: bytes) -> None:
        asked = self.headers["Range"]
        self.server.asked_from.append(asked)
        first = int(asked[6:-1]) if asked else 0
        self.send_response(206 if asked else 200)
        if asked:
            self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - first))
        self.end_headers()
        self.wfile.write(content[first:][: self.server.part])

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        report = json.loads(body)
        self.server.lengths.append(len(body))
        node = unquote(self.path.removeprefix("/v1/reports/"))
        self.server.received.append((node, self.headers["Authorization"], report))
        code = self.server.codes.pop(0) if self.server.codes else 201
        self._reply(code, self.server.answer or answer_to(body), "application/json")

    def do_POST(self) -> None:
        receipt = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.checked.append(receipt)
        self._reply(200, b'{"status": "missing"}', "application/json")

    def do_DELETE(self) -> None:
        node = unquote(self.path.removeprefix("/v1/reports/"))
        self.server.withdrawn.append((node, self.headers["Authorization"]))
        document = json.loads(self.server.campaign)
        # All waves about neighbours are withdrawn together, under the id of their series.
        campaign = document["bound"]["neighbours"]["documents"][0] if document["format"] == 4 else document["id"]
        receipt = {"campaign": campaign, "node": node, "withdrawn": "2027-01-31T18:00:00Z", "signature": "s1gnature"}
        body = json.dumps({"node": node, "status": "withdrawn", "receipt": receipt}).encode()
        self._reply(
            self.server.codes.pop(0) if self.server.codes else 200, self.server.answer or body, "application/json"
        )

    def _reply(self, code: int, body: bytes, kind: str) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None: ...


@contextmanager
def serving(campaign: str) -> Iterator[Collector]:
    with Collector(campaign) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def shown(page: Page, name: str) -> bool:
    return bool(page.run(f"!document.getElementById('{name}').hidden"))


def ready(page: Page, url: str, **window: Any) -> None:
    page.complaints.clear()
    page.open(url, **window)
    page.until("!document.getElementById('guarantee').hidden")


def words(page: Page, name: str) -> str:
    return str(page.run(f"document.getElementById('{name}').textContent"))


def click(page: Page, name: str) -> None:
    page.run(f"document.getElementById('{name}').click()")


def is_visible(page: Page, name: str) -> bool:
    return bool(page.run(f"document.getElementById('{name}').checkVisibility()"))


def refused(page: Page, said: str) -> None:
    """Wait for a problem that the page tells."""
    page.until(f"document.getElementById('problem').textContent.includes({said!r})")


def review(page: Page, entered: str) -> str:
    """Run what a person enters and submits, wait for the review, and return what will be sent."""
    page.run(entered)
    page.until("!document.getElementById('review').hidden")
    return words(page, "raw")


def deliver(page: Page) -> None:
    """Send what was drawn, and wait for the collector's receipt."""
    click(page, "send")
    page.until("!document.getElementById('done').hidden")
