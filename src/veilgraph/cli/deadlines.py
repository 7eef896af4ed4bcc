"""`veilgraph close` and `extend`: until when a collection takes reports."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from veilgraph.campaign.notice import read_time, time_in_words
from veilgraph.campaign.round_schedule import in_words, schedule_path
from veilgraph.cli.campaign_facts import facts_of
from veilgraph.cli.named_files import Place
from veilgraph.cli.options import JsonOption, PlaceArgument
from veilgraph.cli.output import Facts, emit
from veilgraph.collection.open_document import OpenDocument
from veilgraph.errors import CampaignError

DAY = "a day, 2027-01-31 or 31.01.2027, of which all counts, or a time, 2027-01-31T18:00:00"


def close(
    folder: PlaceArgument,
    day: Annotated[str | None, typer.Option("--on", help=f"Instead of now: {DAY}.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Close a collection now, or earlier than planned. A running collector takes it up."""
    place, now = Place.at(folder), datetime.now(UTC).replace(microsecond=0)
    until = now if day is None else read_future(day, place.zone)
    if until >= place.campaign.notice.closes:
        raise CampaignError(
            f"the collection closes at {time_in_words(place.campaign.notice.closes)} already: 'veilgraph extend' gives "
            "a later day"
        )
    emit(revised(place.revise(closes=until)), as_json=as_json)


def extend(
    folder: PlaceArgument,
    day: Annotated[str, typer.Argument(help=f"The last day: {DAY}.", metavar="DAY")],
    as_json: JsonOption = False,
) -> None:
    """Take reports until a later day, also after a collection was closed. A running collector takes it up."""
    place = Place.at(folder)
    until = read_future(day, place.zone)
    if until <= place.campaign.notice.closes:
        raise CampaignError(
            f"the collection is open until {time_in_words(place.campaign.notice.closes)} anyway: 'veilgraph close' "
            "takes an earlier day"
        )
    if (following := next(iter(place.document.ahead), None)) is not None and until > following.opens:
        raise CampaignError(
            f"round {following.number} opens at {time_in_words(following.opens)}: give a day before it, or change "
            f"{schedule_path(place.document.path)}"
        )
    emit(revised(place.revise(closes=until)), as_json=as_json)


def read_future(text: str, zone: str, *, name: str = "closes") -> datetime:
    """Read a time that is still to come."""
    read = read_time(text, zone=zone, name=name)
    if read <= datetime.now(UTC):
        raise CampaignError(f"{name} is {text}, which is in the past: give a later time")
    return read


def revised(document: OpenDocument) -> Facts:
    """Return what is said after a notice was revised."""
    campaign = document.campaign
    sentences = ["Closed: no report is accepted any more."]
    if campaign.is_open(datetime.now(UTC)):
        rounds = campaign.asked.words.open_round(campaign.notice.open_round)
        sentences = [*rounds, f"Open until {time_in_words(campaign.notice.closes)}."]
    sentences.append(
        f"Notice {campaign.notice.version} is in {document.path}; a running collector takes it up by itself. Reports, "
        "links and codes of people stay valid."
    )
    return Facts(facts_of(campaign), [*sentences, *in_words(document.path, document.ahead)])
