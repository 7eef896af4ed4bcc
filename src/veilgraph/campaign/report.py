"""The report, which is the only thing that leaves a device: randomized codes, and the campaign and node they answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from veilgraph.campaign.document import Campaign
from veilgraph.campaign.neighbour_series import NeighbourSeries, turn_of
from veilgraph.errors import ReportError
from veilgraph.privacy.strict_json import canonical_json, parse_json

MAX_NODE_LENGTH = 256
_ID_STEP = 256

_KEYS = {"campaign", "node", "features", "label"}
_ANSWER_KEYS = {"campaign", "node", "answer"}


@dataclass(frozen=True, kw_only=True)
class Report:
    """One person's randomized answer. It is not secret: the mechanism already protects it.

    A part is None if the campaign does not collect it, or if the person left it out. Whether a part is there is
    visible and not protected, so it must not depend on the private value.

    Attributes:
        campaign: id of the campaign.
        node: name of the node in the public graph.
        features: code of each feature; None for a feature that the device did not pick.
        label: code of the class, or the codes of a set of classes in ascending order.
        wave: number of the wave that it answers, from 1; None where the campaign has no waves.
        answer: answer to a wave about neighbours: a count for each class, the codes of a set in ascending order, or the
            text of a randomized list.
        series: id of the first document of the series about neighbours; the store keeps all its reports together.

    >>> Report(campaign="5f7f", node="u17", features=(0, 1), label=None).to_json()
    '{"campaign":"5f7f","features":[0,1],"label":null,"node":"u17"}'
    """

    campaign: str
    node: str
    features: tuple[int | None, ...] | None
    label: int | tuple[int, ...] | None
    wave: int | None = None
    answer: tuple[int, ...] | str | None = None
    series: str | None = None

    @classmethod
    def parse(cls, document: object, campaign: Campaign) -> Report:
        """Validate JSON values against the campaign; refuse everything that is not exactly a report of it."""
        if not isinstance(document, dict):
            raise ReportError("a report must be a JSON object")
        series = campaign.waves
        keys = _ANSWER_KEYS if campaign.neighbours else _KEYS if series is None else {*_KEYS, "wave"}
        if wrong := keys ^ set(document):
            key = min(map(str, wrong))
            raise ReportError(f"the report {'lacks the key' if key in keys else 'has an unknown key'} {key[:40]!a}")
        if document["campaign"] != campaign.id:
            raise ReportError(f"the report answers another campaign; this one is {campaign.id}")
        if campaign.neighbours is not None:
            return cls(
                campaign=campaign.id,
                node=_check_turn(check_node(document["node"]), campaign.neighbours),
                features=None,
                label=None,
                wave=campaign.neighbours.wave,
                answer=campaign.neighbours.answer.check_report(document["answer"], "answer"),
                series=campaign.neighbours.first,
            )
        features, label = document["features"], document["label"]
        if features is None and label is None:
            raise ReportError("the report is empty: it needs features, a label or both")
        return cls(
            campaign=campaign.id,
            node=check_node(document["node"]),
            features=_checked(features, campaign.feature_mechanism, "features", campaign.schema.feature_names),
            label=_checked(label, campaign.label_mechanism, "label", "label"),
            wave=None if series is None else _wave(document["wave"], series.waves),
        )

    @classmethod
    def from_json(cls, text: str | bytes, campaign: Campaign) -> Report:
        """Parse JSON text, and validate it as `parse` does."""
        return cls.parse(parse_report(text), campaign)

    @property
    def document(self) -> dict[str, Any]:
        """The report as JSON values."""
        if self.answer is not None:
            answer = self.answer if isinstance(self.answer, str) else list(self.answer)
            return {"campaign": self.campaign, "node": self.node, "answer": answer}
        features = None if self.features is None else list(self.features)
        label = list(self.label) if isinstance(self.label, tuple) else self.label
        wave = {} if self.wave is None else {"wave": self.wave}
        return {"campaign": self.campaign, "node": self.node, "features": features, "label": label} | wave

    def to_json(self) -> str:
        """Return the canonical form, which is the same for equal reports."""
        return self._canonical

    @cached_property
    def _canonical(self) -> str:
        # The store and the receipt need it both.
        return canonical_json(self.document)


def sent_length(campaign: Campaign, node: str) -> int:
    """Return the length of every report that a device sends about a node: spaces follow a shorter one.

    It is that of the longest report, and the id counts as a multiple of 256 bytes. So who watches the network learns
    nothing of what is answered, nor whether an answer is left out, nor of an id of up to 256 bytes.

    >>> from datetime import UTC, datetime
    >>> from veilgraph.graph import Graph
    >>> from veilgraph.privacy.schema import FeatureSchema
    >>> campaign = Campaign.new(
    ...     schema=FeatureSchema.binary(8, classes=["no", "yes"]), epsilon_x=0.5, sampled=2, epsilon_y=1.0,
    ...     graph=Graph.from_edges([[0], [1]], num_nodes=2), purpose="Learn who needs a vaccine",
    ...     contact="privacy@example.org", closes=datetime(2027, 1, 31, tzinfo=UTC), nonce="0" * 32)
    >>> shortest = Report(campaign=campaign.id, node="u1", features=None, label=1).to_json()
    >>> len(shortest), sent_length(campaign, "u1"), sent_length(campaign, "ann@example.org")
    (117, 387, 387)
    """
    steps = -(-len(canonical_json(node)[1:-1]) // _ID_STEP)
    return len(canonical_json(_longest(campaign))) + steps * _ID_STEP


def _longest(campaign: Campaign) -> dict[str, Any]:
    """Return what no report of a campaign is longer than, about a node without a name."""
    document: dict[str, Any] = {"campaign": campaign.id, "node": ""}
    if campaign.neighbours is not None:
        return document | {"answer": campaign.neighbours.answer.longest_report}
    features, label, series = campaign.feature_mechanism, campaign.label_mechanism, campaign.waves
    return document | {
        "features": None if features is None else features.longest_report,
        "label": None if label is None else _longer(label.longest_report, None),
        **({} if series is None else {"wave": series.waves}),
    }


def _longer(one: object, other: object) -> Any:
    return max(one, other, key=lambda value: len(canonical_json(value)))


def parse_report(text: str | bytes) -> object:
    """Parse JSON text; what it holds is not validated yet."""
    try:
        return parse_json(text)
    except ValueError:
        raise ReportError("the report is not readable as JSON") from None


def check_node(node: object) -> str:
    """Return the name of a node if it can be a line of a table and a part of a URL.

    >>> check_node("..")
    Traceback (most recent call last):
    veilgraph.errors.ReportError: node must be text of 1 to 256 characters without control characters, not . or ..
    """
    if (
        not isinstance(node, str)
        or not 1 <= len(node) <= MAX_NODE_LENGTH
        or node in (".", "..")  # URL libraries resolve them as paths
        or any(c < " " or c == "\x7f" or "\ud800" <= c <= "\udfff" for c in node)
    ):
        raise ReportError(
            f"node must be text of 1 to {MAX_NODE_LENGTH} characters without control characters, not . or .."
        )
    return node


def _check_turn(node: str, series: NeighbourSeries) -> str:
    if series.turns is not None and not series.is_turn_of(node):
        raise ReportError(
            f"node: this person answers wave {turn_of(node, series.turns)}, and wave {series.wave} is open"
        )
    return node


def _checked(value: object, mechanism: Any, part: str, named: str | Sequence[str]) -> Any:
    """Return a part of a report, checked by its mechanism; None if it was left out."""
    if value is None:
        return None
    if mechanism is None:
        raise ReportError(f"{part}: the campaign collects none; send null")
    return mechanism.check_report(value, named)


def _wave(value: object, waves: int) -> int:
    if type(value) is not int or not 1 <= value <= waves:
        raise ReportError(f"wave: it must be a whole number from 1 to {waves}")
    return value
