"""`veilgraph invite`: write links, texts and printable sheets for the people of a collection."""

from __future__ import annotations

from contextlib import closing
from datetime import date
from typing import Annotated

import typer

from veilgraph.cli._common import needs_extra
from veilgraph.cli.options import CollectionArgument, JsonOption
from veilgraph.cli.output import Facts, emit
from veilgraph.collection import Collection
from veilgraph.privacy.plain_text import counted


def invite(
    folder: CollectionArgument,
    url: Annotated[str, typer.Option(help="The collector's address, as people reach it: https://...")],
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

    collection = Collection.open(folder)
    silent = None
    if remind:
        with closing(ReportStore.open(collection.store.url, create=False)) as store:
            silent = nodes_to_remind(collection.graph.names, store, collection.campaign)
    name = "links" if silent is None else f"reminders-{date.today():%Y-%m-%d}"
    written = write(collection, url, only=silent, name=name)
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
