"""The campaign document: what a device must know to answer, and what a person must know to agree.

It is one JSON document of text and whole numbers, in two parts. Reports are bound to the first one, `Asked`. It has the
schema, the mechanisms with the integers that decide every report, the guarantee that these integers give, and the
graph. A nonce of 128 random bits, or the ids of the documents before it, make it unique. The id is the SHA-256 of its
canonical form. So a campaign with another epsilon is another campaign, and so is one that asks the same question a
second time. The second part is the `Notice`, which has a version and may change: purpose, contact, closing and
retention dates, and texts in several languages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from veilgraph.campaign.asked import Asked, CampaignLabel, FeatureMechanism
from veilgraph.campaign.budget import CampaignBudget
from veilgraph.campaign.neighbours import KINDS as NEIGHBOUR_KINDS
from veilgraph.campaign.notice import Notice, check_texts, time_in_words
from veilgraph.campaign.once import Once, new_nonce
from veilgraph.campaign.rounds import Rounds
from veilgraph.errors import BudgetError, CampaignError, SchemaError
from veilgraph.graph import Graph
from veilgraph.graph.links import told_about_links
from veilgraph.privacy.accounting import Guarantee
from veilgraph.privacy.plain_text import counted, quote, quoted_lines
from veilgraph.privacy.public_columns import check_not_asked, of_people
from veilgraph.privacy.schema import FeatureSchema
from veilgraph.privacy.strict_json import canonical_json, content_id, expect_object, parse_strict

ASKED: tuple[type[Asked], ...] = (*NEIGHBOUR_KINDS, Rounds, Once)
"""Every kind. Where several kinds have one format, the last is meant unless the key of another kind has a value."""

FORMATS = sorted({kind.format for kind in ASKED})
"""Formats of documents that are read."""


def find_asked(version: int, bound: object) -> type[Asked]:
    """Return the kind that the bound part of a document is of."""
    kinds = [kind for kind in ASKED if kind.format == version]
    stated: Mapping[str, Any] = bound if isinstance(bound, dict) else {}
    return next((kind for kind in kinds if stated.get(kind.key) is not None), kinds[-1])


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """What is asked, and the notice about it.

    Args:
        asked: what is asked of whom, by which mechanisms; the id is its hash.
        notice: what people are told; it may change.

    >>> campaign = Campaign.new(
    ...     schema=FeatureSchema.binary(8, classes=["no", "yes"]), graph=Graph.from_edges([[0], [1]], num_nodes=2),
    ...     budget=CampaignBudget(epsilon_x=0.5, sampled=2, epsilon_y=1.0), nonce="0" * 32,
    ...     notice=Notice(purpose="Learn who needs a vaccine", contact="privacy@example.org",
    ...                   closes=datetime.fromisoformat("2027-01-31T00:00:00Z")))
    >>> campaign.id[:8], round(campaign.guarantee.total_user_level, 9)
    ('9049ed91', 2.0)
    >>> Campaign.from_json(campaign.to_json()) == campaign
    True

    Moving the deadline keeps the id, so devices do not draw again, and tokens stay valid:

    >>> longer = campaign.revise(closes=datetime.fromisoformat("2027-03-31T00:00:00Z"))
    >>> longer.id == campaign.id, longer.notice.version
    (True, 2)

    Another guarantee is another campaign:

    >>> Campaign.from_json(campaign.to_json().replace('"sampled":2', '"sampled":3'))
    Traceback (most recent call last):
    veilgraph.errors.CampaignError: the content is not what the id says: the campaign was altered; get it again
    """

    asked: Asked
    notice: Notice

    def __post_init__(self) -> None:
        check_texts(self.notice.texts, self.schema, self.label_name)
        check_not_asked([self.label_name], self.notice.public)
        self.asked.check_round(self.notice.open_round)

    @classmethod
    def new(
        cls,
        *,
        schema: FeatureSchema,
        graph: Graph,
        notice: Notice,
        budget: CampaignBudget,
        label: str = "label",
        nonce: str | None = None,
    ) -> Campaign:
        """Make a campaign, which collects what its budget is for.

        Each call makes another campaign: the id depends on a nonce, which the operating system draws. Pass `nonce` to
        make the same campaign again, in a simulation or a test.

        Args:
            schema: names and domains; its note and its texts go to the notice.
            graph: the public graph.
            notice: what people are told; the first round of several is open.
            budget: what reports may reveal, and how often everything is asked.
            label: name of the label.
            nonce: 32 hexadecimal digits.
        """
        asked = budget.asked(
            schema=replace(schema, note="", texts={}, public=()),
            label_name=label,
            nodes=graph.num_nodes,
            graph_sha256=graph.fingerprint,
            nonce=nonce or new_nonce(),
        )
        public = (*schema.public, *told_about_links(graph.links))
        told = replace(notice, note=schema.note, texts=schema.texts, public=public)
        told = replace(told, open_round=asked.first_round)
        return cls(asked=asked, notice=told)

    @classmethod
    def from_json(cls, text: str | bytes) -> Campaign:
        """Read a campaign; refuse one that is altered, or states another guarantee than its integers give."""
        document = parse_strict(text)
        kind, bound, notice = _parts(document)
        try:
            campaign = cls(asked=kind.parse(bound), notice=Notice.parse(notice))
        except (BudgetError, SchemaError) as error:
            raise CampaignError(f"the campaign contradicts itself: {error}") from error
        if canonical_json(document) != campaign.to_json():
            raise CampaignError("a number or a date is not in its canonical form; write it with 'veilgraph init'")
        return campaign

    def revise(self, **changes: Any) -> Campaign:
        """Return the campaign with the next version of its notice, as `Notice.revise` makes it from these changes.

        Its id, and with it every report, stays.
        """
        return replace(self, notice=self.notice.revise(**changes))

    def to_json(self) -> str:
        """Return the canonical document."""
        return self._json

    @cached_property
    def _json(self) -> str:
        return canonical_json(self.document)

    @property
    def document(self) -> dict[str, Any]:
        """The document as JSON values."""
        bound = self.asked.bound
        return {"format": self.asked.format, "id": self.id, "bound": bound, "notice": self.notice.document}

    @cached_property
    def id(self) -> str:
        """SHA-256 of the canonical form of the part that reports are bound to, in hexadecimal digits."""
        return content_id(self.asked.bound)

    @property
    def series(self) -> str:
        """Id of the first document of the collection, under which a store keeps all its reports."""
        return next(iter(self.asked.documents.earlier), self.id)

    @cached_property
    def schema(self) -> FeatureSchema:
        """Names and domains of the features and the label, with note, texts and public columns of the notice."""
        notice = self.notice
        return replace(self.asked.schema, note=notice.note, texts=notice.texts, public=of_people(notice.public))

    @property
    def label_name(self) -> str:
        """Name of the label."""
        return self.asked.label_name

    @property
    def nodes(self) -> int:
        """Number of nodes of the graph."""
        return self.asked.nodes

    @property
    def graph_sha256(self) -> str:
        """Fingerprint of the graph."""
        return self.asked.graph_sha256

    @property
    def feature_mechanism(self) -> FeatureMechanism | None:
        """Mechanism that randomizes the features; None if this document asks for none."""
        return self.asked.feature_mechanism

    @property
    def label_mechanism(self) -> CampaignLabel | None:
        """Mechanism that randomizes the label; None if this document does not ask for it."""
        return self.asked.label_mechanism

    @property
    def number_now(self) -> int | None:
        """Number under which a store keeps the reports that are asked for now; None between two rounds."""
        return self.asked.number_now(self.notice.open_round)

    @property
    def guarantee(self) -> Guarantee:
        """Upper bound of what all reports of a person to this collection reveal, computed from the integers."""
        return self.asked.guarantee

    def is_open(self, now: datetime) -> bool:
        """Return whether reports are still accepted."""
        return now < self.notice.closes

    @property
    def public_in_words(self) -> list[str]:
        """The public columns in one sentence; nothing if there are none."""
        known = ", ".join(quote(column.name) for column in self.notice.public)
        return [f"Known without asking, and used beside the answers: {known}."] if known else []

    def in_words(self, *, width: int = 80) -> list[str]:
        """Return plain lines for participants, and for the person who approves the campaign.

        The guarantee comes first, in our own words. Texts of the campaign come last: they are quoted, and each of
        their lines begins with a bar.

        Args:
            width: columns of the terminal.
        """
        words, notice = self.asked.words, self.notice
        retention = []
        if notice.retention is not None:
            retention = [f"The organiser promises to delete reports after {time_in_words(notice.retention)}."]
        texts = [
            f"Purpose: {quote(notice.purpose)}",
            f"Contact: {quote(notice.contact)}",
            *([f"Note: {quote(notice.note)}"] if notice.note else []),
            *words.questions,
        ]
        return [
            *words.guarantee,
            "Not protected: who takes part and when, whether a part of a report is left out, and "
            f"{words.not_protected}. Reports to several campaigns add up.",
            *words.methods,
            *self.public_in_words,
            f"Open until {time_in_words(notice.closes)}.",
            *retention,
            f"Graph: {counted(self.nodes, 'node')}, SHA-256 {self.graph_sha256}.",
            f"Campaign {self.id}.",
            f"Notice {notice.version}, SHA-256 {notice.sha256}.",
            "The organiser's own words, which nobody checked:",
            *(line for text in texts for line in quoted_lines(text, width)),
        ]


def _parts(document: object) -> tuple[type[Asked], dict[str, Any], object]:
    """Return the kind of a document, its bound part and its notice; refuse one whose content is not its id's."""
    stated = document.get("format") if isinstance(document, dict) else None
    version = next((known for known in FORMATS if known == stated), FORMATS[0])
    if version != stated and isinstance(document, dict) and "format" in document:
        known = " or ".join(map(str, FORMATS))
        raise CampaignError(f"its format is not {known}: it needs another version of veilgraph")
    whole = expect_object(document, {"format", "id", "bound", "notice"}, "campaign")
    kind = find_asked(version, whole["bound"])
    bound = expect_object(whole["bound"], set(kind.bound_keys), "bound")
    if whole["id"] != content_id(bound):
        raise CampaignError("the content is not what the id says: the campaign was altered; get it again")
    return kind, bound, whole["notice"]
