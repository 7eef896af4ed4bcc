"""Names by which people choose their contacts in a wave: a table that the owner decided to show to all who are invited.

It is sent whole, and to who has a participant's token alone: so nobody learns whom a device looks up in it.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Set
from pathlib import Path

from fastapi import FastAPI, Request, Response

from veilgraph.collector import openapi
from veilgraph.collector.auth import bearer_token
from veilgraph.collector.validation import ReportValidator
from veilgraph.errors import CampaignError
from veilgraph.graph.text_tables import read_text_table
from veilgraph.privacy.plain_text import misleading_character

MOST_PEOPLE = 100_000
"""A phone holds and searches the names of all of them."""
_LONGEST = 200


def read_contact_names(path: Path, people: Set[str]) -> dict[str, str]:
    """Return names by id, in the order of the ids; refuse a table that names somebody else, or a person twice.

    Args:
        path: table with the columns `id` and `name`; other columns are not read.
        people: ids of everybody who is asked.
    """
    table = read_text_table(path)
    ids, names = table.column("id", "it says whose name it is"), table.column("name", "participants read it")
    if len(ids) > MOST_PEOPLE:
        raise CampaignError(
            f"{path} names {len(ids):,} people, and a phone searches at most {MOST_PEOPLE:,}: leave the table out"
        )
    found: dict[str, str] = {}
    for row, (node, name) in enumerate(zip(ids, names, strict=True), start=1):
        if node in found or node not in people:
            wrong = "the id is there twice" if node in found else "nobody who is asked has this id"
            raise CampaignError(f"{path}, row {row}: {wrong}; remove the row")
        if misleading_character(name) or len(name) > _LONGEST:
            raise CampaignError(
                f"{path}, row {row}: the name has hidden characters, or more than {_LONGEST}; write it anew"
            )
        found[node] = name.strip()
    return dict(sorted(found.items()))


def add_contact_names(app: FastAPI, names: Mapping[str, str], *, validator: ReportValidator) -> None:
    """Add the routes: how many names there are, for everybody, and the names, for who has a participant's token."""
    content = gzip.compress(json.dumps({"names": list(names.items())}, separators=(",", ":")).encode(), mtime=0)

    @app.get("/v1/contact-names", summary="How many names of people there are to choose contacts from")
    async def count_contact_names() -> openapi.CountBody:
        return {"people": len(names)}

    @app.get("/v1/contact-names/{node:path}", summary="The names, for a participant", responses=openapi.CONTACT_NAMES)
    async def get_contact_names(node: str, request: Request) -> Response:
        validator.authenticate(node, bearer_token(request))
        validator.check_open()  # nobody chooses contacts later
        headers = {"Content-Encoding": "gzip", "Cache-Control": "no-store"}
        return Response(content, media_type="application/json", headers=headers)
