"""`veilgraph invite`: write links, texts and printable sheets for the people of a collection."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from veilgraph.cli._common import needs_extra, show_progress
from veilgraph.cli.named_files import Place
from veilgraph.cli.options import JsonOption, PlaceArgument, StoreOption, takes_groups
from veilgraph.cli.output import Facts, emit
from veilgraph.errors import RunError
from veilgraph.privacy.plain_text import counted

if TYPE_CHECKING:
    from veilgraph.collection.invitations import Guests


@dataclass(frozen=True, kw_only=True)
class _NamedFiles:
    """What a campaign alone needs."""

    nodes: Annotated[Path | None, typer.Option(help="With a campaign alone: table of people with a column 'id'.")] = (
        None
    )
    keys_file: Annotated[Path | None, typer.Option(help="With a campaign alone: file of keys; the first signs.")] = None
    out: Annotated[Path | None, typer.Option(help="With a campaign alone: folder to write.")] = None
    store: StoreOption = None

    def guests(self, place: Place) -> Guests:
        """Return who is invited, by the folder of a collection or by these files."""
        from veilgraph.collection.invitations import Guests

        named = {"--nodes": self.nodes, "--keys-file": self.keys_file, "--out": self.out}
        if place.home is not None:
            if given := [option for option, path in named.items() if path is not None]:
                raise RunError(f"the folder of the collection has this: leave {given[0]} out")
            return Guests.of(place.home)
        if self.nodes is None or self.keys_file is None or self.out is None:
            missing = ", ".join(option for option, path in named.items() if path is None)
            raise RunError(f"a campaign alone needs more: give {missing}, or the folder of the collection")
        return Guests(campaign=place.campaign, keys_file=self.keys_file, tables=(self.nodes,), folder=self.out)


@takes_groups
def invite(
    folder: PlaceArgument,
    url: Annotated[str, typer.Option(help="The collector's address, as people reach it: https://...")],
    files: _NamedFiles,
    remind: Annotated[
        bool, typer.Option("--remind", help="Only those who have not answered; nobody who withdrew or objected.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Write a link for each person, texts of invitation and reminder, and sheets with QR codes to print."""
    with needs_extra("collector"):
        from veilgraph.collection.invitations import invite as write
        from veilgraph.collector.reminders import nodes_to_remind
        from veilgraph.collector.store import ReportStore

    place = Place.at(folder)
    guests, silent = files.guests(place), None
    if remind:
        with closing(ReportStore.open(place.store(files.store), create=False)) as store:
            silent = nodes_to_remind(guests.names, store, place.campaign)
    name = "links" if silent is None else f"reminders-{date.today():%Y-%m-%d}"
    with show_progress("invite") as progress:
        written = write(guests, url, only=silent, name=name, progress=progress)
    sentences = [
        f"{counted(written.people, 'person', 'people')}: links in {written.table}, for a program that sends letters.",
        f"Texts of invitation and reminder: {', '.join(map(str, written.texts.values()))}. LINK stands for the link.",
        f"To print: {written.sheets}, with a QR code for each person.",
        "These files hold a code for each person: keep them secret, and give each person only their own.",
    ]
    document = {
        "people": written.people,
        "links": str(written.table),
        "sheets": str(written.sheets),
        "texts": {language: str(path) for language, path in written.texts.items()},
    }
    emit(Facts(document, sentences), as_json=as_json)
