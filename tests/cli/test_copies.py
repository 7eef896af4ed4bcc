"""A collection is copied while it runs and restored after a loss, and nothing that was withdrawn returns."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from tests.support.collection import Collection
from tests.support.health_folder import begun
from veilgraph.campaign.report import Report
from veilgraph.cli import main
from veilgraph.collection import Collection as Home
from veilgraph.collector.store import ReportStore

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Begin a small collection in which five people have answered, of whom one withdrew."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DATABASE_URL", raising=False)
    made = begun(tmp_path)
    fill(made, made.store.url)
    return made


def fill(home: Home, url: str) -> None:
    store = ReportStore.open(url)
    nodes = home.graph.names[:5]
    store.reports.put([Report(campaign=home.campaign.id, node=node, features=None, label=1) for node in nodes], now=0)
    store.withdrawals.withdraw(home.campaign.series, nodes[0], now=0)
    store.close()


def printed(capsys: Capture, *arguments: str, code: int = 0) -> str:
    capsys.readouterr()
    assert main(list(arguments)) == code, capsys.readouterr().err
    written = capsys.readouterr()
    return written.err if code else written.out


def stored(home: Home, url: str | None = None) -> set[str]:
    store = ReportStore.open(url or home.store.url, create=False)
    try:
        return store.reports.nodes(home.campaign.series, wave=home.campaign.number_now)
    finally:
        store.close()


def test_what_was_lost_is_restored_and_who_withdrew_since_stays_withdrawn(home: Home, capsys: Capture) -> None:
    names = home.graph.names
    written = json.loads(printed(capsys, "backup", "health", "copies", "--json"))
    copy = Path(written["copy"])
    assert (written["withdrawals"], written["added"], copy.parent) == (1, 1, Path("copies"))
    assert not {path.name for path in copy.iterdir()} & {"models", "invitations", "reports.db-wal"}
    assert (copy / "keys.txt").read_bytes() == home.keys_file.read_bytes()
    assert all(path.stat().st_mode & 0o077 == 0 for path in (copy, copy / "reports.db", copy / "keys.txt"))
    store = ReportStore.administer(home.store.url)
    store.withdrawals.withdraw(home.campaign.series, names[1], now=0)
    store.close()
    assert json.loads(printed(capsys, "backup", "health", "copies", "--list", "--json"))["copy"] is None
    shutil.rmtree("health")
    restored = json.loads(printed(capsys, "restore", "health", "copies", "--json"))
    assert (restored["reports"], restored["listed"], restored["withdrawn"]) == (3, 2, 1)
    again = Home.open(Path("health"))
    assert again.campaign == home.campaign
    assert again.graph.fingerprint == home.graph.fingerprint
    assert stored(again) == set(names[2:5])
    log = printed(capsys, "audit-log", "health")
    assert "owner        backup" in log
    assert not any(name in log for name in names[:5])


def test_what_is_there_is_moved_away_and_not_deleted(home: Home, capsys: Capture) -> None:
    printed(capsys, "backup", "health", "copies")
    (home.folder / "reports.db").write_bytes(b"damaged")
    restored = json.loads(printed(capsys, "restore", "health", "copies", "--json"))
    assert (Path(restored["moved"]) / "reports.db").read_bytes() == b"damaged"
    assert stored(home) == set(home.graph.names[1:5])


def test_who_withdrew_in_the_store_that_is_replaced_stays_withdrawn(home: Home, capsys: Capture) -> None:
    name = home.graph.names[3]
    printed(capsys, "backup", "health", "copies")
    Path("copies/withdrawals.csv").unlink()
    printed(capsys, "withdraw", "health", name, "--yes")
    restored = json.loads(printed(capsys, "restore", "health", "copies", "--json"))
    assert (restored["withdrawn"], restored["unknown_after"]) == (1, None)
    assert name not in stored(home)
    assert name in Path("copies/withdrawals.csv").read_text()


def test_withdrawals_that_nobody_knows_are_said(home: Home, capsys: Capture) -> None:
    printed(capsys, "backup", "health", "copies")
    listed = Path("copies/withdrawals.csv")
    os.utime(listed, (0, 0))
    (home.folder / "reports.db").write_bytes(b"damaged")
    said = " ".join(printed(capsys, "restore", "health", "copies").split())
    assert "who withdrew after 1970-01-01 00:00:00 UTC is not in the list. Withdraw those people again" in said
    listed.unlink()
    shutil.rmtree("health")
    assert "who withdrew after the copy is" in " ".join(printed(capsys, "restore", "health", "copies").split())


def test_a_collection_that_was_purged_is_not_restored(home: Home, capsys: Capture) -> None:
    printed(capsys, "backup", "health", "copies")
    printed(capsys, "purge", "health", "--now", "--confirm", home.campaign.id[:8])
    assert "deleted for good: nothing is restored" in printed(capsys, "restore", "health", "copies", code=2)
    assert stored(home) == set()


def test_a_purge_deletes_the_stores_that_were_moved_away(home: Home, capsys: Capture) -> None:
    printed(capsys, "backup", "health", "copies")
    moved = json.loads(printed(capsys, "restore", "health", "copies", "--json"))["moved"]
    assert (Path(moved) / "reports.db").is_file()
    purged = json.loads(printed(capsys, "purge", "health", "--now", "--confirm", home.campaign.id[:8], "--json"))
    assert purged["removed"] == [moved]
    assert not Path(moved).exists()


def test_a_store_in_use_is_not_replaced(home: Home, capsys: Capture) -> None:
    printed(capsys, "backup", "health", "copies")
    with sqlite3.connect(home.folder / "reports.db") as connection:
        connection.execute("BEGIN IMMEDIATE")
        assert "in use: stop the collector first" in printed(capsys, "restore", "health", "copies", code=2)
        connection.rollback()
    connection.close()
    assert stored(home) == set(home.graph.names[1:5])


def test_after_a_purge_the_list_names_nobody_of_the_collection(home: Home, capsys: Capture) -> None:
    printed(capsys, "backup", "health", "copies", "--list")
    listed = Path("copies/withdrawals.csv")
    listed.write_text(listed.read_text() + '"another","x"\n')
    printed(capsys, "purge", "health", "--now", "--confirm", home.campaign.id[:8])
    said = printed(capsys, "backup", "health", "copies", "--list")
    assert "The collection is purged: 1 name removed" in said
    assert listed.read_text() == '"campaign","node"\n"another","x"\n'


@pytest.mark.parametrize("content", ["", "node\nn1\n", "campaign,node\nx\n", "campaign,node\nx,..\n"])
def test_another_file_is_no_list_of_withdrawals(home: Home, capsys: Capture, content: str) -> None:
    printed(capsys, "backup", "health", "copies")
    Path("copies/withdrawals.csv").write_text(content)
    for command in ("backup", "restore"):
        complaint = printed(capsys, command, "health", "copies", code=2)
        assert "withdrawals.csv is no list of withdrawals: give a file that 'veilgraph backup' wrote" in complaint


def test_what_a_killed_backup_left_is_no_copy_and_is_removed(home: Home, capsys: Capture) -> None:
    old, new = (Path(f"copies/.{time}.ab.part") for time in ("2020-01-31T12-00-00Z", "2999-01-31T12-00-00Z"))
    for draft in (old, new):
        draft.mkdir(parents=True)
        shutil.copy2(home.campaign_file, draft)
    assert "has no backup" in printed(capsys, "restore", "elsewhere", "copies", code=2)
    printed(capsys, "backup", "health", "copies", "--list")
    assert (old.exists(), new.exists()) == (False, True)
    printed(capsys, "backup", "health", "copies")
    printed(capsys, "restore", "health", "copies")
    assert stored(home) == set(home.graph.names[1:5])


def test_without_a_copy_of_the_store_no_file_is_put_back(home: Home, capsys: Capture) -> None:
    copy = Path(json.loads(printed(capsys, "backup", "health", "copies", "--json"))["copy"])
    (copy / "reports.db").unlink()
    assert "has no copy of a store" in printed(capsys, "restore", "elsewhere", "copies", code=2)
    assert not Path("elsewhere").exists()


def test_another_collections_copy_and_a_folder_without_one_are_refused(
    home: Home, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "other").mkdir()
    other = begun(tmp_path / "other")
    fill(other, other.store.url)
    printed(capsys, "backup", "other/health", "elsewhere")
    assert "a backup of another collection" in printed(capsys, "restore", "health", "elsewhere", code=2)
    assert "has no backup" in printed(capsys, "restore", "health", "health/waves", code=2)
    assert "is no collection" in printed(capsys, "backup", "nowhere", "copies", code=2)
    assert stored(home) == set(home.graph.names[1:5])


def test_a_campaign_alone_is_copied_with_its_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ring = Collection.ring(3)
    Path("c.json").write_text(ring.campaign.to_json())
    store = ReportStore.open("sqlite:///r.db")
    store.reports.put([ring.report("n0")], now=0)
    store.close()
    assert main(["backup", "c.json", "copies", "--store", "sqlite:///r.db"]) == 0
    assert main(["restore", "c.json", "copies", "--store", "sqlite:///again.db"]) == 0
    again = ReportStore.open("sqlite:///again.db", create=False)
    assert again.reports.count(ring.campaign.id) == 1
    again.close()
