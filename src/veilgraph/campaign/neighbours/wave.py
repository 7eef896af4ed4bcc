"""A wave that asks people about their private neighbours: one document of a series."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from veilgraph.campaign.asked import Asked, CampaignLabel, Documents, about_document, read_about, turn_of
from veilgraph.campaign.asked_words import Exposure, Step, Words
from veilgraph.campaign.neighbours.people_file import people_file
from veilgraph.campaign.neighbours.published_words import published_in_words
from veilgraph.campaign.neighbours.series import NeighbourSeries, read_table_file
from veilgraph.errors import CampaignError, ReportError
from veilgraph.privacy.accounting import Guarantee
from veilgraph.privacy.epsilon import ListRelation, NeighbourRelation, add_epsilons, describe_epsilon
from veilgraph.privacy.mechanisms import NeighbourMechanism
from veilgraph.privacy.mechanisms.registry import LABEL_FORMS
from veilgraph.privacy.mechanisms.wire import find_form
from veilgraph.privacy.plain_text import counted

WAVE_FORMAT = 4
"""Format of the documents of waves about private neighbours."""

RELATIONS = {
    ListRelation.ANY_LISTS: "any two lists, of any length",
    ListRelation.ONE_ENTRY: "one entry: two lists, one with a person more",
    ListRelation.ONE_RELATIONSHIP: "one relationship, which both ends report, or neither",
}
"""Relations between lists, in the words of the page."""


@dataclass(frozen=True, kw_only=True)
class NeighbourWave(Asked):
    """A wave of answers about private neighbours; it asks for no features and no label.

    Args:
        series: the series, up to this wave.
    """

    format = WAVE_FORMAT
    key = "neighbours"
    bound_keys = frozenset({"format", "schema", "guarantee", "graph", "neighbours"})
    report_keys = frozenset({"answer"})
    asks_one_report = False

    series: NeighbourSeries

    def __post_init__(self) -> None:
        if self.feature_mechanism is not None or self.label_mechanism is not None or self.schema.columns:
            raise CampaignError("a wave about private neighbours asks for no features and no label")
        if self.series.label.domain_size != self.schema.num_classes:
            raise CampaignError(
                f"the series asks for one of {self.series.label.domain_size} classes, "
                f"the schema has {self.schema.num_classes}"
            )
        for answer in self.answers:
            answer.check_asked(classes=self.schema.num_classes, people=self.nodes)
        super().__post_init__()

    @classmethod
    def parse(cls, bound: Mapping[str, Any]) -> Self:
        """Read the bound part of a document; refuse integers or epsilons that do not follow from each other."""
        about, stated = read_about(bound), bound["neighbours"]
        label = stated.get("label") if isinstance(stated, dict) else None
        form = find_form(label, LABEL_FORMS, "neighbours.label")
        response = form.read(label, "neighbours.label", about["schema"].num_classes)
        made = cls(**about, series=NeighbourSeries.parse(stated, response))
        if bound["guarantee"] != made.series.guarantee_document:
            total = describe_epsilon(ListRelation.ONE_ENTRY, made.series.answer.list_loss.one_entry)
            raise CampaignError(
                f"the stated guarantee is not what the integers give. {total} in this wave; do not answer it"
            )
        return made

    @property
    def bound(self) -> dict[str, Any]:
        """Part of the document that reports are bound to, as JSON values."""
        return {
            **about_document(self),
            "neighbours": {**self.series.document, "label": self.series.label.document},
            "guarantee": self.series.guarantee_document,
        }

    @cached_property
    def guarantee(self) -> Guarantee:
        """Upper bound of what the label and all waves so far reveal together."""
        return self.series.guarantee

    @property
    def words(self) -> WaveWords:
        """What people read about the questions and the guarantee."""
        return WaveWords(self)

    @property
    def documents(self) -> Documents:
        """The documents of the series up to this wave, and whom each asks."""
        titles = ("the label", *(answer.title for answer in self.answers))
        series = self.series
        return Documents(
            nodes=self.nodes, earlier=series.documents, titles=titles, turns=series.turns, people=series.people
        )

    @property
    def has_edges(self) -> bool:
        """Whether the server learns on the graph of people who name each other."""
        return self.series.asks_for_lists

    @property
    def collected_label(self) -> CampaignLabel:
        """Mechanism of the label, which the first document asks for."""
        return self.series.label

    @property
    def answers(self) -> tuple[NeighbourMechanism, ...]:
        """Mechanism of each wave so far."""
        return self.series.answers

    @property
    def publishes_beliefs(self) -> bool:
        """Whether a belief table is published."""
        return not self.series.asks_for_lists

    @property
    def published(self) -> frozenset[str]:
        """SHA-256 of each file that is published before people answer."""
        return self.series.published

    def read_tables(self, folder: Path | None) -> dict[str, bytes]:
        """Return the belief table of the wave, checked; nothing for a wave that asks for lists."""
        table, content = self.series.table, read_table_file(folder, self.series, people=self.nodes)
        return {} if table is None or content is None else {table: content}

    def published_files(
        self, names: Sequence[str], tables: Mapping[str, bytes], known: Mapping[str, bytes]
    ) -> dict[str, bytes]:
        """Return the belief table and the file of all people."""
        people = self.series.people
        return {people: known.get(people) or people_file(names), **tables}

    @property
    def report_parts(self) -> dict[str, dict[str, Any]]:
        """JSON schema of each part of a report, besides campaign and node."""
        return {"answer": self.series.answer.report_schema}

    @property
    def longest_report(self) -> dict[str, Any]:
        """Parts of a report that no other one is longer than, as JSON values."""
        return {"answer": self.series.answer.longest_report}

    def read_report(self, document: Mapping[str, Any], node: str) -> dict[str, Any]:
        """Return the parts of a report about a node, checked, under the names that `Report` has for them."""
        series, turns = self.series, self.series.turns
        if turns is not None and not self.documents.is_asked(node):
            raise ReportError(f"node: this person answers wave {turn_of(node, turns)}, and wave {series.wave} is open")
        answer = series.answer.check_report(document["answer"], "answer")
        return {"number": series.wave, "answer": answer, "series": series.first}


def series_of(asked: Asked) -> NeighbourSeries:
    """Return the series whose wave a document is; any other campaign is refused."""
    if not isinstance(asked, NeighbourWave):
        raise CampaignError("the campaign is no wave about private neighbours")
    return asked.series


class WaveWords(Words):
    """Words of a wave about private neighbours, and of its series so far.

    Args:
        asked: the wave.
    """

    title = "This series so far"
    not_protected = "the list of people"

    def __init__(self, asked: NeighbourWave) -> None:
        self.asked, self.series = asked, asked.series
        self.sure = "guarantee.list" if asked.series.asks_for_lists else "guarantee.contacts"

    @property
    def told(self) -> list[tuple[str, Mapping[str, int]]]:
        """Keys and values of the phrases that participants read after the figures."""
        weak = "weak.list" if self.series.asks_for_lists else "weak.contacts"
        said: list[tuple[str, Mapping[str, int]]] = [("guarantee.others", {}), ("details.unprotected.contacts", {})]
        if self.series.turns is not None:
            said.append(("rounds.turns", {"count": self.series.turns}))
        if math.isinf(self.series.total_loss.any_lists):
            said.insert(0, (weak, {}))
        return said if self.series.asks_for_lists else [*said, ("guarantee.published", {})]

    @property
    def whole(self) -> Guarantee:
        """The guarantee that the words are about."""
        return self.asked.guarantee

    @property
    def methods(self) -> list[str]:
        """Sentences that say what is asked, and how a device randomizes it."""
        return [
            f"Asked in wave {self.series.wave} of series {self.series.first}: the neighbours of a person.",
            *self._turns,
            self.series.answer.method_in_words("a person's neighbours"),
        ]

    @property
    def questions(self) -> list[str]:
        """Each question with its answers: a wave has none in the words of the schema."""
        return []

    def page_methods(self, label: str) -> list[str]:
        """Return sentences of the page that say how a device randomizes; `label` is the label's question in words."""
        said = [self.series.label.method_in_words(f"“{label}”")]
        return [*said, self.series.answer.method_in_words("the people in one's list"), *self._turns]

    @property
    def _turns(self) -> list[str]:
        if self.series.turns is None:
            return []
        return [f"Each person answers one of {self.series.turns} waves, which a hash of the id decides."]

    @property
    def guarantee(self) -> list[str]:
        """Sentences about the guarantee of the wave alone, and with all before it."""
        before = f"The label and {counted(self.series.wave, 'wave')} so far, together:"
        if self.series.turns is not None:
            before = "The label and the one wave that a person answers, together:"
        alone = self.series.wave_guarantee.in_words(theorem_1=False)[:-1]  # the last sentence is said once
        return [f"Wave {self.series.wave} alone:", *alone, before, *super().guarantee]

    @property
    def guarantee_in_brief(self) -> list[str]:
        """Those sentences about the guarantee that are said when a collection begins: one relation is not enough."""
        return self.guarantee

    @property
    def compared(self) -> list[tuple[float, str]]:
        """Epsilons to compare with the epsilons of known deployments, each with what it protects."""
        label, lists = self.whole.label_user_level, self.series.total_loss
        unit = "all that one person reports: any two labels, and lists that differ in one entry"
        return [*super().compared, (add_epsilons(label, lists.one_entry), unit)]

    @property
    def published(self) -> list[str]:
        """What is published before people answer."""
        return published_in_words(self.asked.nodes, has_table=not self.series.asks_for_lists)

    def steps(self, label: str) -> list[Step]:
        """Return the label and each wave so far, with what each reveals at most."""
        asked = f"“{label}”, one of {counted(self.series.label.domain_size, 'answer')}"
        user = Exposure.of("The label", self.whole.label_user_level, str(NeighbourRelation.USER_LEVEL))
        waves = [
            Step(
                name=f"wave {number}",
                asked=answer.asked_in_words,
                exposures=[
                    Exposure.of(f"Wave {number}", answer.list_loss.under(relation), words)
                    for relation, words in RELATIONS.items()
                ],
            )
            for number, answer in enumerate(self.series.answers, start=1)
        ]
        return [Step(name="label", asked=asked, exposures=[user]), *waves]

    def exposures(self, label: str) -> list[Exposure]:
        """Return upper bounds of what a person reveals: in all, by the label, and by the list under each relation."""
        guarantee, lists = self.whole, self.series.total_loss
        waves = f"The answers of {self.series.wave} waves together"
        if self.series.wave == 1:
            waves = "The answer of one wave"
        if self.series.turns is not None:
            waves = f"The one answer of a person, in one of {self.series.turns} waves"
        everything, user = "The label and all waves so far", NeighbourRelation.USER_LEVEL
        total, both = f"{user.title} ({guarantee.user_level_pairs})", "level.both"
        told = ("level.lists", "level.contact", both if self.series.turns is None else f"{both}.turns")
        return [
            Exposure.of(everything, guarantee.total_user_level, total, "level.label.lists"),
            Exposure.of("The label alone", guarantee.label_user_level, str(user), "level.label"),
            *(
                Exposure.of(waves, lists.under(relation), words, key)
                for (relation, words), key in zip(RELATIONS.items(), told, strict=True)
            ),
            Exposure.of(
                everything,
                add_epsilons(guarantee.label_user_level, lists.one_entry),
                "two records with any two labels, whose lists differ in one entry",
                "level.label.contact",
            ),
        ]
