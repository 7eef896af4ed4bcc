"""What a verified campaign asks, and the report that answers it.

**What is sent has one length.** Who watches the network sees how long a message is. So spaces follow a report, up to
the length of the longest one that its campaign allows, and the id counts as a multiple of 256 bytes: the length tells
nothing of what is answered, nor whether an answer is left out.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Set
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from veilgraph.client.neighbours import ListQuestion
from veilgraph.client.once import Once
from veilgraph.client.reading import canonical_json, read_json
from veilgraph.client.record import PrivateRecord, RecordCodes, encode_record, withhold_details
from veilgraph.client.refusals import RunError
from veilgraph.client.rounds import Rounds, memory_path, remembered_rounds
from veilgraph.client.schema import Schema
from veilgraph.client.words import Answers, ReportedFeatures, ReportedLabel, Word, system_word

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
    round: int | None
    texts: Mapping[str, Any]
    """Texts by language, for a program that shows the questions."""
    language: str | None
    """The language for people of all others; None without texts."""
    public: Mapping[str, str | None]
    """Columns that the organisers know without asking, and use beside the reports: the kind of each, by name."""


class PublicGraph(NamedTuple):
    """What a campaign says about the public graph: a series keeps it in all its documents."""

    nodes: int
    sha256: str


Asked = Once | Rounds | ListQuestion


class Question(NamedTuple):
    """A verified campaign: what it asks of whom, and the integer tables that protect the answers."""

    id: str
    graph: PublicGraph
    schema: Schema
    asked: Asked
    notice: Notice

    @property
    def epsilon(self) -> Decimal:
        """Epsilon that the tables give: user level (any two records), features and label together.

        The record of a series is a history, and this is the epsilon of all rounds for any two histories.
        """
        return self.asked.epsilon

    @property
    def longest_report(self) -> dict[str, Any]:
        """A report whose text is as long as the longest report of the campaign, about a node without a name."""
        return {"campaign": self.id, "node": "", **self.asked.longest}

    def codes(self, record: Mapping[str, Any]) -> RecordCodes:
        """Return the codes of a record; errors may quote values in their causes."""
        asked = self.asked
        return encode_record(self.schema, record, features=asked.features is not None, label=asked.label is not None)


def encode(question: Question, record: Mapping[str, Any]) -> RecordCodes:
    """Return the codes of the features and of the label; refuse undeclared values, naming only the column.

    The code of a question that is left out is None, and so is that of merged columns if one of them is left out.
    """
    private = PrivateRecord(record)
    del record
    return withhold_details(lambda: question.codes(private.value))


def randomize(
    question: Question, features: Answers | None, label: int | None, *, word: Word | None = None
) -> tuple[ReportedFeatures | None, ReportedLabel | None]:
    """Randomize codes, with words in the order that `words` defines.

    Args:
        question: a verified campaign that asks once.
        features: the codes of the features, None for one that is left out; or None.
        label: the code of the label, or None.
        word: source of words; default: the operating system. Other sources are for tests.

    Returns:
        A code for each feature, or None for one that is not asked; and the code of a class, or the codes of a set.
    """
    return question.asked.randomize(features, label, word or system_word)


class DrawnReport(dict[str, Any]):
    """A report as JSON values, and how long it is when it is sent, which is the same for all reports of a campaign."""

    def __init__(
        self,
        report: Mapping[str, Any],
        length: int,
        unlisted: tuple[str, ...] = (),
        rounds: Set[int] = frozenset(),
    ) -> None:
        super().__init__(report)
        self.length = length
        self.rounds = rounds
        """Rounds of a series that the device has answered and remembers; none where a campaign asks once."""
        self.unlisted = unlisted
        """Neighbours who are not among the people of the campaign, if the list was read now. They are private, and not
        sent: show them to the person, and to nobody else."""

    @property
    def text(self) -> str:
        """What is sent: the canonical form, with spaces after it."""
        return canonical_json(self).ljust(self.length)

    @classmethod
    def read(cls, text: str | bytes, store: str | os.PathLike[str] | None = None) -> DrawnReport:
        """Read a report from its `text`, with or without a line break after it. Its spaces say how long it is.

        Args:
            text: the text.
            store: the device's folder, which says what rounds of a series the device remembers.
        """
        report = None
        with suppress(ValueError):
            report = read_json(text)
        if not isinstance(report, dict):
            raise RunError("it is no report: give the text of one that was drawn")
        length = len(text.rstrip(b"\r\n") if isinstance(text, bytes) else text.rstrip("\r\n"))
        names = [report.get(key) for key in ("campaign", "node")]
        if store is None or "round" not in report or not all(isinstance(name, str) for name in names):
            return cls(report, length)
        return cls(report, length, rounds=remembered_rounds(memory_path(Path(store), *map(str, names))))


def to_send(
    question: Question,
    report: Mapping[str, Any],
    unlisted: tuple[str, ...] = (),
    rounds: Set[int] = frozenset(),
) -> DrawnReport:
    """Return a report of a campaign with the length that all of them have."""
    steps = -(-len(canonical_json(report["node"])[1:-1]) // _ID_STEP)
    return DrawnReport(report, len(canonical_json(question.longest_report)) + steps * _ID_STEP, unlisted, rounds)
