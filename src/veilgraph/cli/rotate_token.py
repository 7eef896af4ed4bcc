"""`veilgraph rotate-token`: a new token of a role, or a new key that signs the links of participants."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from veilgraph.cli._common import needs_extra
from veilgraph.cli.options import JsonOption
from veilgraph.cli.output import Facts, emit
from veilgraph.collection import Collection

Holder = Literal["owner", "viewer", "auditor", "scraper", "participants"]


def rotate_token(
    folder: Annotated[
        Path,
        typer.Argument(help="Folder of the collection, or the file of the token or the keys alone.", metavar="FOLDER"),
    ],
    holder: Annotated[
        Holder, typer.Argument(help="Whose: a role of the dashboard, or 'participants'.", metavar="WHOSE")
    ] = "owner",
    as_json: JsonOption = False,
) -> None:
    """Replace the token of a role, or add a key that signs the links of participants from now on.

    A token that was replaced opens nothing after the collector is restarted. Links that were signed by an earlier key
    stay valid until you remove its line, so send new ones before.
    """
    with needs_extra("collector"):
        from veilgraph.collector.auth import Role
        from veilgraph.collector.token_files import add_key, replace_role_token

    home = Collection.open(folder) if folder.is_dir() or not folder.suffix else None
    if holder == "participants":
        file = folder if home is None else home.keys_file
        keys = add_key(file)
        sentences = [f"The first key in {file} is new, and signs from now on.", _NEXT_OF_KEYS.format(keys=keys)]
    else:
        file = folder
        if home is not None:
            file = home.admin_token_file if holder == "owner" else home.optional.roles
        is_new = replace_role_token(file, Role(holder))
        replaced = "" if is_new else " It replaces the one before."
        sentences = [f"A token of the {holder} is in {file}. Keep it secret.{replaced}", "Restart the collector."]
    emit(Facts({"of": holder, "file": str(file)}, sentences), as_json=as_json)


_NEXT_OF_KEYS = (
    "Restart the collector, then run 'veilgraph invite' and send the new links. Remove the other lines when these have "
    "arrived: the file has {keys} keys."
)
