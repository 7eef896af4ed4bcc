"""`veilgraph backup` and `restore`: copies of a collection, from which no withdrawn report returns."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from veilgraph.cli._common import needs_extra
from veilgraph.cli.named_files import Place
from veilgraph.cli.options import JsonOption, PlaceArgument, StoreOption
from veilgraph.cli.output import Facts, emit
from veilgraph.privacy.plain_text import counted


def backup(
    folder: PlaceArgument,
    into: Annotated[Path, typer.Argument(help="Folder of all copies, best on another disk.", metavar="COPIES")],
    list_only: Annotated[
        bool, typer.Option("--list", help="Only add who withdrew to the list in COPIES, which is quick: for cron.")
    ] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy a collection and its reports while it runs, and list who withdrew, so that no copy brings them back."""
    with needs_extra("collector"):
        from veilgraph.collection.copies import back_up

    place = Place.at(folder)
    found = back_up(folder, place.campaign, place.store(store), into, now=datetime.now(UTC), list_only=list_only)
    listed = (
        f"{counted(found.added, 'name')} added to the list of withdrawals: {found.list_file}."
        if found.removed is None
        else f"The collection is purged: {counted(found.removed, 'name')} removed from {found.list_file}. Delete older "
        "copies yourself."
    )
    copied = [] if found.copy is None else [f"The copy is in {found.copy}."]
    remedy = f"After a loss, stop the collector: veilgraph restore {folder} {into}"
    warning = f"{into} holds reports, names and keys: keep it secret, and on another disk."
    document = {name: str(value) if isinstance(value, Path) else value for name, value in asdict(found).items()}
    sentences = [*copied, listed, warning, *([remedy] if found.copy else [])]
    emit(Facts({"campaign": place.campaign.id} | document, sentences), as_json=as_json)


def restore(
    folder: Annotated[
        Path, typer.Argument(help="Folder of the collection, which may be lost, or its campaign.", metavar="FOLDER")
    ],
    copies: Annotated[
        Path, typer.Argument(help="What 'backup' wrote; of several copies, the newest.", metavar="COPIES")
    ],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put a copy in the place of a lost store, and withdraw again who withdrew since. Stop the collector first."""
    with needs_extra("collector"):
        from veilgraph.collection.copies import newest_copy, restore_files
        from veilgraph.collection.copies import restore as put_back

    copy = newest_copy(copies)
    restore_files(copy, folder)
    place = Place.at(folder)
    found = put_back(copy, place.campaign, place.store(store), now=datetime.now(UTC))
    moved = [] if found.moved is None else [f"What was there is in {found.moved}: delete it when all is well."]
    forgotten = (
        []
        if found.unknown_after is None
        else [
            f"No store that could be read was there: who withdrew after {found.unknown_after} is not in the list. "
            f"Withdraw those people again: veilgraph withdraw {folder} NODE"
        ]
    )
    sentences = [
        f"{counted(found.reports, 'report')} restored from {found.copy}.",
        f"{counted(found.listed, 'person', 'people')} of this collection in the list of withdrawals; withdrawn again: "
        f"{found.withdrawn:,}.",
        *forgotten,
        *moved,
        "Start the collector, and ask people to open the page once more: it sends what is missing again, and nobody "
        "draws twice.",
    ]
    document = {name: str(value) if isinstance(value, Path) else value for name, value in asdict(found).items()}
    emit(Facts({"campaign": place.campaign.id} | document, sentences), as_json=as_json)
