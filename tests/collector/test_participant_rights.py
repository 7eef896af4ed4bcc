"""A participant withdraws with their token, as often as they like, and checks receipts without one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.collection import Collection
from tests.support.running_collector import collector_of, listening
from veilgraph.campaign import Campaign, CampaignBudget
from veilgraph.campaign.receipt import Receipt, WithdrawalReceipt, read_receipt
from veilgraph.campaign.tokens import new_key
from veilgraph.client import DrawnReport, answer, check_receipt, ledger, send, withdraw
from veilgraph.collector.middleware import Limits
from veilgraph.collector.reminders import nodes_to_remind
from veilgraph.collector.store import ReportStore
from veilgraph.errors import CampaignError, SendError
from veilgraph.privacy.budget import RoundBudget

COLLECTION = Collection.ring(20)
CAMPAIGN = COLLECTION.campaign


@contextmanager
def running(
    store: ReportStore,
    collection: Collection = COLLECTION,
    clock: Callable[[], float] = lambda: 7201.0,
    limits: Limits | None = None,
) -> Iterator[httpx.Client]:
    app = collector_of(
        campaign=collection.campaign,
        graph=collection.graph,
        store=store,
        credentials=collection.credentials,
        limits=limits or Limits(requests_per_second=0),
        clock=clock,
    )
    with listening(app) as client:
        yield client


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ReportStore:
    return ReportStore.open(f"sqlite:///{tmp_path_factory.mktemp('rights')}/reports.db")


@pytest.fixture(scope="module")
def client(store: ReportStore) -> Iterator[httpx.Client]:
    with running(store) as client:
        yield client


def delete(client: httpx.Client, node: str, headers: dict[str, str] | None = None) -> httpx.Response:
    return client.delete(f"/v1/reports/{node}", headers=COLLECTION.headers(node) if headers is None else headers)


def put(client: httpx.Client, node: str, **changes: Any) -> httpx.Response:
    report = COLLECTION.report(node, **changes)
    return client.put(f"/v1/reports/{node}", content=report.to_json(), headers=COLLECTION.headers(node))


def test_a_withdrawn_report_is_deleted_and_refused_again(client: httpx.Client, store: ReportStore) -> None:
    assert put(client, "n1").status_code == 201
    first, again = delete(client, "n1"), delete(client, "n1")
    assert (first.status_code, again.status_code) == (200, 200)
    assert first.json() | {"status": "same"} == again.json()
    assert first.json()["status"] == "withdrawn"
    receipt = read_receipt(first.content)
    assert isinstance(receipt, WithdrawalReceipt)
    assert receipt.is_signed_by(COLLECTION.credentials.keys)
    assert (receipt.campaign, receipt.node, receipt.withdrawn) == (CAMPAIGN.id, "n1", "1970-01-01T02:00:00Z")
    for label in (0, 1):
        refused = put(client, "n1", label=label)
        assert (refused.status_code, refused.json()["error"]) == (410, "withdrawn")
    (result,) = client.post("/v1/reports", content=COLLECTION.batch(COLLECTION.entry("n1"))).json()["results"]
    assert (result["status"], result["reason"]) == (410, "withdrawn")
    assert "n1" not in {report.node for report in store.reports.iterate(CAMPAIGN)}


def test_only_the_nodes_own_token_withdraws(client: httpx.Client, store: ReportStore) -> None:
    assert put(client, "n2").status_code == 201
    for headers in ({}, COLLECTION.headers("n3"), COLLECTION.admin):
        refused = delete(client, "n2", headers)
        assert (refused.status_code, refused.json()["error"]) == (401, "wrong_token")
    unknown = delete(client, "nobody")
    assert (unknown.status_code, unknown.json()["error"]) == (404, "unknown_node")
    assert store.reports.standing(CAMPAIGN.id, "n2").value == "another"


def ask(client: httpx.Client, node: str, headers: dict[str, str] | None = None) -> httpx.Response:
    return client.get(f"/v1/reports/{node}", headers=COLLECTION.headers(node) if headers is None else headers)


def test_only_the_nodes_own_token_asks_whether_it_has_reported(client: httpx.Client) -> None:
    """The answer is a word and the rounds, so that it says nothing of the report."""
    assert ask(client, "n8").json() == {"status": "missing", "rounds": []}
    assert put(client, "n8").status_code == 201
    assert ask(client, "n8").json() == {"status": "stored", "rounds": []}
    for headers in ({}, COLLECTION.headers("n9"), COLLECTION.admin):
        refused = ask(client, "n8", headers)
        assert (refused.status_code, refused.json()["error"]) == (401, "wrong_token")
    unknown = ask(client, "nobody")
    assert (unknown.status_code, unknown.json()["error"]) == (404, "unknown_node")
    delete(client, "n8")
    assert ask(client, "n8").json() == {"status": "withdrawn", "rounds": []}


def test_who_objects_before_answering_is_not_asked_again(client: httpx.Client, store: ReportStore) -> None:
    assert "n10" in nodes_to_remind(COLLECTION.graph.names, store, CAMPAIGN)
    assert delete(client, "n10").json()["status"] == "withdrawn"
    assert "n10" not in nodes_to_remind(COLLECTION.graph.names, store, CAMPAIGN)
    assert put(client, "n10").json()["error"] == "withdrawn"


def test_what_is_no_receipt_or_one_of_another_key_or_campaign_is_refused(client: httpx.Client) -> None:
    for body in (b"", b"{", b"{}", b"[]", b"null", b'{"campaign": 1}', b" " * 9000):
        assert client.post("/v1/receipts", content=body).status_code in (413, 422)
    for receipt in (
        Receipt.sign(new_key(), COLLECTION.report("n4"), hour=0),
        WithdrawalReceipt.sign(new_key(), CAMPAIGN.id, "n4", hour=0),
        Receipt.sign(COLLECTION.credentials.keys[0], Collection.ring(21).report("n4"), hour=0),
    ):
        refused = client.post("/v1/receipts", json=receipt.document)
        assert (refused.status_code, refused.json()["error"]) == (422, "wrong_receipt")


def test_a_receipt_says_what_is_stored_now(client: httpx.Client, store: ReportStore) -> None:
    stored = put(client, "n4").json()["receipt"]

    def standing(receipt: dict[str, str]) -> str:
        response = client.post("/v1/receipts", json=receipt)
        assert response.status_code == 200
        return str(response.json()["status"])

    assert standing(stored) == "stored"
    key = COLLECTION.credentials.keys[0]
    assert standing(Receipt.sign(key, COLLECTION.report("n4", label=0), hour=0).document) == "another"
    assert standing(Receipt.sign(key, COLLECTION.report("n5"), hour=0).document) == "missing"
    assert standing(WithdrawalReceipt.sign(key, CAMPAIGN.id, "n4", hour=0).document) == "another"
    assert standing(WithdrawalReceipt.sign(key, CAMPAIGN.id, "n5", hour=0).document) == "missing"
    withdrawn = delete(client, "n4").json()["receipt"]
    assert standing(stored) == standing(withdrawn) == "withdrawn"


def test_a_report_can_be_withdrawn_after_the_campaign_has_closed(tmp_path: Path) -> None:
    late = CAMPAIGN.notice.closes.timestamp() + 1
    store = ReportStore.open(f"sqlite:///{tmp_path}/reports.db")
    store.reports.put([COLLECTION.report("n1")], now=0)
    with running(store, clock=lambda: late) as client:
        assert put(client, "n2").json()["error"] == "closed"
        assert delete(client, "n1").json()["status"] == "withdrawn"
        assert store.reports.count(CAMPAIGN.id) == 0


def test_the_python_client_withdraws_and_explains_a_refusal(client: httpx.Client) -> None:
    url, report, token = str(client.base_url), COLLECTION.drawn("n6"), COLLECTION.token("n6")
    stored = send(url, report, token)
    assert check_receipt(url, stored.document) == "stored"
    withdrawn = withdraw(url, "n6", token)
    assert (bool(withdrawn), bool(withdraw(url, "n6", token))) == (True, False)
    assert withdrawn.withdrawn == "1970-01-01T02:00:00Z"
    assert check_receipt(url, stored.document) == check_receipt(url, withdrawn.document) == "withdrawn"
    with pytest.raises(SendError, match="was withdrawn: it is deleted, and none is accepted again"):
        send(url, report, token)
    with pytest.raises(SendError, match="did not sign this receipt"):
        check_receipt(url, stored.document | {"signature": "x"})
    with pytest.raises(SendError, match="the token is not this node's"):
        withdraw(url, "n6", COLLECTION.token("n7"))


def test_a_device_that_lost_its_folder_sends_no_report_of_a_later_round(tmp_path: Path) -> None:
    """It would be a second permanent answer, which a series does not count."""
    settings: dict[str, Any] = {"node": "n1", "max_epsilon": 9.0}
    first = Campaign.new(
        schema=CAMPAIGN.schema,
        graph=COLLECTION.graph,
        notice=CAMPAIGN.notice,
        budget=CampaignBudget(epsilon_y=1.0, rounds=RoundBudget(rounds=3)),
        label="health",
    )
    asked = [first, first.revise(open_round=2)]
    store = ReportStore.open(f"sqlite:///{tmp_path}/reports.db")
    for campaign in asked:
        series = replace(COLLECTION, campaign=campaign)
        report = answer(campaign.to_json(), {"health": "ill"}, store=tmp_path / "device", **settings)
        anew = answer(campaign.to_json(), {"health": "ill"}, store=tmp_path / f"{campaign.notice.version}", **settings)
        with running(store, series) as client:
            url = str(client.base_url)
            if campaign is not first:
                with pytest.raises(SendError, match="round 1, and this device does not remember"):
                    send(url, anew, series.token("n1"))
            assert send(url, report, series.token("n1"))
    assert [each.number for each in store.reports.iterate(first)] == [1, 2]


def test_a_device_forgets_the_true_answers_of_who_has_withdrawn(tmp_path: Path) -> None:
    """The cost stays, nothing of a later round is drawn, and an answer of the collector is enough on another device."""
    asked = Campaign.new(
        schema=CAMPAIGN.schema,
        graph=COLLECTION.graph,
        notice=CAMPAIGN.notice,
        budget=CampaignBudget(epsilon_y=1.0, rounds=RoundBudget(rounds=3)),
        label="health",
    )
    series, token = replace(COLLECTION, campaign=asked), replace(COLLECTION, campaign=asked).token("n1")
    store = ReportStore.open(f"sqlite:///{tmp_path}/reports.db")
    settings: dict[str, Any] = {"node": "n1", "max_epsilon": 9.0}
    devices = [tmp_path / "device", tmp_path / "other"]
    reports = [answer(asked.to_json(), {"health": "ill"}, store=device, **settings) for device in devices]
    before = [ledger(device) for device in devices]
    with running(store, series) as client:
        url = str(client.base_url)
        assert send(url, reports[0], token)
        with pytest.raises(SendError, match="not this node's"):
            withdraw(url, "n1", series.token("n2"), store=devices[0])
        assert '"current"' in read_memory(devices[0]), "nothing was confirmed"
        withdraw(url, "n1", token, store=devices[0])
        with pytest.raises(SendError, match="was withdrawn"):
            send(url, reports[1], token, store=devices[1])
    for device, counted, number in zip(devices, before, (1, 2), strict=True):
        assert read_memory(device) == '{"withdrawn":true}'
        assert ledger(device) == counted
        with pytest.raises(CampaignError, match="has withdrawn"):
            answer(asked.revise(open_round=number + 1).to_json(), {"health": "ill"}, store=device, **settings)
        assert not DrawnReport.read(reports[0].text, device).rounds


def read_memory(device: Path) -> str:
    (path,) = device.glob("*.memory.json")
    return path.read_text(encoding="utf-8")
