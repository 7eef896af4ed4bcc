"""Rounds that open by themselves: a table beside a campaign says when each opens, and when it closes.

The table changes no file. Who reads the campaign takes up what is due. Everybody finds the same notice at the same
time: each round that opens raises its version by one.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import tomli_w

from veilgraph.atomic_files import write_atomically
from veilgraph.campaign.document import Campaign
from veilgraph.campaign.notice import read_time, time_in_words
from veilgraph.errors import CampaignError
from veilgraph.privacy.strict_json import TIME_FORMAT

_KEYS = {"number", "opens", "closes"}
_HEADER = (
    "# Rounds that open by themselves; 'veilgraph open-round --opens' adds one. Take out one that shall not open.\n\n"
)


@dataclass(frozen=True, kw_only=True)
class ScheduledRound:
    """A round that opens by itself.

    Attributes:
        number: its number.
        opens: time from which it is answered.
        closes: time until which it is answered.
    """

    number: int
    opens: datetime
    closes: datetime


def schedule_path(campaign_file: Path) -> Path:
    """Return the file of the scheduled rounds, which is beside the campaign.

    >>> schedule_path(Path("health/campaign.json")).as_posix()
    'health/campaign.rounds.toml'
    """
    return campaign_file.with_suffix(".rounds.toml")


def read_schedule(campaign_file: Path) -> tuple[ScheduledRound, ...]:
    """Read the rounds that are scheduled beside a campaign, in their order; none if there is no such file."""
    path = schedule_path(campaign_file)
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return ()
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CampaignError(f"{path} is not TOML in UTF-8: {error}") from None
    rows = document.get("round")
    if set(document) != {"round"} or not isinstance(rows, list) or not all(_is_row(row) for row in rows):
        raise CampaignError(f"{path} holds something else than tables [[round]] with number, opens and closes")
    found = [
        ScheduledRound(
            number=row["number"],
            opens=read_time(row["opens"], name="opens"),
            closes=read_time(row["closes"]),
        )
        for row in rows
    ]
    return tuple(sorted(found, key=lambda each: each.number))


def write_schedule(campaign_file: Path, rounds: Sequence[ScheduledRound]) -> None:
    """Write the rounds that are scheduled beside a campaign."""
    rows = [
        {
            "number": each.number,
            "opens": each.opens.strftime(TIME_FORMAT),
            "closes": each.closes.strftime(TIME_FORMAT),
        }
        for each in rounds
    ]
    write_atomically(schedule_path(campaign_file), _HEADER + tomli_w.dumps({"round": rows}), public=True)


def due(campaign: Campaign, rounds: Sequence[ScheduledRound], *, now: datetime) -> Campaign:
    """Return the campaign with the notice of the last scheduled round that has opened.

    Args:
        campaign: the campaign, as its file has it.
        rounds: rounds that are scheduled, in their order.
        now: the time.
    """
    for each in rounds:
        if each.opens <= now and campaign.notice.open_round is not None and each.number > campaign.notice.open_round:
            campaign = campaign.revise(open_round=each.number, closes=each.closes)
    return campaign


def read_campaign(path: Path, *, now: datetime) -> Campaign:
    """Read a campaign as it is now: with the scheduled rounds that have opened."""
    return due(Campaign.from_json(path.read_bytes()), read_schedule(path), now=now)


def scheduled(campaign: Campaign, rounds: Sequence[ScheduledRound], following: ScheduledRound) -> list[ScheduledRound]:
    """Return a schedule with one round more; refuse one that could not open.

    Args:
        campaign: the campaign as it is now.
        rounds: rounds that are scheduled, in their order.
        following: the round that is added.
    """
    before = max([campaign.notice.closes, *(each.closes for each in rounds)])
    if following.closes <= following.opens:
        raise CampaignError(
            f"round {following.number} would close at {time_in_words(following.closes)}, before it opens: give a later "
            "end"
        )
    if following.opens < before:
        raise CampaignError(
            f"round {following.number} would open at {time_in_words(following.opens)}, and the round before it is open "
            f"until {time_in_words(before)}: give a later opening, or run 'veilgraph close' with an earlier day"
        )
    whole = [*rounds, following]
    due(campaign, whole, now=following.opens)  # refused now if a notice cannot be so
    return whole


def in_words(campaign_file: Path, rounds: Sequence[ScheduledRound]) -> list[str]:
    """Say when scheduled rounds open and close, and where this is written; nothing without rounds."""
    said = [
        f"Round {each.number} opens at {time_in_words(each.opens)}, until {time_in_words(each.closes)}."
        for each in rounds
    ]
    return (
        [*said, f"A running collector opens them by itself; they are in {schedule_path(campaign_file)}."]
        if said
        else []
    )


def _is_row(row: object) -> bool:
    return (
        isinstance(row, dict)
        and set(row) == _KEYS
        and type(row["number"]) is int
        and isinstance(row["opens"], str)
        and isinstance(row["closes"], str)
    )
