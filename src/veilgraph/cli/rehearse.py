"""`veilgraph rehearse`: let simulated people answer a collection on this machine."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from veilgraph.campaign.tokens import read_keys, token_for
from veilgraph.cli._common import echo, needs_extra, show_progress
from veilgraph.cli.options import CollectionArgument, JsonOption
from veilgraph.cli.output import Facts, emit
from veilgraph.collection import Collection

if TYPE_CHECKING:
    from veilgraph.collection.rehearsal import Rehearsal

_FEW = 100
"""Silent people below which the figures of a rehearsal scatter by several points."""


def rehearse(
    folder: CollectionArgument,
    look: Annotated[
        bool, typer.Option("--look", help="Then keep it running, with links to look at, until Ctrl-C.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Let simulated people answer over HTTP on this machine, and train on their reports. Nothing is kept."""
    with needs_extra("lab"), needs_extra("collector"):
        from veilgraph.collection.rehearsal import copy_of, rehearse, serving

    with copy_of(Collection.open(folder)) as copy, serving(copy) as address:
        with show_progress("rehearse") as progress:
            found = rehearse(copy, address=address, progress=progress)
        emit(_rehearsed(found, str(folder)), as_json=as_json)
        if look:
            _wait(copy, address)


def _wait(collection: Collection, address: str) -> None:
    name, key = collection.graph.names[0], read_keys(collection.keys_file)[0]
    token = token_for(key, collection.campaign.series, name)
    echo(
        f"The page of '{name}': {address}/#node={quote(name, safe='')}&token={token}",
        f"The dashboard: {address}/dashboard, with the token {collection.admin_token_file.read_text().strip()}",
        "Both are of this rehearsal alone, which Ctrl-C ends.",
        err=True,
    )
    try:
        while True:
            time.sleep(1)
    except KeyboardInterrupt:
        return


def _rehearsed(found: Rehearsal, folder: str) -> Facts:
    following = f"veilgraph serve {shlex.quote(folder)}"
    return Facts(asdict(found) | {"next": following}, _in_words(found, folder, following))


def _in_words(found: Rehearsal, folder: str, following: str) -> Iterator[str]:
    """Say what a rehearsal found, and the next command."""
    yield (
        f"{found.answered:,} simulated people answered over HTTP in {found.seconds:.0f} s "
        f"({found.answered / found.seconds:.0f} a second); {found.silent:,} stayed silent."
    )
    yield f"A phone loads the page with {found.page.requests} requests and {found.page.size / 1000:.0f} kB."
    if found.accuracy is not None:
        yield (
            f"Right about the silent people: {found.accuracy:.1%}; the control, label propagation on the same "
            f"reports, {found.control:.1%}; the largest class for everybody {found.largest_class:.1%}."
        )
        if found.silent < _FEW:
            yield f"They are few: one of them is {100 / found.silent:.1f} points, so rehearse again and compare."
        yield (
            f"That is for made-up answers that follow the links by {found.assortativity:.0%} (0% is chance; "
            f"{found.homophily:.0%} of the links join people with the same answer). If yours do not follow the "
            "links, expect no more than their largest class."
        )
    else:
        yield "They answered the first question. What waves about contacts learn: veilgraph plan --private-neighbours"
    yield "Nothing was kept."
    yield (
        f"Next: {following}, which runs until Ctrl-C; then, in another terminal: "
        f"veilgraph invite {shlex.quote(folder)} --url https://..."
    )
