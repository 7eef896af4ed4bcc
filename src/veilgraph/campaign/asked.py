"""What a campaign asks: the part of its document that reports are bound to, and the questions that every kind answers.

There are three kinds: a campaign asks once, in rounds, or in a wave about private neighbours. Code outside this folder
asks `Asked`, and never which kind it has.
"""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from veilgraph.campaign.asked_words import Words
from veilgraph.errors import CampaignError
from veilgraph.privacy.accounting import Guarantee
from veilgraph.privacy.epsilon import state_epsilon
from veilgraph.privacy.mechanisms import GRRFS, JointGRR, LongitudinalFeatures, NeighbourMechanism, RoundEvidence
from veilgraph.privacy.mechanisms.registry import LabelOnce
from veilgraph.privacy.plain_text import look
from veilgraph.privacy.schema import Column, FeatureSchema
from veilgraph.privacy.strict_json import (
    expect_list,
    expect_number,
    expect_object,
    expect_text,
    expect_whole,
    number_text,
)


@dataclass(frozen=True, kw_only=True)
class Documents:
    """The documents of a collection; most have one, which asks everybody.

    Args:
        nodes: number of nodes of the graph.
        earlier: ids of the documents before this one; the first asks for the label and names the collection.
        titles: what each document asks, in words; empty if there is one document.
        turns: number of documents after the first of which each person answers one; None if everybody answers all.
        people: SHA-256 of the published file of all people; None where none is published.

    >>> third = Documents(nodes=3, earlier=("a", "b"), titles=("the label", "wave 1", "wave 2"), turns=4)
    >>> third.number, third.people_asked(["u1", "u2", "u3"]), third.is_asked("u1")
    (2, [3, 2, 1], True)
    """

    nodes: int
    earlier: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()
    turns: int | None = None
    people: str | None = None

    @property
    def number(self) -> int:
        """Number of documents before this one."""
        return len(self.earlier)

    @property
    def in_turns(self) -> bool:
        """Whether each person answers one wave of the series."""
        return self.turns is not None

    @property
    def described(self) -> dict[str, int]:
        """The number of this document in a log; nothing if the collection has one document."""
        return {"wave": self.number} if self.earlier else {}

    @property
    def name(self) -> str:
        """Name of this document in a log."""
        return f"wave {self.number}" if self.earlier else "the label"

    def is_asked(self, node: str) -> bool:
        """Return whether this document asks a person."""
        return self.turns is None or turn_of(node, self.turns) == self.number

    def people_asked(self, names: Iterable[str]) -> list[int]:
        """Return how many people each document asks, from the names of all nodes of the graph."""
        if self.turns is None:
            return [self.nodes] * (1 + self.number)
        of_turn = Counter(turn_of(name, self.turns) for name in names)
        return [self.nodes, *(of_turn[number] for number in range(1, self.number + 1))]

    def why_closed(self, campaign_id: object) -> str | None:
        """Say why an earlier document is not answered any more; None if this is no document before the open one."""
        if campaign_id not in self.earlier:
            return None
        before = self.earlier.index(str(campaign_id))
        closed = f"wave {before}" if before else "the label"
        return f"{closed} of this series is closed, and wave {self.number} is open: get the campaign again"


def documents_before(document: str) -> list[str]:
    """Return the ids that a document states of those before it; none where the collection has one document."""
    stated = json.loads(document).get("bound", {}).get("neighbours")
    return list(stated.get("documents", ())) if isinstance(stated, dict) else []


def turn_of(node: str, turns: int) -> int:
    """Return the wave that a person answers, from 1, by a hash of their id: everybody can compute it.

    >>> [turn_of(node, 4) for node in ("u1", "u2", "u3")]
    [2, 1, 1]
    """
    return 1 + int.from_bytes(hashlib.sha256(node.encode()).digest()[30:], "big") % turns


FeatureMechanism = GRRFS | JointGRR | LongitudinalFeatures
CampaignLabel = LabelOnce | RoundEvidence

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class Asked(ABC):
    """What a campaign asks of whom, and what its reports reveal at most.

    The defaults hold for a campaign whose people answer one document on a public graph.

    Args:
        schema: names and domains of the features and the label, without note and texts, which the notice has.
        label_name: name of the label.
        nodes: number of nodes of the graph.
        graph_sha256: fingerprint of the graph.
        feature_mechanism: mechanism that randomizes the features; None if this document asks for none.
        label_mechanism: mechanism that randomizes the label; None if this document does not ask for it.
    """

    format: ClassVar[int]
    """Format of the document."""
    key: ClassVar[str]
    """Key of the document that has a value where this kind is meant."""
    bound_keys: ClassVar[frozenset[str]]
    """Keys of the part of the document that reports are bound to."""
    report_keys: ClassVar[frozenset[str]]
    """Keys of a report besides campaign and node."""
    first_round: ClassVar[int | None] = None
    """Number of the round that is open first; None without rounds."""
    asks_one_report: ClassVar[bool] = True
    """Whether a person sends one report, and not one in each round, or for several documents of a series."""

    schema: FeatureSchema
    label_name: str
    nodes: int
    graph_sha256: str
    feature_mechanism: FeatureMechanism | None = None
    label_mechanism: CampaignLabel | None = None

    def __post_init__(self) -> None:
        expect_text(self.label_name, "label")
        if look(self.label_name) in {look(column.name) for column in self.schema.columns}:
            raise CampaignError(f"'{self.label_name}' is both a column and the label: give the label another name")
        expect_whole(self.nodes, "graph.nodes", 1, 2**53 - 1)
        if not _SHA256.fullmatch(self.graph_sha256):
            raise CampaignError("graph.sha256 is not a SHA-256 in hexadecimal digits")

    @classmethod
    @abstractmethod
    def parse(cls, bound: Mapping[str, Any]) -> Self:
        """Read the bound part of a document; refuse integers or epsilons that do not follow from each other."""

    @property
    @abstractmethod
    def bound(self) -> dict[str, Any]:
        """Part of the document that reports are bound to, as JSON values."""

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """Upper bound of what all reports of a person to this collection reveal, computed from the integers."""

    @property
    @abstractmethod
    def report_parts(self) -> dict[str, dict[str, Any]]:
        """JSON schema of each part of a report, besides campaign and node; a part that is not collected is null."""

    @property
    @abstractmethod
    def longest_report(self) -> dict[str, Any]:
        """Parts of a report that no other one is longer than, as JSON values."""

    @abstractmethod
    def read_report(self, document: Mapping[str, Any], node: str) -> dict[str, Any]:
        """Return the parts of a report about a node, checked, under the names that `Report` has for them."""

    @property
    @abstractmethod
    def words(self) -> Words:
        """What people read about the questions and the guarantee."""

    @property
    def documents(self) -> Documents:
        """The documents of the collection up to this one, and whom each asks."""
        return Documents(nodes=self.nodes)

    @property
    def has_edges(self) -> bool:
        """Whether the server learns on a graph: a public graph, or the graph of people who name each other."""
        return True

    @property
    def collected_label(self) -> CampaignLabel | None:
        """Mechanism of the labels of this collection, which this document asks for or an earlier one."""
        return self.label_mechanism

    @property
    def answers(self) -> tuple[NeighbourMechanism, ...]:
        """Mechanism of each wave about neighbours so far."""
        return ()

    @property
    def publishes_beliefs(self) -> bool:
        """Whether what is believed about everybody is published, from the reports of this document or earlier ones."""
        return False

    @property
    def published(self) -> frozenset[str]:
        """SHA-256 of each file that is published before people answer."""
        return frozenset()

    def read_tables(self, folder: Path | None) -> dict[str, bytes]:
        """Return the tables that are published before people answer, checked, by their SHA-256.

        Args:
            folder: folder of the published documents and tables; None if there is none.
        """
        return {}

    def published_files(
        self, names: Sequence[str], tables: Mapping[str, bytes], known: Mapping[str, bytes]
    ) -> dict[str, bytes]:
        """Return every file that is published before people answer, by its SHA-256.

        Args:
            names: names of all people.
            tables: what `read_tables` returned.
            known: files that were published for earlier documents; those that did not change are taken from there.
        """
        return {}

    @property
    def stored_number(self) -> int | None:
        """Number under which a store keeps the reports; None if they have several."""
        return self.documents.number

    def number_now(self, open_round: int | None) -> int | None:
        """Return the number under which a store keeps the reports that are asked for now; None between two rounds."""
        return self.stored_number

    def check_round(self, open_round: int | None) -> None:
        """Refuse the number of an open round that this campaign does not have."""
        if open_round is not None:
            raise CampaignError("round: the campaign has no rounds; leave it out")

    def is_round_open(self, number: int | None, open_round: int | None) -> bool:
        """Return whether reports of a round are accepted, if the last one that was opened is `open_round`."""
        return True


def about_document(asked: Asked) -> dict[str, Any]:
    """Return format, schema and graph as JSON values of the document: the inverse of `read_about`."""
    return {
        "format": asked.format,
        "schema": {
            "columns": [_column_document(column) for column in asked.schema.columns],
            "group": asked.schema.group,
            "label": {"name": asked.label_name, "classes": list(asked.schema.classes)},
        },
        "graph": {"nodes": asked.nodes, "sha256": asked.graph_sha256},
    }


def read_about(bound: Mapping[str, Any]) -> dict[str, Any]:
    """Read the schema and the graph of a document, as arguments of every kind of `Asked`."""
    parts = expect_object(bound["schema"], {"columns", "group", "label"}, "schema")
    label = expect_object(parts["label"], {"name", "classes"}, "schema.label")
    graph = expect_object(bound["graph"], {"nodes", "sha256"}, "graph")
    schema = FeatureSchema(
        columns=tuple(_column(entry) for entry in expect_list(parts["columns"], "schema.columns", min_length=0)),
        classes=tuple(expect_text(name, "a class") for name in expect_list(label["classes"], "schema.label.classes")),
        group=expect_whole(parts["group"], "schema.group", 1, 2**53 - 1),
    )
    return {
        "schema": schema,
        "label_name": label["name"],
        "nodes": graph["nodes"],
        "graph_sha256": expect_text(graph["sha256"], "graph.sha256"),
    }


def _column_document(column: Column) -> dict[str, Any]:
    if column.edges:
        edges = {"name": column.name, "edges": [number_text(edge) for edge in column.edges]}
        return edges | ({"whole": True} if column.whole else {})
    return {"name": column.name, "values": list(column.values)}


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


def guarantee_document(guarantee: Guarantee) -> dict[str, Any]:
    """Return the epsilons of a guarantee as JSON values; no text is below its epsilon."""
    levels = {
        "features": guarantee.features_user_level,
        "label": guarantee.label_user_level,
        "total": guarantee.total_user_level,
    }
    return {
        "user_level": {part: epsilon_text(epsilon) for part, epsilon in levels.items()},
        "attribute_level": list(map(epsilon_text, guarantee.attribute_levels)),
    }


def epsilon_text(epsilon: float) -> str:
    """Write an epsilon as the shortest text of a double that is not below it."""
    return number_text(state_epsilon(epsilon))
