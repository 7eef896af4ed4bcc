"""Responses of the collector: who gets which, and that no log holds a report or a token."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from tests.support import running_collector as running
from tests.support.collection import Collection
from tests.support.running_collector import collector_of, listening
from veilgraph.campaign.receipt import Receipt, read_receipt
from veilgraph.campaign.report import Report
from veilgraph.campaign.tokens import new_key, token_for
from veilgraph.collector.auth import Credentials
from veilgraph.collector.middleware import Limits
from veilgraph.collector.reports import PutResult, Reports
from veilgraph.collector.store import ReportStore
from veilgraph.errors import GraphError, RunError, StoreFullError, StoreUnavailableError
from veilgraph.graph import Graph
from veilgraph.privacy.schema import FeatureSchema

COLLECTION = Collection.ring()
UNLIMITED = Limits(requests_per_second=0)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ReportStore:
    return ReportStore.open(f"sqlite:///{tmp_path_factory.mktemp('store')}/reports.db")


@pytest.fixture(scope="module")
def client(store: ReportStore) -> Iterator[httpx.Client]:
    with running.collecting(COLLECTION, store) as client:
        yield client


def put(client: httpx.Client, report: Report, collection: Collection = COLLECTION) -> httpx.Response:
    return client.put(f"/v1/reports/{report.node}", content=report.to_json(), headers=collection.headers(report.node))


def test_the_campaign_is_public_and_has_its_id_and_its_notice_as_etag(client: httpx.Client) -> None:
    response = client.get("/v1/campaign")
    assert response.text == COLLECTION.campaign.to_json()
    assert response.headers["etag"] == f'"{COLLECTION.campaign.id}.1"'
    assert client.get("/v1/campaign", headers={"If-None-Match": response.headers["etag"]}).status_code == 304


def test_a_report_is_stored_once(client: httpx.Client) -> None:
    assert put(client, COLLECTION.report("n1")).status_code == 201
    assert put(client, COLLECTION.report("n1")).status_code == 200
    refused = put(client, COLLECTION.report("n1", label=0))
    assert refused.status_code == 409
    assert refused.json()["error"] == "conflict"


def test_a_stored_report_is_answered_with_a_receipt_that_names_it_and_is_the_same_again(tmp_path: Path) -> None:
    now = [7201.0]
    report, keys = COLLECTION.report("n1"), COLLECTION.credentials.keys
    with collecting(tmp_path, COLLECTION, clock=lambda: now[0]) as client:
        first = put(client, report)
        now[0] = 1e9
        again = put(client, report)
        batch = client.post("/v1/reports", content=COLLECTION.batch(*[COLLECTION.entry("n1")] * 2)).json()["results"]
        refused = put(client, COLLECTION.report("n1", label=0))
    assert first.json().keys() == {"node", "status", "receipt"}
    receipt = read_receipt(first.content)
    assert isinstance(receipt, Receipt)
    assert receipt.is_signed_by(keys)
    assert not receipt.is_signed_by([new_key()])
    assert (receipt.campaign, receipt.node) == (COLLECTION.campaign.id, "n1")
    assert receipt.report_sha256 == hashlib.sha256(report.to_json().encode()).hexdigest()
    assert receipt.stored == "1970-01-01T02:00:00Z"
    assert [again.json()["receipt"], *(result["receipt"] for result in batch)] == [receipt.document] * 3
    assert "receipt" not in refused.json()


def test_the_newest_key_signs_receipts_and_tokens_of_an_older_one_still_count(tmp_path: Path) -> None:
    old, new = COLLECTION.credentials.keys[0], new_key()
    credentials = Credentials(keys=[new, old], admin_token=COLLECTION.credentials.admin_token)
    with collecting(tmp_path, COLLECTION, credentials=credentials) as client:
        stored = put(client, COLLECTION.report("n1"))
        headers = {"Authorization": f"Bearer {token_for(new, COLLECTION.campaign.id, 'n2')}"}
        by_new = client.put("/v1/reports/n2", content=COLLECTION.report("n2").to_json(), headers=headers)
    assert (stored.status_code, by_new.status_code) == (201, 201)
    receipt = read_receipt(stored.content)
    assert receipt.is_signed_by([new])
    assert not receipt.is_signed_by([old])
    assert repr(credentials) == "Credentials()"


def test_many_reports_are_answered_one_by_one(client: httpx.Client) -> None:
    entries: list[object] = [COLLECTION.entry("n2"), COLLECTION.entry("n2"), {"token": "x"}, 7]
    entries.append(COLLECTION.entry("n3") | {"token": COLLECTION.token("n2")})
    entries.append({"token": COLLECTION.token("n3"), "report": COLLECTION.report("n3").document | {"label": 9}})
    response = client.post("/v1/reports", content=COLLECTION.batch(*entries))
    assert response.status_code == 200
    results = response.json()["results"]
    assert [result["status"] for result in results] == [201, 200, 422, 422, 401, 422]
    assert [result["node"] for result in results] == ["n2", "n2", None, None, None, None]
    assert client.post("/v1/reports", content=b"").json() == {"results": []}


REPORT = COLLECTION.report("n4").document


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "not_json"),
        (b"{", "not_json"),
        (b"\xff\xfe", "not_json"),
        (b"[" * 100_000, "too_large"),
        (b"[" * 600, "not_json"),
        (b"null", "not_valid"),
        (json.dumps(REPORT | {"extra": 1}).encode(), "not_valid"),
        (json.dumps(REPORT | {"campaign": "0" * 64}).encode(), "not_valid"),
        (json.dumps(REPORT | {"features": [3, 0, 0]}).encode(), "not_valid"),
        (json.dumps(REPORT | {"features": [0, 0, -1]}).encode(), "not_valid"),
        (json.dumps(REPORT | {"features": [0, 0]}).encode(), "not_valid"),
        (json.dumps(REPORT | {"features": [0, True, 0]}).encode(), "not_valid"),
        (json.dumps(REPORT | {"features": [0, 1.0, 0]}).encode(), "not_valid"),
        (json.dumps(REPORT | {"features": [0, "1", 0]}).encode(), "not_valid"),
        (json.dumps(REPORT | {"label": 2}).encode(), "not_valid"),
        (json.dumps(REPORT | {"label": 10**400}).encode(), "not_valid"),
        (json.dumps(REPORT | {"label": float("nan")}).encode(), "not_valid"),
        (json.dumps(REPORT | {"features": None, "label": None}).encode(), "not_valid"),
        (json.dumps(REPORT | {"node": "n5"}).encode(), "another_node"),
        (json.dumps(REPORT | {"node": "\ud800"}).encode(), "not_valid"),
        (json.dumps(REPORT | {"node": None}).encode(), "not_valid"),
    ],
)
def test_a_body_that_is_not_a_report_of_this_node_is_refused(
    client: httpx.Client, store: ReportStore, body: bytes, reason: str
) -> None:
    before = store.reports.count(COLLECTION.campaign.id)
    response = client.put("/v1/reports/n4", content=body, headers=COLLECTION.headers("n4"))
    assert response.json()["error"] == reason
    assert response.status_code == (413 if reason == "too_large" else 422)
    assert store.reports.count(COLLECTION.campaign.id) == before


COUNTRIES = FeatureSchema(classes=tuple(f"c{i}" for i in range(18)))
BAD_SETS = [3, [], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 4], [1, 0, 2, 3, 4, 5], [0, 1, 2, 3, 4, 18], [0, 1, 2, 3, 4, "5"]]


def test_a_set_is_stored_and_any_other_is_refused_with_one_sentence(tmp_path: Path) -> None:
    collection = Collection.ring(schema=COUNTRIES)
    campaign = collection.campaign
    store = ReportStore.open(f"sqlite:///{tmp_path}/reports.db")
    with running.collecting(collection, store) as client:
        good = collection.report("n1", features=None, label=(0, 1, 2, 3, 4, 17))
        for label in BAD_SETS:
            document = good.document | {"label": label}
            headers = collection.headers("n1")
            refused = client.put("/v1/reports/n1", json=document, headers=headers)
            assert refused.status_code == 422
            assert refused.json()["detail"] == (
                "label: it must be a list of 6 different codes from 0 to 17, in ascending order"
            )
            entry = {"token": collection.token("n1"), "report": document}
            (result,) = client.post("/v1/reports", content=COLLECTION.batch(entry)).json()["results"]
            assert result["status"] == 422
        other = client.put("/v1/reports/n1", json=good.document | {"campaign": "0" * 64}, headers=headers)
        assert "another campaign" in other.json()["detail"]
        assert store.reports.count(campaign.id) == 0
        assert put(client, good, collection).status_code == 201
        assert put(client, good, collection).status_code == 200
        conflict = collection.report("n1", features=None, label=(0, 1, 2, 3, 4, 5))
        assert put(client, conflict, collection).status_code == 409
        schema = client.get("/openapi.json").json()["paths"]["/v1/reports/{node}"]["put"]["requestBody"]
        label = schema["content"]["application/json"]["schema"]["properties"]["label"]["anyOf"][0]
        assert (label["minItems"], label["maxItems"], label["uniqueItems"]) == (6, 6, True)
    assert list(store.reports.iterate(campaign)) == [good]
    store.close()


@pytest.mark.parametrize("body", [b"[]", b"{}", b'{"reports": []}', b"1", b"nul", b"\n", b"{", b"\xff\n"])
def test_a_body_that_is_not_a_batch_is_refused(client: httpx.Client, body: bytes) -> None:
    assert client.post("/v1/reports", content=body).status_code == 422


def test_of_a_batch_nothing_is_read_before_its_first_line_has_shown_a_token(client: httpx.Client) -> None:
    wrong = COLLECTION.entry("n3") | {"token": COLLECTION.token("n2")}
    started: list[int] = []

    def body() -> Iterator[bytes]:
        yield COLLECTION.batch(wrong)
        for number in range(100):
            started.append(number)
            time.sleep(0.02)
            yield COLLECTION.batch(COLLECTION.entry("n3"))

    try:
        response = client.post("/v1/reports", content=body())
    except httpx.WriteError:
        pass
    else:
        assert response.status_code == 401
    assert len(started) < 100, "the whole body was taken"
    refused = client.post("/v1/reports", content=COLLECTION.batch(wrong, COLLECTION.entry("n3")))
    assert (refused.status_code, refused.json()["error"]) == (401, "wrong_token")
    assert client.post("/v1/reports", content=b"7" * 100_000).status_code == 413


def test_more_than_a_thousand_at_once_are_refused(client: httpx.Client) -> None:
    assert (
        client.post("/v1/reports", content=COLLECTION.batch(COLLECTION.entry("n1"), *[None] * 1000)).status_code == 413
    )


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        f"Basic {COLLECTION.token('n5')}",
        f"Bearer {COLLECTION.token('n6')}",
        f"Bearer {COLLECTION.token('n5')}x",
        f"Bearer {token_for(COLLECTION.credentials.keys[0], '0' * 64, 'n5')}",
        f"Bearer {token_for(new_key(), COLLECTION.campaign.id, 'n5')}",
        f"Bearer {COLLECTION.credentials.admin_token}",
        "Bearer \xff\xfe",
    ],
    ids=[
        "none",
        "empty",
        "no token",
        "basic",
        "another node",
        "longer",
        "another campaign",
        "another key",
        "admin",
        "bytes",
    ],
)
def test_a_wrong_token_reveals_nothing_about_the_node(client: httpx.Client, authorization: str | None) -> None:
    """Whether the node exists or has reported: the response is the same, byte for byte."""
    headers = {} if authorization is None else {b"Authorization": authorization.encode("latin-1")}
    put(client, COLLECTION.report("n5"))
    answers = {
        client.put(f"/v1/reports/{node}", content=body, headers=headers).content
        for node in ("n5", "n7", "nobody")
        for body in (COLLECTION.report("n5").to_json(), b"{")
    }
    assert len(answers) == 1
    assert b"wrong_token" in answers.pop()


def test_a_node_that_joined_since_can_report_and_needs_a_token_of_its_own(tmp_path: Path) -> None:
    with collecting(tmp_path, COLLECTION, joined=["n99"]) as client:
        assert client.put("/v1/reports/n99", content=COLLECTION.report("n99").to_json()).status_code == 401
        assert put(client, COLLECTION.report("n99")).status_code == 201
        unknown = put(client, COLLECTION.report("n98"))
        assert (unknown.status_code, unknown.json()["error"]) == (404, "unknown_node")
        assert client.get("/dashboard", headers=COLLECTION.admin).status_code == 200


def test_nodes_with_odd_names_can_report(tmp_path: Path) -> None:
    names = ["a/b", "a b", "ä?#", "%2F", "x" * 256, "../v1"]
    collection = Collection.on(Graph.from_edges([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]], 6, node_ids=names))
    with collecting(tmp_path, collection) as client:
        for name in names:
            path = f"/v1/reports/{quote(name, safe='')}"
            body, headers = collection.report(name).to_json(), collection.headers(name)
            assert client.put(path, content=body, headers=headers).status_code == 201, name


@pytest.mark.parametrize("node", ["a\0b", "\ud800", "a\x1f"])
def test_a_name_that_no_database_holds_is_refused_before_the_store(tmp_path: Path, node: str) -> None:
    """Even if the organiser admits the node, and gives its owner a token."""
    store = ReportStore.open(f"sqlite:///{tmp_path}/reports.db")
    store.reports = broken = Broken(store.database)
    broken.error = AssertionError("the store was asked")
    with collecting(tmp_path, COLLECTION, store=store, joined=[node]) as client:
        entry = COLLECTION.entry(node)
        batch = client.post("/v1/reports", content=COLLECTION.batch(entry))
        assert [result["status"] for result in batch.json()["results"]] == [422]
        path = quote(node, safe="", errors="surrogatepass")
        body, headers = json.dumps(entry["report"]), COLLECTION.headers(node)
        assert client.put(f"/v1/reports/{path}", content=body, headers=headers).status_code in (401, 422)


def collecting(folder: Path, collection: Collection, **options: object):  # type: ignore[no-untyped-def]  # noqa: ANN201
    """Serve a collector with its own store."""
    given: dict[str, object] = {"credentials": collection.credentials, "limits": UNLIMITED} | options
    store = given.pop("store", None) or ReportStore.open(f"sqlite:///{folder}/reports.db")
    app = collector_of(collection.campaign, graph=collection.graph, store=store, **given)  # type: ignore[arg-type]
    return listening(app)


def test_counts_and_metrics_are_for_the_administration(client: httpx.Client) -> None:
    assert put(client, COLLECTION.report("n1")).status_code in (200, 201)
    public = client.get("/v1/status").json()
    assert public.keys() == {"campaign", "closes", "open", "purged"}
    assert client.get("/v1/status", headers=COLLECTION.headers("n1")).status_code == 401
    counts = client.get("/v1/status", headers=COLLECTION.admin).json()
    assert counts["nodes"] == 20
    assert counts["reports"] >= 1
    assert client.get("/metrics").status_code == 401
    text = client.get("/metrics", headers=COLLECTION.admin).text
    assert f'veilgraph_reports_total{{campaign="{COLLECTION.campaign.id[:12]}",outcome="stored"}}' in text
    assert not any(node in text for node in COLLECTION.graph.names)


def test_no_report_is_accepted_after_the_closing_date(tmp_path: Path) -> None:
    closes = datetime(2030, 1, 1, tzinfo=UTC)
    collection = Collection.ring(closes=closes)
    now = [closes.timestamp() - 1]
    with collecting(tmp_path, collection, clock=lambda: now[0]) as client:
        assert put(client, collection.report("n1"), collection).status_code == 201
        now[0] += 1
        assert put(client, collection.report("n2"), collection).status_code == 410
        assert put(client, collection.report("n1"), collection).status_code == 410
        assert client.post("/v1/reports", content=b"").status_code == 410
        assert client.get("/v1/status").json()["open"] is False
        # The clock is set back, by far: stored reports are still there, and reports are accepted again.
        now[0] = 0.0
        assert put(client, collection.report("n1"), collection).status_code == 200
        assert put(client, collection.report("n3"), collection).status_code == 201


def test_a_sender_beyond_the_rate_limit_must_wait(tmp_path: Path) -> None:
    limits = Limits(requests_per_second=0.001, burst=3)
    with collecting(tmp_path, COLLECTION, limits=limits) as client:
        statuses = [client.get("/health").status_code for _ in range(5)]
        assert statuses == [200, 200, 200, 429, 429]
        assert int(client.get("/health").headers["retry-after"]) > 0


def test_every_answer_has_security_headers(client: httpx.Client) -> None:
    for response in (
        client.get("/health"),
        client.get("/nowhere"),
        client.put("/v1/reports/n1"),
        client.get("/dashboard"),
    ):
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "no-referrer"
        assert "server" not in response.headers


def test_of_many_at_once_for_one_node_one_is_stored(client: httpx.Client) -> None:
    start = threading.Barrier(8)

    def send(number: int) -> int:
        start.wait()
        return put(client, COLLECTION.report("n8", features=(0, 0, number % 4))).status_code

    with ThreadPoolExecutor(8) as threads:
        statuses = Counter(threads.map(send, range(8)))
    assert statuses == {201: 1, 200: 1, 409: 6}


class Broken(Reports):
    """Reports that cannot be written."""

    error: Exception = StoreUnavailableError("down")

    def put(self, *_: object, **__: object) -> list[PutResult]:
        raise self.error


@pytest.mark.parametrize(
    ("error", "status"),
    [(StoreUnavailableError("x"), 503), (StoreFullError("x"), 507), (RuntimeError("label 1 of n1"), 500)],
)
def test_a_report_that_cannot_be_stored_is_not_acknowledged(
    tmp_path: Path, error: Exception, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    store = ReportStore.open(f"sqlite:///{tmp_path}/reports.db")
    store.reports = broken = Broken(store.database)
    broken.error = error
    with collecting(tmp_path, COLLECTION, store=store) as client:
        response = put(client, COLLECTION.report("n1"))
        assert response.status_code == status
        assert ("retry-after" in response.headers) == (status != 500)
        assert client.post("/v1/reports", content=COLLECTION.batch(COLLECTION.entry("n1"))).status_code == status
    assert "label 1 of n1" not in caplog.text
    assert "label 1 of n1" not in response.text


def test_no_payload_and_no_token_reaches_a_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    marked = "n13"
    store = ReportStore.open(f"sqlite:///{tmp_path}/reports.db")
    store.reports = broken = Broken(store.database)
    broken.error = RuntimeError(COLLECTION.report(marked).to_json())
    token = COLLECTION.token(marked)
    with collecting(tmp_path, COLLECTION, store=store) as client:
        put(client, COLLECTION.report(marked))
        client.put(f"/v1/reports/{marked}", content=b'{"features": "SECRET"}', headers=COLLECTION.headers(marked))
        client.put(f"/v1/reports/{marked}", content=b"SECRET", headers={"Authorization": "Bearer SECRET"})
        client.post("/v1/reports", content=COLLECTION.batch({"token": token, "report": "SECRET"}))
        client.get("/v1/status?SECRET", headers={"Authorization": "Bearer SECRET"})
        client.get("/metrics", headers=COLLECTION.admin)
    printed = capfd.readouterr()
    # The client of this test is in the same process and logs what it asks for; that is not the collector's log.
    own = [record.getMessage() for record in caplog.records if not record.name.startswith(("httpx", "httpcore"))]
    everything = "\n".join([*own, printed.out, printed.err])
    assert "unexpected RuntimeError" in everything
    for secret in (token, "SECRET", COLLECTION.credentials.admin_token, '"features"', COLLECTION.credentials.keys[0]):
        assert secret not in everything
    assert marked not in everything


def test_refusals_are_counted_by_reason_and_kept(tmp_path: Path) -> None:
    with collecting(tmp_path, COLLECTION) as client:
        for _ in range(3):
            client.put("/v1/reports/n1", content=b"{}", headers={"Authorization": "Bearer x"})
        client.get("/nowhere")
    store = ReportStore.open(f"sqlite:///{tmp_path}/reports.db")
    assert store.refusals.by_reason(COLLECTION.campaign.id) == {"http_404": 1, "wrong_token": 3}
    store.close()


def test_another_graph_than_the_campaigns_is_refused(store: ReportStore) -> None:
    other = Collection.ring(21)
    with pytest.raises(GraphError, match="not the campaign's"):
        collector_of(COLLECTION.campaign, graph=other.graph, store=store, credentials=COLLECTION.credentials)


KEY, ADMIN = COLLECTION.credentials.keys[0], COLLECTION.credentials.admin_token


@pytest.mark.parametrize(
    ("keys", "admin"),
    [
        ([], ADMIN),
        (["short"], ADMIN),
        (["k" * 54], ADMIN),
        ([KEY, KEY[:-1] + ("A" if KEY[-1] != "A" else "B")], ADMIN),
        ([KEY], "short"),
        ([KEY], "admin123admin123admin123"),
        ([KEY], KEY),
        ([ADMIN], ADMIN),
    ],
    ids=range(8),
)
def test_secrets_that_could_be_guessed_or_open_two_things_are_refused(keys: list[str], admin: str) -> None:
    with pytest.raises(RunError) as refusal:
        Credentials(keys=keys, admin_token=admin)
    assert not {admin, *keys} & {*str(refusal.value).split()}
