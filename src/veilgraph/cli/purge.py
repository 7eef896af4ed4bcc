"""`veilgraph purge`: delete all reports of a collection for good."""

from __future__ import annotations

import shutil
import time
from datetime import UTC, datetime
from typing import Annotated

import typer

from veilgraph.cli.named_files import Place, administered
from veilgraph.cli.options import JsonOption, PlaceArgument, StoreOption
from veilgraph.cli.output import Facts, emit
from veilgraph.errors import RunError
from veilgraph.privacy.plain_text import counted

# Digits of a campaign's id that confirm a purge before its date.
_CONFIRMED_DIGITS = 8


def purge(
    folder: PlaceArgument,
    at_once: Annotated[bool, typer.Option("--now", help="Do not wait for the retention date.")] = False,
    confirm: Annotated[str | None, typer.Option(help="With --now: the beginning of the id, to confirm.")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete all reports of a collection after its retention date; it accepts none again."""
    place = Place.at(folder)
    asked = place.campaign
    is_due = asked.notice.retention is not None and datetime.now(UTC) >= asked.notice.retention
    if not is_due and not at_once:
        if asked.notice.retention is None:
            raise RunError("the collection announces no retention date: give --now to delete its reports at once")
        raise RunError(
            f"the collection keeps its reports until {asked.notice.retention:%Y-%m-%d %H:%M:%S} UTC: wait until then, "
            "or give --now to delete them at once"
        )
    opened = administered(place.store(store))
    try:
        if not is_due and not (len(confirm or "") >= _CONFIRMED_DIGITS and asked.id.startswith(confirm or "")):
            stored = counted(opened.reports.count(asked.series), "report")
            raise RunError(
                f"this would delete {stored} of {asked.notice.purpose!a} for ever: "
                f"if you mean it, repeat the command with --confirm {asked.id[:_CONFIRMED_DIGITS]}"
            )
        deleted = opened.purges.purge(asked, now=time.time(), actor="owner")
    finally:
        opened.close()
    lost = [] if place.home is None else sorted(place.home.folder.glob("lost-*"))
    for moved in lost:
        shutil.rmtree(moved)
    stores = [f"Deleted with its reports: {moved}, which 'veilgraph restore' moved away." for moved in lost]
    sentences = [
        f"{counted(deleted, 'report')} deleted. The collection accepts none again, and the audit log says so.",
        *stores,
        "Models that were trained before hold copies of reports: delete their folders, and old backups. 'veilgraph "
        "backup --list' takes the names off a list of withdrawals.",
    ]
    emit(
        Facts({"campaign": asked.id, "deleted": deleted, "removed": [str(moved) for moved in lost]}, sentences),
        as_json=as_json,
    )
