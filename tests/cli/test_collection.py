"""What an owner asks of single files while a collection runs: who has not answered, and how it stands."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.support.collection import Collection
from tests.support.health_folder import begun
from veilgraph.atomic_files import write_atomically
from veilgraph.campaign.tokens import new_key
from veilgraph.cli import main
from veilgraph.collector.store import ReportStore

RING = Collection.ring(6)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write a campaign; n0 and n1 reported, n2 withdrew."""
    RING.write(tmp_path)
    store = ReportStore.open(f"sqlite:///{tmp_path}/reports.db")
    store.reports.put([RING.report("n0"), RING.report("n1")], now=0)
    store.withdrawals.withdraw(RING.campaign.id, "n2", now=0)
    store.close()
    write_atomically(tmp_path / "k.txt", new_key())
    return tmp_path


def remind(folder: Path, *words: str) -> int:
    named = {"nodes": "nodes.csv", "keys-file": "k.txt", "out": "sent"}
    files = [word for name, file in named.items() for word in (f"--{name}", str(folder / file))]
    where = ["--url", "https://collect.example.org", "--store", f"sqlite:///{folder}/reports.db", "--remind"]
    return main(["invite", str(folder / "campaign.json"), *files, *where, *words])


def test_reminders_keep_the_links_of_those_who_neither_answered_nor_withdrew(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert remind(folder, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    table = Path(told["links"])
    kept = list(csv.DictReader(table.read_text().splitlines()))
    assert [row["id"] for row in kept] == ["n3", "n4", "n5"]
    assert told["people"] == 3
    assert all(row["link"].startswith("https://collect.example.org/#node=") for row in kept)
    assert table.stat().st_mode & 0o077 == 0


def test_after_a_purge_nobody_is_reminded(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A purge forgets who withdrew or objected: a list would name them, with their links."""
    store = ReportStore.administer(f"sqlite:///{folder}/reports.db")
    store.purges.purge(RING.campaign, now=0, actor="owner")
    store.close()
    assert remind(folder) == 2
    assert "the reports of this campaign were deleted, and it accepts none again" in capsys.readouterr().err
    assert not (folder / "sent").exists()


def test_the_standing_of_single_files_is_that_of_a_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["--graph", str(folder / "edges.csv"), "--nodes", str(folder / "nodes.csv")]
    store = ["--store", f"sqlite:///{folder}/reports.db"]
    assert main(["status", str(folder / "campaign.json"), *files, *store, "--json"]) == 0
    standing = json.loads(capsys.readouterr().out)
    counted = ("asked", "answered", "silent", "withdrawals", "objections")
    assert [standing[name] for name in counted] == [6, 2, 3, 0, 1]
    assert (standing["folder"], standing["next"], standing["assessment"]) == (None, None, None)


def test_the_standing_of_a_folder_is_that_of_the_store_that_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home, store = begun(tmp_path), f"sqlite:///{tmp_path}/copy.db"
    command = ["status", str(home.folder), "--store", store, "--json"]
    assert main(command) == 2
    assert "copy.db does not exist" in capsys.readouterr().err
    opened = ReportStore.open(store)
    opened.withdrawals.withdraw(home.campaign.series, home.graph.names[0], now=0)
    opened.close()
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["objections"] == 1
