"""A person withdraws on the command line, keeps the receipts, and checks them."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.collection import Collection
from tests.support.running_collector import collecting
from veilgraph.cli import main
from veilgraph.collector.store import ReportStore

Capture = pytest.CaptureFixture[str]
COLLECTION = Collection.ring(5)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ReportStore:
    monkeypatch.chdir(tmp_path)
    return ReportStore.open("sqlite:///reports.db")


@pytest.fixture
def client(store: ReportStore) -> Iterator[httpx.Client]:
    with collecting(COLLECTION, store) as client:
        yield client


def complaint(capsys: Capture, arguments: list[str]) -> str:
    capsys.readouterr()
    assert main(arguments) == 2
    return capsys.readouterr().err


def test_a_person_withdraws_and_checks_both_receipts(client: httpx.Client, store: ReportStore, capsys: Capture) -> None:
    url, token = str(client.base_url), COLLECTION.token("n1")
    Path("r.json").write_text(COLLECTION.report("n1").to_json())
    assert main(["submit", "r.json", "--url", url, "--token", token, "--json", "--receipt", "stored.json"]) == 0
    (outcome,) = json.loads(capsys.readouterr().out)
    assert json.loads(Path("stored.json").read_text()) == outcome["receipt"]
    check = ["receipt", "stored.json", "--url", url]
    assert main(check) == 0
    assert "the report is stored now" in capsys.readouterr().out

    withdraw = ["withdraw", "n1", "--url", url, "--token", token, "--yes"]
    assert main([*withdraw, "--receipt", "w.json"]) == 0
    assert "Node n1 is out of this campaign" in capsys.readouterr().out
    assert "w.json exists" in complaint(capsys, [*withdraw, "--receipt", "w.json"])
    assert main([*withdraw, "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again == {"node": "n1", "status": "withdrawn before", "receipt": json.loads(Path("w.json").read_text())}
    assert store.reports.count(COLLECTION.campaign.id) == 0

    for receipt in ("stored.json", "w.json"):
        assert main(["receipt", receipt, "--url", url, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["status"] == "withdrawn"
    assert "none is accepted again" in complaint(capsys, ["submit", "r.json", "--url", url, "--token", token])


@pytest.mark.parametrize("said", ["n\n", "\n", ""])
def test_a_withdrawal_is_asked_for_twice_because_it_is_final(
    client: httpx.Client, store: ReportStore, capsys: Capture, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    withdraw = ["withdraw", "n1", "--url", str(client.base_url), "--token", COLLECTION.token("n1")]
    monkeypatch.setattr("sys.stdin", io.StringIO(said))
    refused = complaint(capsys, withdraw)
    assert "This cannot be undone" in refused
    assert "nothing was withdrawn: answer y" in refused
    assert store.withdrawals.objections(COLLECTION.campaign.id) == 0
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert main(withdraw) == 0
    assert store.withdrawals.objections(COLLECTION.campaign.id) == 1


def test_a_report_that_is_stored_is_sent_again_only_where_the_person_says_so(
    client: httpx.Client, capsys: Capture
) -> None:
    Path("r.json").write_text(COLLECTION.report("n1").to_json())
    submit = ["submit", "r.json", "--url", str(client.base_url), "--token", COLLECTION.token("n1")]
    assert main(submit) == 0
    assert "holds a report of this node already" in complaint(capsys, submit)
    assert main([*submit, "--again"]) == 0
    assert "n1: stored before" in capsys.readouterr().out


def test_a_receipt_that_the_collector_does_not_keep_is_a_mistake(client: httpx.Client, capsys: Capture) -> None:
    url, key = str(client.base_url), COLLECTION.credentials
    lost = key.receipt(COLLECTION.report("n2"), hour=0).document
    Path("lost.json").write_text(json.dumps(lost))
    assert "status 'missing'" in complaint(capsys, ["receipt", "lost.json", "--url", url])
    Path("w.json").write_text(json.dumps(key.withdrawal_receipt(COLLECTION.campaign.id, "n3", hour=0).document))
    assert main(["receipt", "w.json", "--url", url]) == 2
    assert "Withdraw again" in capsys.readouterr().out
    Path("altered.json").write_text(json.dumps(lost | {"stored": "2000-01-01T00:00:00Z"}))
    assert "did not sign this receipt" in complaint(capsys, ["receipt", "altered.json", "--url", url])
    Path("other.json").write_text("{}")
    assert "a receipt must have the keys" in complaint(capsys, ["receipt", "other.json", "--url", url])
    assert "https://" in complaint(capsys, ["receipt", "lost.json", "--url", "http://collect.example.org"])
