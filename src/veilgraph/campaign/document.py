"""The campaign document: what a device must know to answer, and what a person must know to agree.

It is one JSON document of text and whole numbers, in two parts. Reports are bound to the first one: the schema, the
mechanisms with the integers that decide every report, the guarantee that these integers give, the graph, and a nonce
of 128 random bits. The id is the SHA-256 of its canonical form. So a campaign with another epsilon is another campaign,
and so is one that asks the same question a second time. The second part is the notice, which has a version and may
change: purpose, contact, closing and retention dates, and texts in several languages.

A wave of answers about private neighbours is a document of its own, in format 4: `NeighbourSeries` says what it binds.
"""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Literal

from veilgraph.campaign.neighbour_series import Answer, NeighbourSeries
from veilgraph.campaign.notice import NOTICE_KEYS, check_texts, in_order, time_in_words
from veilgraph.campaign.people_file import people_of
from veilgraph.errors import BudgetError, CampaignError, SchemaError
from veilgraph.graph import Graph
from veilgraph.privacy.accounting import Guarantee, guarantee_of
from veilgraph.privacy.epsilon import HistoryRelation, ListRelation, describe_epsilon, state_epsilon
from veilgraph.privacy.mechanisms import (
    GRR,
    GRRFS,
    JointGRR,
    LongitudinalFeatures,
    WaveEvidence,
)
from veilgraph.privacy.mechanisms.longitudinal_grr import MAX_WAVES
from veilgraph.privacy.mechanisms.registry import FEATURE_FORMS, LABEL_FORMS, LabelOnce, best_label_mechanism
from veilgraph.privacy.mechanisms.wire import chance_text, find_form
from veilgraph.privacy.plain_text import counted, look, quote, quoted_lines
from veilgraph.privacy.schema import Column, FeatureSchema
from veilgraph.privacy.strict_json import (
    TIME_FORMAT,
    canonical_json,
    content_id,
    expect_list,
    expect_number,
    expect_object,
    expect_text,
    expect_time,
    expect_whole,
    number_text,
    parse_strict,
)

FORMAT = 3
"""Format of all documents but those of waves about private neighbours."""
WAVE_FORMAT = 4
"""Format of the documents of waves about private neighbours."""

_FeatureMechanism = GRRFS | JointGRR | LongitudinalFeatures
_LabelMechanism = LabelOnce | WaveEvidence

# Limits within which a phone's browser checks the attribute-level guarantee in seconds.
_MAX_FEATURES = 2**14
_MAX_STEPS = 1_000_000
_MAX_SIZES_OF_SERIES = 16
# Relative above 1, as in both clients. Documents of earlier versions state totals that are rounded to nearest.
_TOLERANCE = 1e-9

_SHA256 = re.compile(r"[0-9a-f]{64}")
_NONCE_BYTES = 16
_NONCE = re.compile(rf"[0-9a-f]{{{2 * _NONCE_BYTES}}}")


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """Schema, mechanisms and guarantee of a collection, and the notice about it.

    Args:
        schema: names and domains of the features and the label; its note and its texts are part of the notice.
        feature_mechanism: mechanism that randomizes the features; None if no features are collected.
        label_mechanism: mechanism that randomizes the label; None if no label is collected.
        label: name of the label.
        purpose: purpose of the collection, in words for participants.
        contact: person or office that participants can ask.
        closes: time until which reports are accepted, to the second.
        nodes: number of nodes of the public graph.
        graph: fingerprint of the public graph.
        nonce: 128 random bits in hexadecimal digits, which make the id unique; None in waves about private neighbours,
            which name the documents before them.
        format: format of the document.
        stated: epsilons of a document that rounds them otherwise than this version; default: as this version does.
        notice_version: version of the notice; every change raises it by one.
        retention: time after which the organiser deletes the reports; None if there is none.
        wave: number of the wave that is open; None without waves.
        neighbours: the series about private neighbours whose wave this is; None for all other campaigns. Then no
            features and no label are collected.

    >>> campaign = Campaign.new(
    ...     schema=FeatureSchema.binary(8, classes=["no", "yes"]), epsilon_x=0.5, sampled=2, epsilon_y=1.0,
    ...     graph=Graph.from_edges([[0], [1]], num_nodes=2), purpose="Learn who needs a vaccine",
    ...     contact="privacy@example.org", closes=datetime(2027, 1, 31, tzinfo=UTC), nonce="0" * 32)
    >>> campaign.id[:8], round(campaign.guarantee.total_user_level, 9)
    ('f44e616f', 2.0)
    >>> Campaign.from_json(campaign.to_json()) == campaign
    True

    Moving the deadline keeps the id, so devices do not draw again, and tokens stay valid:

    >>> longer = campaign.revise(closes=datetime(2027, 3, 31, tzinfo=UTC))
    >>> longer.id == campaign.id, longer.notice_version
    (True, 2)

    Another guarantee is another campaign:

    >>> Campaign.from_json(campaign.to_json().replace('"sampled":2', '"sampled":3'))
    Traceback (most recent call last):
    veilgraph.errors.CampaignError: the content is not what the id says: the campaign was altered; get it again
    """

    schema: FeatureSchema
    feature_mechanism: _FeatureMechanism | None
    label_mechanism: _LabelMechanism | None
    label: str
    purpose: str
    contact: str
    closes: datetime
    nodes: int
    graph: str
    nonce: str | None = None
    format: int = FORMAT
    stated: StatedGuarantee | None = None
    notice_version: int = 1
    retention: datetime | None = None
    wave: int | None = None
    neighbours: NeighbourSeries | None = None

    def __post_init__(self) -> None:
        self._check_neighbours()
        if self.feature_mechanism is None and self.label_mechanism is None and self.neighbours is None:
            raise CampaignError(
                "the campaign collects nothing: give a budget for the features, for the label, or for both"
            )
        for name in ("purpose", "contact", "label"):
            expect_text(getattr(self, name), name)
        if look(self.label) in {look(column.name) for column in self.schema.columns}:
            raise CampaignError(f"'{self.label}' is both a column and the label: give the label another name")
        object.__setattr__(self, "closes", _checked_time(self.closes, "closes"))
        self._check_notice()
        expect_whole(self.nodes, "graph.nodes", 1, 2**53 - 1)
        if not _SHA256.fullmatch(self.graph):
            raise CampaignError("graph.sha256 is not a SHA-256 in hexadecimal digits")
        _check_nonce(self.nonce, self.format)
        self._check_mechanisms()
        if self.stated is not None:
            self.stated.check(self.guarantee)

    def _check_neighbours(self) -> None:
        if (self.neighbours is None) != (self.format != WAVE_FORMAT):
            raise CampaignError(f"a wave about private neighbours has format {WAVE_FORMAT}, and nothing else has")
        if self.neighbours is None:
            return
        if self.feature_mechanism is not None or self.label_mechanism is not None or self.schema.columns:
            raise CampaignError("a wave about private neighbours asks for no features and no label")
        if self.neighbours.label.domain_size != self.schema.num_classes:
            raise CampaignError(
                f"the series asks for one of {self.neighbours.label.domain_size} classes, "
                f"the schema has {self.schema.num_classes}"
            )
        for answer in self.neighbours.answers:
            answer.check_asked(classes=self.schema.num_classes, people=self.nodes)

    def _check_notice(self) -> None:
        expect_whole(self.notice_version, "notice.version", 1, 2**53 - 1)
        check_texts(self.schema.texts, self.schema, self.label)
        if self.retention is not None:
            object.__setattr__(self, "retention", _checked_time(self.retention, "retention"))
            if self.retention < self.closes:
                raise CampaignError(
                    f"retention ends at {time_in_words(self.retention)}, before the campaign closes at "
                    f"{time_in_words(self.closes)}: close it earlier, or keep reports until then"
                )
        if self.wave is not None:
            if self.waves is None:
                raise CampaignError("wave: the campaign has no waves; leave it out")
            expect_whole(self.wave, "wave", 1, self.waves.waves)

    def _check_mechanisms(self) -> None:
        features, label = self.feature_mechanism, self.label_mechanism
        if features is not None:
            if features.domain_sizes != self.schema.domain_sizes:
                raise CampaignError("the feature mechanism has other domain sizes than the schema")
            check_device_limits(features)
            _check_finite(self.guarantee.features_user_level, "epsilon_x")
        if label is not None:
            _check_finite(label.epsilon, "epsilon_y")
            if label.domain_size != self.schema.num_classes:
                raise CampaignError(
                    f"the label mechanism is for {label.domain_size} classes, the schema has {self.schema.num_classes}"
                )

    @classmethod
    def new(
        cls,
        *,
        schema: FeatureSchema,
        graph: Graph,
        purpose: str,
        contact: str,
        closes: datetime,
        epsilon_x: float | None = None,
        sampled: int | None = None,
        epsilon_y: float | None = None,
        label: str = "label",
        retention: datetime | None = None,
        waves: int | None = None,
        values: int = 2,
        wave_epsilon: float | None = None,
        wave_epsilon_x: float | None = None,
        private_neighbours: Literal["waves", "lists"] | None = None,
        nonce: str | None = None,
    ) -> Campaign:
        """Make a campaign; without `epsilon_x` it collects no features, without `epsilon_y` no label.

        Features are randomized by GRR-FS, the label by the mechanism whose reports carry most information. A number of
        sampled features above that of the schema means all of them.

        With `waves` it is a series: everything is asked in each wave and randomized by L-GRR. Then `epsilon_y` and
        `epsilon_x` are those of permanent answers, `wave_epsilon` and `wave_epsilon_x` those of a wave's reports, by
        default half of them. A device answers `values` different values of a person for each question. The first wave
        is open.

        With `private_neighbours` it is the first document of a series: it asks for the label alone, once. The graph has
        the people and no edge. Before "waves" of histograms or classes the label is randomized by GRR, of which they
        learn most, and before randomized "lists" as in any other campaign.

        Each call makes another campaign: the id depends on a nonce, which the operating system draws. Pass `nonce` to
        make the same campaign again, in a simulation or a test.
        """
        if private_neighbours and (epsilon_x is not None or sampled is not None):
            raise CampaignError(
                "a series about private neighbours asks for no features: its waves state the guarantee of label and "
                "lists alone; leave epsilon_x and sampled out"
            )
        if private_neighbours and (graph.num_edges or epsilon_y is None or waves is not None):
            raise CampaignError(
                "a series about private neighbours begins with the label alone, asked once of people without edges: "
                "give epsilon_y, and a node table as the graph"
            )
        if (epsilon_x is None) != (sampled is None):
            raise CampaignError("epsilon_x and sampled belong together: give both, or neither to collect no features")
        if waves is None and (wave_epsilon is not None or wave_epsilon_x is not None):
            raise CampaignError("a budget of each wave needs a number of waves: give waves")
        features: _FeatureMechanism | None = None
        if epsilon_x is not None and sampled is not None:
            if not schema.num_features:
                raise CampaignError("the schema has no columns: leave epsilon_x and sampled out, or declare columns")
            asked, most = min(sampled, schema.num_features), float(epsilon_x)
            features = (
                GRRFS(schema.domain_sizes, asked, most)
                if waves is None
                else LongitudinalFeatures(
                    schema.domain_sizes, asked, most, _of_each_wave(wave_epsilon_x, most), waves, values
                )
            )
        response: _LabelMechanism | None = None
        if epsilon_y is not None:
            response = (
                GRR(schema.num_classes, float(epsilon_y))
                if private_neighbours == "waves"
                else best_label_mechanism(schema.num_classes, float(epsilon_y))
                if waves is None
                else WaveEvidence(
                    schema.num_classes, float(epsilon_y), _of_each_wave(wave_epsilon, epsilon_y), waves, values
                )
            )
        return cls(
            schema=schema,
            feature_mechanism=features,
            label_mechanism=response,
            wave=None if waves is None else 1,
            label=label,
            purpose=purpose,
            contact=contact,
            closes=closes,
            nodes=graph.num_nodes,
            graph=graph.fingerprint,
            nonce=nonce or new_nonce(),
            retention=retention,
        )

    def next_wave(
        self,
        answer: Answer,
        *,
        graph: Graph,
        table: str | None,
        closes: datetime,
        turns: int | None = None,
        purpose: str | None = None,
        contact: str | None = None,
        retention: datetime | None = None,
    ) -> Campaign:
        """Return the document of the next wave of answers about private neighbours.

        Purpose, contact, retention date and texts stay as they are unless they are given.

        Args:
            answer: mechanism of the wave.
            graph: the people, without edges, that the series was made for.
            table: SHA-256 of the belief table that is published for the wave; None for randomized lists.
            closes: time until which answers are accepted.
            turns: number of waves of which each person answers one, said with the first wave; None: all answer all.
            purpose: purpose of the collection.
            contact: contact for participants.
            retention: time after which the organiser deletes all reports of the series; it may only be earlier.
        """
        series = self.neighbours
        label = self.label_mechanism if series is None else series.label
        if not isinstance(label, LabelOnce) or self.schema.columns:
            raise CampaignError("a series about private neighbours begins with a campaign for the label alone, once")
        if graph.fingerprint != self.graph or graph.num_edges:
            raise CampaignError("the people are not those of the series: give its node table, and no edges")
        if self.retention is not None and retention is not None and retention > self.retention:
            raise CampaignError(
                f"retention is {time_in_words(retention)}, later than {time_in_words(self.retention)}, "
                "which participants agreed to: give an earlier time"
            )
        if series is not None and turns not in (None, series.turns):
            raise CampaignError("whether people answer in turns is said with the first wave: leave --turns out")
        before = ((), ()) if series is None else (series.documents, series.answers)
        return Campaign(
            schema=self.schema,
            feature_mechanism=None,
            label_mechanism=None,
            label=self.label,
            purpose=purpose or self.purpose,
            contact=contact or self.contact,
            closes=closes,
            nodes=self.nodes,
            graph=self.graph,
            format=WAVE_FORMAT,
            retention=retention or self.retention,
            neighbours=NeighbourSeries(
                documents=(*before[0], self.id),
                label=label,
                answers=(*before[1], answer),
                turns=turns if series is None else series.turns,
                people=people_of(graph).sha256,
                table=table,
            ),
        )

    @property
    def has_edges(self) -> bool:
        """Whether the server learns on a graph: a public one, or that of people who name each other."""
        return self.neighbours is None or self.neighbours.asks_for_lists

    @property
    def neighbour_series(self) -> NeighbourSeries:
        """The series whose wave this is; any other campaign is refused."""
        if self.neighbours is None:
            raise CampaignError("the campaign is no wave about private neighbours")
        return self.neighbours

    @classmethod
    def from_json(cls, text: str | bytes) -> Campaign:
        """Read a campaign; refuse one that is altered, or states another guarantee than its integers give."""
        document = parse_strict(text)
        stated, notice, version = _parts(document)
        try:
            schema = _schema(stated["schema"], notice)
            campaign = cls(
                **_mechanisms(stated, schema),
                schema=schema,
                label=expect_object(stated["schema"]["label"], {"name", "classes"}, "schema.label")["name"],
                purpose=notice["purpose"],
                contact=notice["contact"],
                closes=expect_time(notice["closes"], "closes"),
                nodes=expect_object(stated["graph"], {"nodes", "sha256"}, "graph")["nodes"],
                graph=expect_text(stated["graph"]["sha256"], "graph.sha256"),
                nonce=stated.get("nonce"),
                format=version,
                notice_version=notice["version"],
                retention=None if notice["retention"] is None else expect_time(notice["retention"], "retention"),
                wave=notice["wave"],
                neighbours=_series(stated["neighbours"], schema) if version == WAVE_FORMAT else None,
            )
        except (BudgetError, SchemaError) as error:
            raise CampaignError(f"the campaign contradicts itself: {error}") from error
        if campaign.neighbours is not None:
            _check_series(stated, campaign.bound, campaign.neighbours)
        else:
            campaign = campaign._checked_against(stated)
        if canonical_json(document) != campaign.to_json():
            raise CampaignError("a number or a date is not written in its canonical form; write it with 'campaign new'")
        return campaign

    def _checked_against(self, stated: dict[str, Any]) -> Campaign:
        """Return the campaign with the epsilons that its document states; refuse other integers, or a false promise."""
        if self.waves is not None:
            _check_waves(stated["waves"], self.bound["waves"])
        guarantee = StatedGuarantee.parse(stated["guarantee"])
        return self if guarantee == StatedGuarantee.of(self.guarantee) else replace(self, stated=guarantee)

    def revise(
        self,
        *,
        purpose: str | None = None,
        contact: str | None = None,
        closes: datetime | None = None,
        retention: datetime | None = None,
        note: str | None = None,
        texts: Mapping[str, Any] | None = None,
        wave: int | None = None,
    ) -> Campaign:
        """Return the campaign with the next version of its notice. Its id, and with it every report, stays.

        What is not given stays as it is. The retention date may only move to an earlier time: people took part because
        reports are deleted after it.

        Args:
            purpose: purpose of the collection.
            contact: contact for participants.
            closes: time until which reports are accepted.
            retention: time after which the organiser deletes the reports.
            note: origin of the schema.
            texts: texts by language; those of other languages stay.
            wave: number of the wave that is open.
        """
        if wave is not None and self.wave is not None and wave < self.wave:
            raise CampaignError(f"wave is {wave}, but wave {self.wave} is open: devices answer no earlier one")
        if retention is not None and self.retention is not None and retention > self.retention:
            raise CampaignError(
                f"retention is {time_in_words(retention)}, later than {time_in_words(self.retention)}, "
                "which participants agreed to: give an earlier time"
            )
        given: dict[str, Any] = {
            "purpose": purpose,
            "contact": contact,
            "closes": closes,
            "retention": retention,
            "wave": wave,
            "schema": replace(
                self.schema,
                note=self.schema.note if note is None else note,
                texts={**self.schema.texts, **(texts or {})},
            ),
        }
        revised = replace(self, **{name: value for name, value in given.items() if value is not None})
        if revised == self:
            raise CampaignError("nothing changes: the notice stays at its version")
        return replace(revised, notice_version=self.notice_version + 1)

    def to_json(self) -> str:
        """Return the canonical document."""
        return self._json

    @cached_property
    def _json(self) -> str:
        return canonical_json(self.document)

    @property
    def document(self) -> dict[str, Any]:
        """The document as JSON values."""
        return {"format": self.format, "id": self.id, "bound": self.bound, "notice": self.notice}

    @cached_property
    def id(self) -> str:
        """SHA-256 of the canonical form of the part that reports are bound to, in hexadecimal digits."""
        return content_id(self.bound)

    @property
    def notice_sha256(self) -> str:
        """SHA-256 of the canonical form of the notice."""
        return content_id(self.notice)

    @property
    def waves(self) -> WaveEvidence | LongitudinalFeatures | None:
        """Mechanism of a series of waves, of its label if it has one; None for a campaign that asks once."""
        parts = (self.label_mechanism, self.feature_mechanism)
        return next((part for part in parts if isinstance(part, WaveEvidence | LongitudinalFeatures)), None)

    @property
    def series(self) -> str:
        """Id of the first document of a series about private neighbours; of other campaigns, their own id."""
        return self.id if self.neighbours is None else self.neighbours.first

    @property
    def stored_wave(self) -> int | None:
        """Number under which a store keeps the reports: that of a wave about neighbours, otherwise 0.

        None for a campaign with waves of its own, whose reports have several.
        """
        if self.waves is not None:
            return None
        return 0 if self.neighbours is None else self.neighbours.wave

    @property
    def asked_wave(self) -> int | None:
        """Number under which a store keeps the reports that are asked for now; None between two waves of a series."""
        return self.stored_wave if self.waves is None else self.wave

    @cached_property
    def guarantee(self) -> Guarantee:
        """Upper bound of what a whole report reveals, computed from the integers.

        Of a wave about private neighbours, it is what the label and all waves so far reveal together.
        """
        if self.neighbours is not None:
            return self.neighbours.guarantee
        return guarantee_of(self.feature_mechanism, self.label_mechanism)

    def in_words(self, *, width: int = 80) -> list[str]:
        """Return plain lines for participants, and for the person who approves the campaign.

        The guarantee comes first, in our own words. Texts of the campaign come last: they are quoted, and each of
        their lines begins with a bar.

        Args:
            width: columns of the terminal.
        """
        return [
            *self.guarantee_in_words,
            "Not protected: who takes part and when, whether a part of a report is left out, and "
            f"{'the graph, as far as it is public' if self.neighbours is None else 'the list of people'}. "
            "Reports to several campaigns add up.",
            *self.method_in_words,
            f"Open until {time_in_words(self.closes)}.",
            *(
                []
                if self.retention is None
                else [f"The organiser promises to delete reports after {time_in_words(self.retention)}."]
            ),
            f"Graph: {counted(self.nodes, 'node')}, SHA-256 {self.graph}.",
            f"Campaign {self.id}.",
            f"Notice {self.notice_version}, SHA-256 {self.notice_sha256}.",
            "The organiser's own words, which nobody checked:",
            *(line for text in self._texts() for line in quoted_lines(text, width)),
        ]

    @property
    def guarantee_in_words(self) -> list[str]:
        """Sentences about the guarantee; of a wave about neighbours, about it alone and with all before it."""
        whole = self.guarantee.in_words(theorem_1=False)
        if self.neighbours is None:
            return whole
        before = f"The label and {counted(self.neighbours.wave, 'wave')} so far, together:"
        if self.neighbours.turns is not None:
            before = "The label and the one wave that a person answers, together:"
        alone = self.neighbours.wave_guarantee.in_words(theorem_1=False)[:-1]  # the last sentence is said once
        return [f"Wave {self.neighbours.wave} alone:", *alone, before, *whole]

    @property
    def method_in_words(self) -> list[str]:
        """Sentences that say what is asked, and how a device randomizes it."""
        return list(self._methods())

    def _methods(self) -> Iterator[str]:
        if self.neighbours is not None:
            yield (
                f"Asked in wave {self.neighbours.wave} of series {self.neighbours.first}: the neighbours of a person."
            )
            if self.neighbours.turns is not None:
                yield f"Each person answers one of {self.neighbours.turns} waves, which a hash of the id decides."
            yield self.neighbours.answer.method_in_words("a person's neighbours")
        features = self.feature_mechanism
        if features is not None:
            yield features.method_in_words(counted(features.num_features, "feature"))
            yield (
                "Each feature may be left out: a random answer takes its place on the device before that, and nobody "
                "can tell."
            )
        if (label := self.label_mechanism) is not None:
            yield label.method_in_words("the label")
            if features is not None:
                yield "The label may be left out, too, which is visible."

    def _texts(self) -> Iterator[str]:
        yield f"Purpose: {quote(self.purpose)}"
        yield f"Contact: {quote(self.contact)}"
        if self.schema.note:
            yield f"Note: {quote(self.schema.note)}"
        if self.feature_mechanism is not None:
            sizes = self.feature_mechanism.domain_sizes
            chances = {
                size: chance_text(self.feature_mechanism.picked_channel(sizes.index(size))) for size in set(sizes)
            }
            for name, codes in zip(self.schema.feature_names, self.schema.code_names, strict=True):
                yield f"If picked, true with {chances[len(codes)]}: {_question_text(name, codes)}"
        if self.label_mechanism is not None:
            yield f"Label: {_question_text(self.label, self.schema.classes)}"

    @property
    def report_parts(self) -> dict[str, dict[str, Any]]:
        """JSON schema of each part of a report, besides campaign and node; a part that is not collected is null."""
        if self.neighbours is not None:
            return {"answer": self.neighbours.answer.report_schema}
        parts = {"features": self.feature_mechanism, "label": self.label_mechanism}
        schemas = {
            part: {"type": "null"} if each is None else {"anyOf": [each.report_schema, {"type": "null"}]}
            for part, each in parts.items()
        }
        wave = {} if self.waves is None else {"wave": {"type": "integer", "minimum": 1, "maximum": self.waves.waves}}
        return schemas | wave

    def is_open(self, now: datetime) -> bool:
        """Return whether reports are still accepted."""
        return now < self.closes

    @cached_property
    def bound(self) -> dict[str, Any]:
        """Part that reports are bound to, as JSON values."""
        parts: dict[str, Any] = {
            "format": self.format,
            "schema": {
                "columns": [_column_document(column) for column in self.schema.columns],
                "group": self.schema.group,
                "label": {"name": self.label, "classes": list(self.schema.classes)},
            },
            "features": None if self.feature_mechanism is None else self.feature_mechanism.document,
            "label": None if self.label_mechanism is None else self.label_mechanism.document,
            "guarantee": (self.stated or StatedGuarantee.of(self.guarantee)).document,
            "graph": {"nodes": self.nodes, "sha256": self.graph},
        }
        if self.neighbours is not None:
            stated = {**self.neighbours.document, "label": self.neighbours.label.document}
            kept = {key: parts[key] for key in ("format", "schema", "graph")}
            return {**kept, "neighbours": stated, "guarantee": self.neighbours.guarantee_document}
        return {**parts, "nonce": self.nonce, "waves": self._waves_document()}

    def _waves_document(self) -> dict[str, Any] | None:
        features, label = self.feature_mechanism, self.label_mechanism
        terms = self.guarantee.series
        if terms is None:
            return None
        document: dict[str, Any] = {
            "count": terms.waves,
            "values": terms.values,
            "epsilon": None,
            "table": None,
            "guarantee": {relation.key: _text(terms.total.under(relation)) for relation in HistoryRelation},
        }
        if isinstance(label, WaveEvidence):
            document |= label.wave_document
        if isinstance(features, LongitudinalFeatures):  # documents about the label alone do not have the key
            document["features"] = features.wave_document
        return document

    @property
    def notice(self) -> dict[str, Any]:
        """Part that may change, as JSON values."""
        return {
            "version": self.notice_version,
            "purpose": self.purpose,
            "contact": self.contact,
            "closes": self.closes.strftime(TIME_FORMAT),
            "retention": None if self.retention is None else self.retention.strftime(TIME_FORMAT),
            "note": self.schema.note,
            "wave": self.wave,
            "texts": dict(self.schema.texts),
            "language": next(iter(self.schema.texts), None),
        }


_BOUND = {
    FORMAT: {"format", "schema", "features", "label", "guarantee", "graph", "nonce", "waves"},
    WAVE_FORMAT: {"format", "schema", "guarantee", "graph", "neighbours"},
}


def _parts(document: object) -> tuple[dict[str, Any], dict[str, Any], int]:
    """Return the bound part, the notice and the format of a document; refuse one whose content is not its id's."""
    stated = document.get("format") if isinstance(document, dict) else None
    version = next((known for known in _BOUND if known == stated), FORMAT)
    if version != stated and isinstance(document, dict) and "format" in document:
        raise CampaignError(f"its format is not {FORMAT} or {WAVE_FORMAT}: it needs another version of veilgraph")
    whole = expect_object(document, {"format", "id", "bound", "notice"}, "campaign")
    bound = expect_object(whole["bound"], _BOUND[version], "bound")
    notice = expect_object(whole["notice"], NOTICE_KEYS, "notice")
    _check_id(whole["id"], bound)
    return bound, notice, version


def _check_id(stated: object, bound: dict[str, Any]) -> None:
    if stated != content_id(bound):
        raise CampaignError("the content is not what the id says: the campaign was altered; get it again")


def new_nonce() -> str:
    """Return 128 random bits of the operating system, in hexadecimal digits."""
    return secrets.token_hex(_NONCE_BYTES)


def _check_nonce(nonce: object, version: int) -> None:
    if version == WAVE_FORMAT and nonce is not None:
        raise CampaignError("a wave about private neighbours has no nonce: leave it out")
    if version == FORMAT and not (isinstance(nonce, str) and _NONCE.fullmatch(nonce)):
        raise CampaignError(f"nonce must be {2 * _NONCE_BYTES} hexadecimal digits: leave it out, and it is drawn")


def _checked_time(moment: datetime, name: str) -> datetime:
    if moment.tzinfo is None or moment.microsecond or moment.year < 1000:
        raise CampaignError(f"{name} is {moment}: give a date with its time zone, to the second")
    return moment.astimezone(UTC)


def _column_document(column: Column) -> dict[str, Any]:
    if column.edges:
        edges = {"name": column.name, "edges": [number_text(edge) for edge in column.edges]}
        return edges | ({"whole": True} if column.whole else {})
    return {"name": column.name, "values": list(column.values)}


def _question_text(name: str, answers: Sequence[str]) -> str:
    return f"{quote(name)}: {', '.join(map(quote, answers))}"


def _series(stated: object, schema: FeatureSchema) -> NeighbourSeries:
    label = stated.get("label") if isinstance(stated, dict) else None
    form = find_form(label, LABEL_FORMS, "neighbours.label")
    return NeighbourSeries.parse(stated, form.read(label, "neighbours.label", schema.num_classes))


def _check_series(stated: dict[str, Any], derived: dict[str, Any], series: NeighbourSeries) -> None:
    """Refuse a wave whose epsilons are not those that follow from its integers."""
    if stated["guarantee"] != derived["guarantee"]:
        total = describe_epsilon(ListRelation.ONE_ENTRY, series.answer.list_loss.one_entry)
        raise CampaignError(
            f"the stated guarantee is not what the integers give. {total} in this wave; do not answer it"
        )


def _mechanisms(stated: dict[str, Any], schema: FeatureSchema) -> dict[str, Any]:
    if "neighbours" in stated:
        return {"feature_mechanism": None, "label_mechanism": None}
    features, label = stated["features"], stated["label"]
    sizes, classes = schema.domain_sizes, schema.num_classes
    waves = _waves(stated["waves"], features)
    if waves is not None:
        return {
            "feature_mechanism": None if features is None else LongitudinalFeatures.read_series(features, sizes, waves),
            "label_mechanism": None if label is None else WaveEvidence.read_series(label, classes, waves),
        }
    return {
        "feature_mechanism": None
        if features is None
        else find_form(features, FEATURE_FORMS, "features").read(features, "features", sizes),
        "label_mechanism": None
        if label is None
        else find_form(label, LABEL_FORMS, "label").read(label, "label", classes),
    }


def _waves(stated: object, features: object) -> dict[str, Any] | None:
    """Return the waves of a document, checked; None if it asks once."""
    if stated is None:
        return None
    asked = set() if features is None else {"features"}
    parts = expect_object(stated, {"count", "values", "epsilon", "table", "guarantee"} | asked, "waves")
    expect_whole(parts["count"], "waves.count", 1, MAX_WAVES)
    expect_whole(parts["values"], "waves.values", 1, 2**53 - 1)
    if asked:
        expect_object(parts["features"], {"epsilon", "tables"}, "waves.features")
    return parts


def _schema(stated: object, notice: Mapping[str, Any]) -> FeatureSchema:
    parts = expect_object(stated, {"columns", "group", "label"}, "schema")
    label = expect_object(parts["label"], {"name", "classes"}, "schema.label")
    return FeatureSchema(
        columns=tuple(_column(entry) for entry in expect_list(parts["columns"], "schema.columns", min_length=0)),
        classes=tuple(expect_text(name, "a class") for name in expect_list(label["classes"], "schema.label.classes")),
        group=expect_whole(parts["group"], "schema.group", 1, 2**53 - 1),
        note=expect_text(notice["note"], "note", min_length=0),
        texts=in_order(notice["texts"], notice["language"]),
    )


def _column(entry: object) -> Column:
    kind = "edges" if isinstance(entry, dict) and "edges" in entry else "values"
    whole = kind == "edges" and isinstance(entry, dict) and entry.get("whole") is True
    parts = expect_object(entry, {"name", kind} | ({"whole"} if whole else set()), "a column")
    name = expect_text(parts["name"], "a column's name")
    items = expect_list(parts[kind], f"column '{name}'")
    if kind == "edges":
        edges = tuple(expect_number(edge, f"an edge of '{name}'") for edge in items)
        return Column(name=name, edges=edges, whole=whole)
    return Column(name=name, values=tuple(expect_text(value, f"a value of '{name}'", min_length=0) for value in items))


def _check_waves(stated: dict[str, Any], derived: dict[str, Any]) -> None:
    """Refuse waves whose integers or epsilons are not those that follow from the schema and the budget."""
    if stated["table"] != derived["table"] or stated.get("features") != derived.get("features"):
        raise CampaignError("the tables of the waves do not hold the integers that their epsilons give")
    if stated["guarantee"] != derived["guarantee"]:
        raise CampaignError("waves.guarantee is not what the tables give; do not answer it")


def _of_each_wave(epsilon: float | None, permanent: float) -> float:
    """Return the epsilon of a wave's report; by default half of that of the permanent answer."""
    return float(permanent / 2 if epsilon is None else epsilon)


def check_device_limits(features: GRRFS | JointGRR | LongitudinalFeatures) -> None:
    """Raise CampaignError if a phone would take too long to check the guarantee of a feature mechanism."""
    if isinstance(features, LongitudinalFeatures) and len(features.series) > _MAX_SIZES_OF_SERIES:
        raise CampaignError(
            f"the features of a series have {len(features.series)} different numbers of values, and a device checks "
            f"at most {_MAX_SIZES_OF_SERIES}: give columns the same number of values or bins"
        )
    steps = features.sampled * (features.num_features - features.sampled)
    if features.num_features > _MAX_FEATURES or steps > _MAX_STEPS:
        raise CampaignError(
            f"{features.sampled} of {features.num_features} features cannot be checked on a device: "
            f"have at most {_MAX_FEATURES} features and sampled * (features - sampled) <= {_MAX_STEPS}; "
            "merge columns with 'group' or sample fewer"
        )


def _check_finite(epsilon: float, name: str) -> None:
    if not math.isfinite(epsilon):
        raise CampaignError(f"{name} is not finite: people's reports are never collected without privacy")


@dataclass(frozen=True, kw_only=True)
class StatedGuarantee:
    """Epsilons that a document states, each written as the shortest text of a double.

    Attributes:
        features: epsilon of the features, user level (any two records).
        label: epsilon of the label, user level (any two records).
        total: epsilon of the whole report, user level (any two records).
        attribute_level: epsilon of each feature, for two records that differ in this feature only.
    """

    features: str
    label: str
    total: str
    attribute_level: tuple[str, ...]

    @classmethod
    def of(cls, guarantee: Guarantee) -> StatedGuarantee:
        """Write the epsilons of a guarantee; no text is below its epsilon."""
        levels = guarantee.features.attribute_level if guarantee.features else ()
        return cls(
            features=_text(guarantee.features_user_level),
            label=_text(guarantee.label_user_level),
            total=_text(guarantee.total_user_level),
            attribute_level=tuple(map(_text, levels)),
        )

    @classmethod
    def parse(cls, stated: object) -> StatedGuarantee:
        """Read what a document states."""
        parts = expect_object(stated, {"user_level", "attribute_level"}, "guarantee")
        users = expect_object(parts["user_level"], {"features", "label", "total"}, "guarantee.user_level")
        levels = parts["attribute_level"]
        if not isinstance(levels, list):
            raise CampaignError("guarantee.attribute_level must be a list")
        texts = {key: _epsilon_text(text) for key, text in users.items()}
        return cls(**texts, attribute_level=tuple(map(_epsilon_text, levels)))

    def check(self, guarantee: Guarantee) -> None:
        """Refuse epsilons that differ from `guarantee` by more than a billionth."""
        derived = StatedGuarantee.of(guarantee)
        stated = [self.features, self.label, self.total, *self.attribute_level]
        exact = [derived.features, derived.label, derived.total, *derived.attribute_level]
        if len(stated) != len(exact) or not all(map(_agree, map(float, stated), map(float, exact))):
            raise CampaignError(
                "the stated guarantee is not what the tables give: "
                f"user level (any two records) {derived.total} in total; do not answer it"
            )

    @property
    def document(self) -> dict[str, Any]:
        """The epsilons as JSON values."""
        return {
            "user_level": {"features": self.features, "label": self.label, "total": self.total},
            "attribute_level": list(self.attribute_level),
        }


def _text(epsilon: float) -> str:
    return number_text(state_epsilon(epsilon))


def _epsilon_text(value: object) -> str:
    number = expect_number(value, "an epsilon of the guarantee")
    if number_text(number) != value:
        raise CampaignError(f"an epsilon of the guarantee is not written in its canonical form, {number_text(number)}")
    return number_text(number)


def _agree(stated: float, exact: float) -> bool:
    return abs(stated - exact) <= _TOLERANCE * max(1.0, exact)
