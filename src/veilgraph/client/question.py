"""What a verified campaign asks, and the report that answers it.

**What is sent has one length.** Who watches the network sees how long a message is. So spaces follow a report, up to
the length of the longest one that its campaign allows, and the id counts as a multiple of 256 bytes: the length tells
nothing of what is answered, nor whether an answer is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from veilgraph.client.mechanisms import JointFeatures, LabelTable, SampledFeatures
from veilgraph.client.neighbours import WaveQuestion
from veilgraph.client.reading import canonical_json, longer_text, read_json
from veilgraph.client.refusals import CampaignError, RunError
from veilgraph.client.series import Series, SeriesFeatures, Waves

_ID_STEP = 256  # bytes of an id's text to whose next multiple its part of a report counts


class Notice(NamedTuple):
    """The part of a campaign that may change; reports are not bound to it, and each change raises its version."""

    version: int
    sha256: str
    """SHA-256 of its canonical form."""
    purpose: str
    contact: str
    closes: datetime
    retention: datetime | None
    """Time after which the organiser promises to delete the reports."""
    note: str
    wave: int | None
    texts: Mapping[str, Any]
    """Texts by language, for a program that shows the questions."""
    language: str | None
    """The language for people of all others; None without texts."""


class PublicGraph(NamedTuple):
    """What a campaign says about the public graph: a series keeps it in all its documents."""

    nodes: int
    sha256: str


class Question(NamedTuple):
    """A verified campaign: the questions, and the integer tables that protect the answers."""

    id: str
    graph: PublicGraph
    columns: tuple[dict[str, Any], ...]
    group: int
    label_name: str
    classes: tuple[str, ...]
    features: SampledFeatures | JointFeatures | SeriesFeatures | None
    label: LabelTable | Series | None
    notice: Notice
    epsilon: Decimal
    """Epsilon that the tables give: user level (any two records), features and label together.

    The record of a series is a history, and this is the epsilon of all waves for any two histories.
    """
    waves: Waves | None = None
    """The waves of a series; None for a campaign that asks once."""
    neighbours: WaveQuestion | None = None
    """The question about a neighbour list; None for a campaign that asks for features or a label."""

    @property
    def closes(self) -> datetime:
        """Time until which reports are accepted."""
        return self.notice.closes

    @property
    def longest_report(self) -> dict[str, Any]:
        """A report whose text is as long as that of any report of the campaign, about a node without a name."""
        report: dict[str, Any] = {"campaign": self.id, "node": ""}
        if self.neighbours is not None:
            return report | {"answer": self.neighbours.mechanism.longest}
        features = None if self.features is None else self.features.longest
        label = None if self.label is None else longer_text(self.label.longest, None)
        return report | {"features": features, "label": label} | ({"wave": self.waves.number} if self.waves else {})


class DrawnReport(dict[str, Any]):
    """A report as JSON values, and how long it is when it is sent, which is the same for all reports of a campaign."""

    def __init__(self, report: Mapping[str, Any], length: int) -> None:
        super().__init__(report)
        self.length = length

    @property
    def text(self) -> str:
        """What is sent: the canonical form, with spaces after it."""
        return canonical_json(self).ljust(self.length)

    @classmethod
    def read(cls, text: str | bytes) -> DrawnReport:
        """Read what `text` returned, with or without a line break after it. Its spaces say how long it is."""
        report = None
        with suppress(ValueError):
            report = read_json(text)
        if not isinstance(report, dict):
            raise RunError("it is no report: give the text of one that was drawn")
        return cls(report, len(text.rstrip(b"\r\n") if isinstance(text, bytes) else text.rstrip("\r\n")))


def to_send(question: Question, report: Mapping[str, Any]) -> DrawnReport:
    """Return a report of a campaign with the length that all of them have."""
    steps = -(-len(canonical_json(report["node"])[1:-1]) // _ID_STEP)
    return DrawnReport(report, len(canonical_json(question.longest_report)) + steps * _ID_STEP)


def wave_of(question: Question) -> WaveQuestion:
    """Return the question about neighbours; refuse a campaign that asks none."""
    if question.neighbours is None:
        raise CampaignError("the campaign does not ask about neighbours: answer it from a record")
    return question.neighbours


def other_people(wave: int) -> CampaignError:
    """Return the refusal of a wave whose people or graph differ from those of its series."""
    return CampaignError(
        f"wave {wave} is about other people, or another graph, than its series: these never change between waves; do "
        "not answer it, and tell the campaign's contact"
    )
