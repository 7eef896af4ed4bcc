"""`veilgraph status`: how a collection stands, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from veilgraph.campaign import Campaign
from veilgraph.campaign.notice import time_in_words
from veilgraph.cli._common import needs_extra, show_progress
from veilgraph.cli.options import CollectionArgument, JsonOption
from veilgraph.cli.output import emit
from veilgraph.collection import Collection
from veilgraph.privacy.plain_text import counted

if TYPE_CHECKING:
    from veilgraph.collection.standing import Standing


def status(folder: CollectionArgument, as_json: JsonOption = False) -> None:
    """Say how many answered and who is missing, whether it is enough yet, and what to do next."""
    with needs_extra("lab"), needs_extra("collector"):
        from veilgraph.collection.standing import standing

    collection = Collection.open(folder)
    found = standing(collection, now=datetime.now(UTC), watch=show_progress)
    emit(Shown(found, collection.campaign), as_json=as_json)


@dataclass(frozen=True)
class Shown:
    """The standing of a collection, in words.

    Attributes:
        found: how it stands.
        campaign: its campaign.
    """

    found: Standing
    campaign: Campaign

    @property
    def document(self) -> dict[str, Any]:
        """The standing as JSON-ready values."""
        return self.found.document

    @property
    def sentences(self) -> Iterator[str]:
        """The standing in words, and the next command."""
        found, closes = self.found, time_in_words(self.campaign.notice.closes)
        people = counted(found.asked, "person", "people")
        yield f"{found.answered:,} of {people} answered, {found.silent:,} have not."
        if found.withdrawals or found.objections:
            yield f"{found.withdrawals:,} withdrew, {found.objections:,} do not want to take part."
        yield f"Open until {closes}." if found.is_open else f"Closed since {closes}."
        if found.assessment is None:
            yield "There are too few answers to estimate what a model would get right."
        else:
            yield from found.assessment.sentences
        yield "No model yet." if found.model is None else f"Newest model: {found.model}"
        yield f"Next: {found.next}"
