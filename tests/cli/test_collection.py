"""What an owner asks while a collection runs: who has not answered."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.support.collection import Collection
from veilgraph.cli import main
from veilgraph.collector.store import ReportStore

RING = Collection.ring(6)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write a campaign with tokens; n0 and n1 reported, n2 withdrew."""
    RING.write(tmp_path)
    store = ReportStore.open(f"sqlite:///{tmp_path}/reports.db")
    store.reports.put([RING.report("n0"), RING.report("n1")], now=0)
    store.withdrawals.withdraw(RING.campaign.id, "n2", now=0)
    store.close()
    words = ["tokens", str(tmp_path / "campaign.json"), "--keys-file", str(tmp_path / "k.txt"), "--new-key", "--graph"]
    options = ["--out", str(tmp_path / "tokens.csv"), "--url", "https://collect.example.org"]
    assert main(["campaign", *words, str(tmp_path / "edges.csv"), *options]) == 0
    return tmp_path


def missing(folder: Path, *words: str) -> int:
    files = [str(folder / "campaign.json"), "--store", f"sqlite:///{folder}/reports.db", "--out", str(folder / "m.csv")]
    return main(["campaign", "missing", *files, *words])


def test_reminders_keep_the_links_of_those_who_neither_answered_nor_withdrew(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert missing(folder, "--tokens", str(folder / "tokens.csv"), "--json") == 0
    assert json.loads(capsys.readouterr().out) | {"out": ""} == {
        "campaign": RING.campaign.id,
        "nodes": 6,
        "missing": 3,
        "out": "",
    }
    everyone = list(csv.DictReader((folder / "tokens.csv").read_text().splitlines()))
    kept = list(csv.DictReader((folder / "m.csv").read_text().splitlines()))
    assert kept == [row for row in everyone if row["node"] in ("n3", "n4", "n5")]
    assert all(row["link"].startswith("https://collect.example.org/#node=") for row in kept)
    assert (folder / "m.csv").stat().st_mode & 0o077 == 0


def test_without_tokens_the_list_names_nodes_alone(folder: Path) -> None:
    assert missing(folder, "--graph", str(folder / "edges.csv")) == 0
    assert sorted((folder / "m.csv").read_text().split()) == ['"n3"', '"n4"', '"n5"', '"node"']


def test_the_nodes_come_from_one_place(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert missing(folder) == 2
    assert "the people are missing: give --graph" in capsys.readouterr().err
    assert missing(folder, "--tokens", str(folder / "tokens.csv"), "--graph", str(folder / "edges.csv")) == 2
    assert "the people are given twice" in capsys.readouterr().err
    assert missing(folder, "--tokens", str(folder / "edges.csv")) == 2
    assert "has no column 'node'" in capsys.readouterr().err


def test_people_without_links_are_not_left_out_of_reminders(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another graph than the campaign's is refused, as for tokens."""
    (folder / "some.csv").write_text("source,target\nn0,n1\nn1,n2\n")
    assert missing(folder, "--graph", str(folder / "some.csv")) == 2
    told = capsys.readouterr().err
    assert "some.csv is not the campaign's graph: it has 3 people, and the campaign 6" in told
    assert "give everybody's table with --nodes" in told
    assert not (folder / "m.csv").exists()


def test_after_a_purge_nobody_is_reminded(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A purge forgets who withdrew or objected: a list would name them, with their links."""
    store = ReportStore.administer(f"sqlite:///{folder}/reports.db")
    store.purges.purge(RING.campaign, now=0, actor="owner")
    store.close()
    assert missing(folder, "--tokens", str(folder / "tokens.csv")) == 2
    assert "the reports of this campaign were deleted, and it accepts none again" in capsys.readouterr().err
    assert not (folder / "m.csv").exists()
