"""A collection closes and is extended, in its folder or as a campaign alone; what reports are bound to stays."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.collection import Collection as Ring
from tests.support.health_folder import begun
from veilgraph.campaign import Campaign
from veilgraph.cli import main
from veilgraph.collection import Collection

Capture = pytest.CaptureFixture[str]
CAMPAIGN = Ring.ring(4).campaign


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return begun(tmp_path, zone="Europe/Berlin").folder


def complaint(capsys: Capture, *words: str) -> str:
    capsys.readouterr()
    assert main(list(words)) == 2
    return capsys.readouterr().err


def test_extending_keeps_the_id_and_speaks_in_the_zone_of_the_folder(folder: Path, capsys: Capture) -> None:
    before = Collection(folder).campaign
    assert main(["extend", str(folder), "28.02.2100", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["id"], facts["notice"]["version"]) == (before.id, 2)
    assert facts["closes"] == "2100-02-28T22:59:59Z"
    assert main(["init", str(folder)]) == 0
    assert "Nothing changed." in capsys.readouterr().out, "notice.toml says the old day"


def test_what_the_owner_wrote_stays_beside_the_new_day(folder: Path) -> None:
    notice = folder / "notice.toml"
    text = notice.read_text() + "\n# a remark of the owner\n"
    notice.write_text(text)
    assert main(["extend", str(folder), "2100-03-01T12:00:00Z"]) == 0
    changed = [line for line in notice.read_text().splitlines() if line not in text.splitlines()]
    assert changed == ['closes = "2100-03-01T12:00:00Z"']


def test_a_collection_is_closed_now_or_earlier_than_planned(folder: Path, capsys: Capture) -> None:
    assert main(["close", str(folder), "--on", "2100-01-15"]) == 0
    assert "Open until 2100-01-15 22:59:59 UTC." in capsys.readouterr().out
    assert main(["close", str(folder)]) == 0
    assert "Closed: no report is accepted any more." in capsys.readouterr().out
    assert not Collection(folder).campaign.is_open(datetime.now(UTC))
    assert main(["extend", str(folder), "2100-01-15"]) == 0
    assert Collection(folder).campaign.is_open(datetime.now(UTC))


def test_a_campaign_alone_is_closed_and_extended_too(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(CAMPAIGN.to_json())
    assert main(["close", str(path)]) == 0
    assert main(["extend", str(path), "2101-01-01"]) == 0
    revised = Campaign.from_json(path.read_bytes())
    assert (revised.id, revised.notice.version) == (CAMPAIGN.id, 3)
    assert revised.notice.document["closes"] == "2101-01-01T23:59:59Z"


def test_what_cannot_be_is_one_sentence_and_nothing_is_written(folder: Path, capsys: Capture) -> None:
    written = {path: path.read_bytes() for path in folder.iterdir()}
    for words, message in (
        (["close", str(folder), "--on", "2101-01-01"], "'veilgraph extend' gives a later day"),
        (["extend", str(folder), "2099-01-01"], "'veilgraph close' takes an earlier day"),
        (["extend", str(folder), "2020-01-01"], "which is in the past"),
        (["extend", str(folder), "1/31/2101"], "give a date such as 2027-01-31 or 31.01.2027"),
        (["extend", str(folder / "none"), "2101-01-01"], "is no collection"),
    ):
        assert message in complaint(capsys, *words)
    assert {path: path.read_bytes() for path in folder.iterdir()} == written
