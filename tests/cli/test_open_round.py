"""The next round opens now or by itself; what it cannot be is said before anything is written."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.health_folder import begun
from veilgraph.campaign.round_schedule import schedule_path
from veilgraph.cli import main
from veilgraph.collection import Collection

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return begun(tmp_path, rounds=3, closes="2100-01-31").folder


def complaint(capsys: Capture, *words: str) -> str:
    capsys.readouterr()
    assert main(list(words)) == 2
    return capsys.readouterr().err


def test_the_next_round_opens_now_until_its_last_day(folder: Path, capsys: Capture) -> None:
    assert main(["open-round", str(folder)]) == 0
    assert "Round 2 of 3 is open." in capsys.readouterr().out
    assert main(["open-round", str(folder), "--closes", "2100-03-01", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["closes"] == "2100-03-01T23:59:59Z"
    assert Collection(folder).campaign.notice.open_round == 3
    assert "round must be a whole number from 1 to 3" in complaint(capsys, "open-round", str(folder))


def test_a_round_after_the_last_day_needs_a_day_of_its_own(folder: Path, capsys: Capture) -> None:
    assert main(["close", str(folder)]) == 0
    assert "give --closes, the last day of the round" in complaint(capsys, "open-round", str(folder))
    assert main(["open-round", str(folder), "--closes", "2100-03-01"]) == 0
    assert Collection(folder).campaign.is_open(datetime.now(UTC))


def test_rounds_are_scheduled_one_after_the_other(folder: Path, capsys: Capture) -> None:
    for opens, closes in (("2100-02-10", "2100-02-20"), ("1.3.2100", "10.3.2100")):
        assert main(["open-round", str(folder), "--opens", opens, "--closes", closes]) == 0
    said = capsys.readouterr().out
    assert "Round 2 opens at 2100-02-10 00:00:00 UTC, until 2100-02-20 23:59:59 UTC." in said
    assert "Round 3 opens at 2100-03-01 00:00:00 UTC" in said
    assert Collection(folder).campaign.notice.open_round == 1
    refused = complaint(capsys, "open-round", str(folder), "--opens", "2100-04-01", "--closes", "2100-04-02")
    assert "from 1 to 3" in refused
    assert "round 2 opens by itself at 2100-02-10" in complaint(capsys, "open-round", str(folder))
    refused = complaint(capsys, "extend", str(folder), "2100-02-11")
    assert "round 2 opens at 2100-02-10 00:00:00 UTC: give a day before it" in refused
    assert main(["close", str(folder)]) == 0
    assert "Round 2 opens at 2100-02-10" in capsys.readouterr().out, "who closes a round is told what follows"


def test_a_scheduled_round_that_opened_stays_open_when_the_notice_is_taken_up(folder: Path, capsys: Capture) -> None:
    """The last day in notice.toml is that of the round before, and does not come back."""
    now = datetime.now(UTC).replace(microsecond=0)
    until = now + timedelta(days=9)
    assert main(["close", str(folder)]) == 0
    schedule_path(folder / "campaign.json").write_text(
        f'[[round]]\nnumber = 2\nopens = "{now.isoformat()}"\ncloses = "{until.isoformat()}"\n'
    )
    assert Collection(folder).campaign.notice.open_round == 2
    assert main(["init", str(folder)]) == 0
    assert "Nothing changed." in capsys.readouterr().out
    notice = folder / "notice.toml"
    notice.write_text(notice.read_text().replace("flu@example.org", "help@example.org"))
    for _ in range(2):
        assert main(["init", str(folder)]) == 0
        taken = Collection(folder).campaign.notice
        assert (taken.open_round, taken.closes, taken.contact) == (2, until, "help@example.org")


def test_what_cannot_be_scheduled_is_one_sentence(folder: Path, capsys: Capture) -> None:
    for words, message in (
        (["--opens", "2100-02-10"], "--closes is missing"),
        (["--opens", "2100-01-10", "--closes", "2100-02-20"], "the round before it is open until 2100-01-31"),
        (["--opens", "2100-02-10", "--closes", "2100-02-01"], "before it opens"),
        (["--epsilon", "1"], "leave --epsilon out"),
        (["--closes", "2020-01-01"], "in the past"),
    ):
        assert message in complaint(capsys, "open-round", str(folder), *words)
    assert not schedule_path(folder / "campaign.json").exists()


def test_who_is_asked_once_has_no_next_round(tmp_path: Path, capsys: Capture) -> None:
    folder = begun(tmp_path).folder
    assert "this collection asks once" in complaint(capsys, "open-round", str(folder))


def test_a_wave_needs_a_budget_and_a_last_day_and_opens_now(tmp_path: Path, capsys: Capture) -> None:
    folder = str(begun(tmp_path, contacts="histogram", links=None).folder)
    assert "give --epsilon, the budget of the wave, and --closes" in complaint(capsys, "open-round", folder)
    assert "leave --opens out" in complaint(capsys, "open-round", folder, "--opens", "2100-01-01")
