"""`veilgraph open-round`: open the next round, schedule it, or publish the next wave about private neighbours."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from veilgraph.campaign.notice import time_in_words
from veilgraph.campaign.round_schedule import ScheduledRound, in_words, schedule_path, scheduled, write_schedule
from veilgraph.cli.campaign_facts import facts_of
from veilgraph.cli.deadlines import DAY, read_future, revised
from veilgraph.cli.named_files import Place
from veilgraph.cli.neighbour_wave import WaveOptions, publish
from veilgraph.cli.options import JsonOption, PlaceArgument, takes_groups
from veilgraph.cli.output import Facts, emit
from veilgraph.errors import RunError


@takes_groups
def open_round(
    folder: PlaceArgument,
    wave: WaveOptions,
    closes: Annotated[
        str | None, typer.Option(help=f"The last day of the round: {DAY}.", show_default="that of the collection")
    ] = None,
    opens: Annotated[str | None, typer.Option(help="Open it then, and not now: a day or a time.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Open the next round now or on a later day, or publish the next wave about private contacts.

    A running collector takes it up. A wave is computed from all that is stored, in FOLDER/waves.
    """
    place = Place.at(folder)
    if place.home is not None and place.home.waves is not None:
        if opens is not None:
            raise RunError("a wave is computed from the answers before it: leave --opens out, and publish it then")
        emit(publish(place.home, wave, closes, place.zone), as_json=as_json)
        return
    wave.check_none()
    emit(_open(place, closes, opens), as_json=as_json)


def _open(place: Place, closes: str | None, opens: str | None) -> Facts:
    """Open the next round, or schedule it."""
    campaign, ahead = place.campaign, place.document.ahead
    number = campaign.notice.open_round
    if number is None:
        raise RunError(
            "this collection asks once: rounds are asked for when it begins, with 'veilgraph init --set rounds=...'"
        )
    if opens is None:
        if ahead:
            raise RunError(
                f"round {ahead[0].number} opens by itself at {time_in_words(ahead[0].opens)}: give --opens for the one "
                f"after it, or edit {schedule_path(place.document.path)}"
            )
        until = {} if closes is None else {"closes": read_future(closes, place.zone)}
        if not until and not campaign.is_open(datetime.now(UTC)):
            raise RunError("the collection is closed: give --closes, the last day of the round")
        return revised(place.revise(open_round=number + 1, **until))
    if closes is None:
        raise RunError("--closes is missing, the last day of a round that opens by itself")
    following = ScheduledRound(
        number=max([number, *(each.number for each in ahead)]) + 1,
        opens=read_future(opens, place.zone, name="opens"),
        closes=read_future(closes, place.zone),
    )
    whole = scheduled(campaign, ahead, following)
    write_schedule(place.document.path, whole)
    said = [*campaign.asked.words.open_round(number), *in_words(place.document.path, whole)]
    return Facts(facts_of(campaign) | {"scheduled": [_as_json(each) for each in whole]}, said)


def _as_json(each: ScheduledRound) -> dict[str, Any]:
    return {"round": each.number, "opens": time_in_words(each.opens), "closes": time_in_words(each.closes)}
