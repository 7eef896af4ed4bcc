"""An owner withdraws for a person and checks the audit log; tampering with the store is found."""

from __future__ import annotations

import io
import json
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.collection import Collection
from tests.support.health_folder import begun
from tests.support.running_collector import collecting
from veilgraph.campaign import Campaign
from veilgraph.cli import main
from veilgraph.collector.reminders import nodes_to_remind
from veilgraph.collector.store import ReportStore

Capture = pytest.CaptureFixture[str]
COLLECTION = Collection.ring(5)
CAMPAIGN = COLLECTION.campaign
STORE = ["--store", "sqlite:///reports.db"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.json").write_text(CAMPAIGN.to_json())
    store = ReportStore.open("sqlite:///reports.db")
    store.reports.put([COLLECTION.report(f"n{i}") for i in range(5)], now=0)
    store.close()


def printed(capsys: Capture, *arguments: str, code: int = 0) -> str:
    capsys.readouterr()
    assert main([*arguments, *STORE]) == code
    output = capsys.readouterr()
    return output.err if code else output.out


def test_an_owner_withdraws_for_a_person(capsys: Capture) -> None:
    withdraw = ["withdraw", "c.json", "n1", "--yes"]
    assert "Node 'n1': what was stored of it is deleted" in printed(capsys, *withdraw)
    again = json.loads(printed(capsys, *withdraw, "--json"))
    assert again == {"node": "n1", "status": "withdrawn before", "withdrawals": 1, "objections": 0}
    unknown = printed(capsys, "withdraw", "c.json", "n9", code=2)
    assert "no report of node 'n9' in this campaign: check its name, and give --objection" in unknown
    store = ReportStore.open("sqlite:///reports.db", create=False)
    assert store.reports.count(CAMPAIGN.id) == 4
    assert store.withdrawals.count(CAMPAIGN.id) == 1
    store.close()
    log = printed(capsys, "audit-log")
    assert "owner        withdraw" in log
    assert CAMPAIGN.id[:12] in log
    assert "n1" not in log, "the log outlives a purge"


def test_an_owner_records_the_objection_of_someone_who_has_not_answered(capsys: Capture) -> None:
    objection = ["withdraw", "c.json", "n5", "--objection", "--yes"]
    store = ReportStore.open("sqlite:///reports.db")
    assert nodes_to_remind(["n0", "n5"], store, CAMPAIGN) == ["n5"]
    assert "It is not reminded" in printed(capsys, *objection)
    assert json.loads(printed(capsys, *objection, "--json"))["status"] == "withdrawn before"
    assert nodes_to_remind(["n0", "n5"], store, CAMPAIGN) == []
    assert store.reports.count(CAMPAIGN.id) == 5
    assert store.reports.put([COLLECTION.report("n5")], now=0)[0].outcome.value == "withdrawn"
    store.close()
    log = printed(capsys, "audit-log")
    assert "owner        object" in log


def test_an_objection_by_the_folder_refuses_a_name_that_nobody_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """A mistyped name would leave the person among those who are reminded, and nobody would notice."""
    monkeypatch.delenv("DATABASE_URL", raising=False)
    home = begun(tmp_path)
    name = home.graph.names[0]
    ReportStore.open(home.store.url).close()
    objection = ["withdraw", "--objection", "--yes", str(home.folder)]
    assert main([*objection, name + "x"]) == 2
    assert f"node '{name}x' is not among the people of {home.folder}: check its name" in capsys.readouterr().err
    assert main([*objection, name]) == 0
    assert "0 withdrawals and 1 objection" in capsys.readouterr().out
    assert main([*objection[:-1], str(home.campaign_file), name]) == 2
    assert "the store of the reports is missing" in capsys.readouterr().err


def test_withdrawals_and_objections_are_counted_apart(capsys: Capture) -> None:
    """Nothing of a person who objected was left out of anything, because nothing of them was there."""
    for node in ("n1", "n5", "n6"):
        objection = [] if node == "n1" else ["--objection"]
        printed(capsys, "withdraw", "c.json", node, *objection, "--yes")
    store = ReportStore.administer("sqlite:///reports.db")
    for _ in range(2):
        assert (store.withdrawals.count(CAMPAIGN.id), store.withdrawals.objections(CAMPAIGN.id)) == (1, 2)
        store.purges.purge(CAMPAIGN, now=0, actor="owner")
    store.close()


def test_an_owner_is_asked_before_what_cannot_be_undone(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    refused = printed(capsys, "withdraw", "c.json", "n1", code=2)
    assert "This cannot be undone. Withdraw?" in refused
    assert "nothing was withdrawn" in refused
    store = ReportStore.open("sqlite:///reports.db", create=False)
    assert store.reports.count(CAMPAIGN.id) == 5
    store.close()
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert "is deleted" in printed(capsys, "withdraw", "c.json", "n1")


def test_acts_at_the_collector_are_in_the_log_and_participants_are_not_named(capsys: Capture) -> None:
    with collecting(COLLECTION, ReportStore.open("sqlite:///reports.db")) as client:
        client.post("/dashboard/login", data={"token": "wrong"})
        client.post("/dashboard/login", data={"token": COLLECTION.credentials.admin_token})
        client.get("/dashboard/reports.parquet", headers=COLLECTION.admin)
        client.delete("/v1/reports/n3", headers=COLLECTION.headers("n3"))
    entries = json.loads(printed(capsys, "audit-log", "--json"))["entries"]
    assert [(entry["actor"], entry["action"]) for entry in entries] == [
        ("collector", "notice"),
        ("collector", "start"),
        ("owner", "login"),
        ("owner", "export"),
        ("participant", "withdraw"),
    ]
    assert entries[3]["detail"] == {"campaign": CAMPAIGN.id, "reports": 5}
    assert entries[4]["detail"] == {"campaign": CAMPAIGN.id}
    assert "n3" not in json.dumps(entries[4]["detail"])


def test_a_log_that_someone_altered_is_found(capsys: Capture) -> None:
    for node in ("n1", "n2", "n3"):
        printed(capsys, "withdraw", "c.json", node, "--yes")
    checked = json.loads(printed(capsys, "audit-log", "--check", "--json"))
    assert checked["unaltered"] is True
    head = checked["head"]
    assert head in printed(capsys, "audit-log", "--check")
    assert "holds the one that you noted" in printed(capsys, "audit-log", "--head", f" {head.upper()} ")
    for statement in (
        "UPDATE audit_log SET actor = 'nobody' WHERE sequence = 2",
        "UPDATE audit_log SET detail = '{}' WHERE sequence = 3",
        "DELETE FROM audit_log WHERE sequence = 2",
        "DELETE FROM audit_log WHERE sequence = 1",
        "UPDATE audit_log SET sequence = 7 WHERE sequence = 1",
    ):
        copy = sqlite3.connect("altered.db")
        with sqlite3.connect("reports.db") as original:
            original.backup(copy)
        original.close()
        with copy:
            copy.execute(statement)
        copy.close()
        capsys.readouterr()
        assert main(["audit-log", "--check", "--store", "sqlite:///altered.db"]) == 2, statement
        assert "the audit log was altered" in capsys.readouterr().err
    with sqlite3.connect("reports.db") as connection:
        connection.execute("DELETE FROM audit_log WHERE sequence = 3")
    connection.close()
    assert "unaltered" in printed(capsys, "audit-log", "--check"), "the end is missing, and nobody knows"
    assert "the hash that was noted" in printed(capsys, "audit-log", "--head", head, code=2)


def test_an_auditor_checks_what_the_collector_answered_without_the_store(capsys: Capture) -> None:
    with collecting(COLLECTION, ReportStore.open("sqlite:///reports.db")) as client:
        client.get("/dashboard/missing.csv", headers=COLLECTION.admin)
        Path("log.json").write_bytes(client.get("/v1/audit-log", headers=COLLECTION.admin).content)
    command = ["audit-log", "--file", "log.json", "--check"]
    assert main([*command, "c.json"]) == 0
    checked = capsys.readouterr().out
    assert "The audit log is unaltered: 3 entries." in checked
    assert checked == printed(capsys, "audit-log", "--check")
    log = json.loads(Path("log.json").read_text())
    head = log["entries"].pop()["hash"]
    for altered, options, message in (
        (log, ["--head", head], "has the hash that was noted"),
        ({"entries": log["entries"][1:]}, [], "entry 1 is missing"),
        ({"entries": [log["entries"][0] | {"actor": "nobody"}]}, [], "entry 1 is not what was written"),
        ({"entries": [{"sequence": 1}]}, [], "this is no audit log: give the answer of GET /v1/audit-log"),
        ([], [], "this is no audit log"),
        ({"entries": [log["entries"][0] | {"detail": []}]}, [], "this is no audit log"),
    ):
        Path("log.json").write_text(json.dumps(altered))
        assert main([*command, *options]) == 2
        assert message in capsys.readouterr().err
    assert "leave out --store, or --file" in printed(capsys, *command, code=2)


def a_campaign(retention: datetime | None) -> Campaign:
    """Write the campaign of the five reports with this retention date."""
    made = replace(
        CAMPAIGN, notice=replace(CAMPAIGN.notice, closes=datetime(2020, 1, 1, tzinfo=UTC), retention=retention)
    )
    Path("kept.json").write_text(made.to_json())
    return made


def test_a_purge_waits_for_the_retention_date(capsys: Capture) -> None:
    a_campaign(datetime(2999, 1, 31, tzinfo=UTC))
    refused = printed(capsys, "purge", "kept.json", code=2)
    assert "keeps its reports until 2999-01-31 00:00:00 UTC: wait until then, or give --now" in refused
    a_campaign(None)
    assert "no retention date: give --now" in printed(capsys, "purge", "kept.json", code=2)
    made = a_campaign(datetime(2020, 1, 31, tzinfo=UTC))
    purged = json.loads(printed(capsys, "purge", "kept.json", "--json"))
    assert purged == {"campaign": made.id, "deleted": 5, "removed": []}
    assert "purge" in printed(capsys, "audit-log")


def test_a_purge_at_once_is_confirmed_by_the_owner(capsys: Capture) -> None:
    made = a_campaign(datetime(2999, 1, 31, tzinfo=UTC))
    purge = ["purge", "kept.json", "--now"]
    for unconfirmed in (purge, *([*purge, "--confirm", no] for no in ("yes", "", made.id[:7], made.id[1:12]))):
        refused = printed(capsys, *unconfirmed, code=2)
        assert "would delete 5 reports of 'Tests' for ever: if you mean it" in refused
        assert f"--confirm {made.id[:8]}" in refused
    assert ReportStore.open("sqlite:///reports.db", create=False).purges.hour(made.id) is None
    confirmed = [*purge, "--confirm", made.id[:12]]
    assert "5 reports deleted. The collection accepts none again" in printed(capsys, *confirmed)
    assert "0 reports deleted" in printed(capsys, *confirmed)
    store = ReportStore.open("sqlite:///reports.db")
    (result,) = store.reports.put([COLLECTION.report("n2")], now=0)
    assert result.outcome.value == "purged"
    store.close()
