"""A series about private neighbours: a campaign that asks for the label, then one document for each wave of answers.

The documents are chained by their ids. A wave's document names all before it, the integers of every question so far,
and the hashes of two files that are published whole: the people, and what is believed about them. A wave that asks for
the list itself, by randomized response, needs no beliefs; it is the only one of its series.

Everybody answers every wave, or each person one of several: in turns.
"""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veilgraph.campaign.asked import epsilon_text
from veilgraph.errors import BudgetError, CampaignError
from veilgraph.privacy.accounting import WITH_RECORD, Guarantee, guarantee_of
from veilgraph.privacy.belief_table import BeliefTable
from veilgraph.privacy.epsilon import ListLoss, ListRelation, add_epsilons
from veilgraph.privacy.mechanisms import NeighbourMechanism
from veilgraph.privacy.mechanisms.registry import ANSWER_FORMS, LabelOnce
from veilgraph.privacy.mechanisms.wire import find_form
from veilgraph.privacy.strict_json import expect_list, expect_object, expect_whole

MAX_WAVES = 36
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class NeighbourSeries:
    """What a wave's document says about its series, up to this wave.

    Args:
        documents: ids of all documents before this one: the first, which asks for the label, to the previous wave.
        label: mechanism of the label, as the first document has it.
        answers: mechanism of each wave so far; the last one belongs to this wave.
        turns: number of waves of which each person answers one; None if everybody answers all.
        people: SHA-256 of the file of all people.
        table: SHA-256 of the published belief table; None where the wave asks for the list itself.

    >>> from veilgraph.privacy.mechanisms import GRR, NeighbourhoodClass
    >>> series = NeighbourSeries(
    ...     documents=("a" * 64,), label=GRR(4, 2.0), answers=(NeighbourhoodClass(4, 1.0),), people="b" * 64,
    ...     table="c" * 64)
    >>> series.wave, series.first == series.previous, round(series.guarantee.total_user_level, 9)
    (1, True, 3.0)
    """

    documents: tuple[str, ...]
    label: LabelOnce
    answers: tuple[NeighbourMechanism, ...]
    people: str
    table: str | None
    turns: int | None = None

    def __post_init__(self) -> None:
        for place, digest in (
            *(("neighbours.documents", each) for each in self.documents),
            ("neighbours.people", self.people),
            *([] if self.table is None else [("neighbours.table", self.table)]),
        ):
            if not isinstance(digest, str) or not _SHA256.fullmatch(digest):
                raise CampaignError(f"{place} is not a SHA-256 in hexadecimal digits")
        if not 1 <= len(self.documents) <= MAX_WAVES or len(set(self.documents)) < len(self.documents):
            raise CampaignError(f"neighbours.documents must name 1 to {MAX_WAVES} documents, each once")
        if len(self.answers) != len(self.documents):
            raise CampaignError(
                f"neighbours.answers describes {len(self.answers)} waves, and {len(self.documents)} follow from the "
                "documents: give one for each"
            )
        if any(math.isinf(each.list_loss.one_entry) for each in self.answers):
            raise CampaignError("an answer is not private: people's answers are never collected without privacy")
        if self.wave > 1 and any(each.asks_for_lists for each in self.answers):
            raise CampaignError("a series that asks for randomized lists has one wave: begin another series")
        if self.turns is not None:
            expect_whole(self.turns, "neighbours.turns", 2, MAX_WAVES)
            if self.asks_for_lists:
                raise CampaignError("a randomized list is asked of everybody, in one wave: leave turns out")
            if self.wave > self.turns:
                raise CampaignError(
                    f"after {self.turns} waves everybody has had a turn: train on the series, or begin another one"
                )
        if self.asks_for_lists != (self.table is None):
            raise CampaignError("a belief table is published for every wave, but for one that asks for the list itself")

    @property
    def first(self) -> str:
        """Id of the document that asks for the label; it names the series."""
        return self.documents[0]

    @property
    def previous(self) -> str:
        """Id of the document before this one."""
        return self.documents[-1]

    @property
    def wave(self) -> int:
        """Number of this wave, from 1."""
        return len(self.documents)

    @property
    def answer(self) -> NeighbourMechanism:
        """Mechanism of this wave."""
        return self.answers[-1]

    @property
    def asks_for_lists(self) -> bool:
        """Whether this wave asks for the list itself, by randomized response; then the server learns a graph."""
        return self.answer.asks_for_lists

    @property
    def published(self) -> frozenset[str]:
        """SHA-256 of each file that is published for this wave."""
        return frozenset({self.people} if self.table is None else {self.people, self.table})

    @property
    def wave_guarantee(self) -> Guarantee:
        """Upper bound of what the answer of this wave alone reveals."""
        return guarantee_of(None, None, [self.answer])

    @property
    def total_loss(self) -> ListLoss:
        """What all answers of one person so far cost together; in turns they are one answer."""
        losses = [each.list_loss for each in self.answers]
        return ListLoss.sum_of(losses) if self.turns is None else ListLoss.largest_of(losses)

    @property
    def guarantee(self) -> Guarantee:
        """Upper bound of what the label and all waves so far reveal together."""
        if self.turns is None:
            return guarantee_of(None, self.label, self.answers)
        return guarantee_of(None, self.label).with_lists(self.total_loss)

    @property
    def document(self) -> dict[str, Any]:
        """The series as JSON values, without the label's mechanism, which the campaign writes."""
        return {
            "documents": list(self.documents),
            "answers": [each.document for each in self.answers],
            "turns": self.turns,
            "people": self.people,
            "table": self.table,
        }

    @property
    def guarantee_document(self) -> dict[str, Any]:
        """Every epsilon, of this wave and of the series so far, under each relation; no text is below its epsilon."""
        total = self.total_loss
        label = self.guarantee.label_user_level
        return {
            "wave": _texts(self.answer.list_loss),
            "series": {
                "label": epsilon_text(label),
                "lists": _texts(total),
                "lists_and_record": {
                    each.key: epsilon_text(add_epsilons(label, total.under(each))) for each in WITH_RECORD
                },
            },
        }

    @classmethod
    def parse(cls, stated: object, label: LabelOnce) -> NeighbourSeries:
        """Read JSON values; refuse integers that are not those that the epsilons give."""
        keys = {"documents", "label", "answers", "people", "table", "turns"}
        parts = expect_object(stated, keys, "neighbours")
        documents: Any = tuple(expect_list(parts["documents"], "neighbours.documents"))
        entries = expect_list(parts["answers"], "neighbours.answers")
        try:
            answers = tuple(
                find_form(entry, ANSWER_FORMS, "an answer").read(entry, "an answer", label.domain_size)
                for entry in entries
            )
        except BudgetError as error:
            raise CampaignError(f"the campaign contradicts itself: {error}") from None
        return cls(
            documents=documents,
            label=label,
            answers=answers,
            turns=parts["turns"],
            people=parts["people"],
            table=parts["table"],
        )

    def check_table(self, published: bytes, *, people: int) -> BeliefTable:
        """Return the belief table of this wave; refuse another one.

        Args:
            published: content of the published file.
            people: number of people.
        """
        if (found := hashlib.sha256(published).hexdigest()) != self.table:
            raise CampaignError(
                f"the table has the SHA-256 {found}, and wave {self.wave} asks about {self.table}: give its own table"
            )
        table = BeliefTable.from_bytes(published)
        if len(table) != people or table.num_classes != self.label.domain_size:
            raise CampaignError(
                f"the table is of {len(table):,} people and {table.num_classes} classes, the campaign of "
                f"{people:,} and {self.label.domain_size}: publish another one"
            )
        return table


def table_path(folder: Path, sha256: str) -> Path:
    """Return the file of a belief table in a folder of tables."""
    return folder / f"{sha256}.beliefs"


def read_table_file(folder: Path | None, series: NeighbourSeries, *, people: int) -> bytes | None:
    """Return the published file of a wave's belief table, checked; None for a wave without one.

    Args:
        folder: folder of the series; a wave with a table needs it.
        series: the series, up to the wave.
        people: number of people.
    """
    if series.table is None:
        return None
    if folder is None:
        raise CampaignError("the tables of the series are missing: give the folder of the published waves")
    path = table_path(folder, series.table)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CampaignError(
            f"{path}, the table of wave {series.wave}, cannot be read ({error.strerror}): give the folder that "
            "'veilgraph open-round' wrote"
        ) from None
    series.check_table(content, people=people)
    return content


def _texts(loss: ListLoss) -> dict[str, str]:
    return {each.key: epsilon_text(loss.under(each)) for each in ListRelation}
