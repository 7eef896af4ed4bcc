"""A schedule opens rounds by the clock alone: everybody who reads it finds the same notice."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.campaigns import MIXED, campaign
from veilgraph.campaign.round_schedule import (
    ScheduledRound,
    due,
    read_campaign,
    read_schedule,
    schedule_path,
    write_schedule,
)
from veilgraph.errors import CampaignError


def day(number: int) -> datetime:
    return datetime(2100, 1, number, tzinfo=UTC)


CAMPAIGN = campaign(MIXED, epsilon_y=1.0, rounds=3, closes=day(3))
ROUNDS = (
    ScheduledRound(number=2, opens=day(5), closes=day(9)),
    ScheduledRound(number=3, opens=day(12), closes=day(16)),
)


def test_a_round_opens_at_its_time_and_raises_the_version_by_one() -> None:
    seen = [due(CAMPAIGN, ROUNDS, now=day(number)) for number in (4, 5, 11, 12, 30)]
    assert [(each.notice.open_round, each.notice.version) for each in seen] == [(1, 1), (2, 2), (2, 2), (3, 3), (3, 3)]
    assert [each.notice.closes for each in seen] == [day(3), day(9), day(9), day(16), day(16)]
    assert {each.id for each in seen} == {CAMPAIGN.id}


def test_it_is_the_same_notice_whoever_reads_it_and_in_however_many_steps() -> None:
    assert due(due(CAMPAIGN, ROUNDS, now=day(6)), ROUNDS, now=day(13)) == due(CAMPAIGN, ROUNDS, now=day(13))


def test_a_campaign_that_asks_once_has_no_rounds_to_open() -> None:
    once = campaign(MIXED, epsilon_y=1.0)
    assert due(once, ROUNDS, now=day(30)) == once


def test_the_schedule_is_beside_the_campaign(tmp_path: Path) -> None:
    path = tmp_path / "campaign.json"
    path.write_text(CAMPAIGN.to_json())
    assert read_schedule(path) == ()
    write_schedule(path, ROUNDS)
    assert read_schedule(path) == ROUNDS
    assert read_campaign(path, now=day(6)).notice.open_round == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "is not TOML"),
        ("rounds = 3", "holds something else"),
        ("[[round]]\nnumber = 2", "holds something else"),
        ('[[round]]\nnumber = 2\nopens = "soon"\ncloses = "2100-01-01"', "opens is 'soon'"),
    ],
)
def test_a_wrong_schedule_is_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    schedule_path(tmp_path / "campaign.json").write_text(text)
    with pytest.raises(CampaignError, match=message):
        read_schedule(tmp_path / "campaign.json")
