"""The report, which is the only thing that leaves a device: randomized codes, and the campaign and node they answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from operator import lt
from typing import Any, cast

from veilgraph.campaign.document import Campaign
from veilgraph.campaign.neighbour_series import Answer, NeighbourSeries, turn_of
from veilgraph.campaign.strict_json import canonical_json, parse_json
from veilgraph.errors import DomainError, ReportError
from veilgraph.privacy.mechanisms import (
    GRR,
    GRRFS,
    NeighbourhoodClass,
    RandomizedNeighbourList,
    SubsetSelection,
    WaveEvidence,
)

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
                answer=_answer(document["answer"], campaign.neighbours.answer),
                series=campaign.neighbours.first,
            )
        features, label = document["features"], document["label"]
        if features is None and label is None:
            raise ReportError("the report is empty: it needs features, a label or both")
        return cls(
            campaign=campaign.id,
            node=check_node(document["node"]),
            features=None if features is None else _features(features, campaign),
            label=None if label is None else _label(label, campaign),
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
    (112, 383, 383)
    """
    steps = -(-len(canonical_json(node)[1:-1]) // _ID_STEP)
    return len(canonical_json(_longest(campaign))) + steps * _ID_STEP


def _longest(campaign: Campaign) -> dict[str, Any]:
    """Return what no report of a campaign is longer than, about a node without a name."""
    document: dict[str, Any] = {"campaign": campaign.id, "node": ""}
    if campaign.neighbours is not None:
        return document | {"answer": _longest_answer(campaign.neighbours.answer)}
    features, label, series = campaign.feature_mechanism, campaign.label_mechanism, campaign.waves
    last = [size - 1 for size in campaign.schema.domain_sizes]
    codes = last if isinstance(features, GRRFS) else [_longer(code, None) for code in last]
    return document | {
        "features": None if features is None else codes,
        "label": _longer(None if label is None else _longest_label(label), None),
        **({} if series is None else {"wave": series.waves}),
    }


def _longest_label(mechanism: GRR | WaveEvidence | SubsetSelection) -> Any:
    size = mechanism.domain_size
    return list(range(size))[-mechanism.set_size :] if isinstance(mechanism, SubsetSelection) else size - 1


def _longest_answer(mechanism: Answer) -> Any:
    if isinstance(mechanism, NeighbourhoodClass):
        return _longest_label(mechanism.sets)
    if isinstance(mechanism, RandomizedNeighbourList):
        return mechanism.texts(mechanism.blank(1))[0]
    return [-mechanism.largest] * mechanism.num_classes


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


def _features(values: object, campaign: Campaign) -> tuple[int | None, ...]:
    mechanism = campaign.feature_mechanism
    if mechanism is None:
        raise ReportError("features: the campaign collects none; send null")
    sizes = campaign.schema.domain_sizes
    if not isinstance(values, list) or len(values) != len(sizes):
        raise ReportError(f"features must be a list of {len(sizes)} codes")
    if _are_codes(values, sizes) and isinstance(mechanism, GRRFS):
        return tuple(values)
    asked = [i for i, value in enumerate(values) if value is not None or isinstance(mechanism, GRRFS)]
    if not isinstance(mechanism, GRRFS) and len(asked) != mechanism.sampled:
        raise ReportError(f"features must hold codes of {mechanism.sampled} features, and null for all others")
    for i in asked:
        if not _is_code(values[i], sizes[i]):
            name = campaign.schema.feature_names[i]
            raise ReportError(f"feature {name[:40]!a}: the code must be a whole number from 0 to {sizes[i] - 1}")
    return tuple(values)


def _label(value: object, campaign: Campaign) -> int | tuple[int, ...]:
    mechanism = campaign.label_mechanism
    if mechanism is None:
        raise ReportError("label: the campaign collects none; send null")
    if isinstance(mechanism, GRR | WaveEvidence):
        last = mechanism.domain_size - 1
        if not _is_code(value, last + 1):
            raise ReportError(f"label: the code must be a whole number from 0 to {last}")
        return cast(int, value)
    return _set(value, mechanism, "label")


def _answer(value: object, mechanism: Answer) -> tuple[int, ...] | str:
    if isinstance(mechanism, NeighbourhoodClass):
        return _set(value, mechanism.sets, "answer")
    if isinstance(mechanism, RandomizedNeighbourList):
        try:
            mechanism.packed([text := value if isinstance(value, str) else ""])
        except DomainError as error:
            raise ReportError(f"answer: {error}") from None
        return text
    classes, largest = mechanism.num_classes, mechanism.largest
    if (
        not isinstance(value, list)
        or len(value) != classes
        or not all(type(count) is int and -largest <= count <= largest for count in value)
    ):
        raise ReportError(f"answer: it must be a list of {classes} whole numbers from -{largest} to {largest}")
    return tuple(value)


def _set(value: object, mechanism: SubsetSelection, part: str) -> tuple[int, ...]:
    size, last = mechanism.set_size, mechanism.domain_size - 1
    if not isinstance(value, list) or len(value) != size or not _are_ascending_codes(value, last + 1):
        raise ReportError(f"{part}: it must be a list of {size} different codes from 0 to {last}, in ascending order")
    return tuple(value)


def _wave(value: object, waves: int) -> int:
    if not (_is_code(value, waves + 1) and value):
        raise ReportError(f"wave: it must be a whole number from 1 to {waves}")
    return cast(int, value)


def _are_codes(values: list[Any], domain_sizes: Sequence[int]) -> bool:
    """Return whether every value is a code of its own domain; in C, because every report is checked."""
    return set(map(type, values)) == {int} and min(values) >= 0 and all(map(lt, values, domain_sizes))


def _are_ascending_codes(values: list[Any], domain_size: int) -> bool:
    """Return whether the values are different codes of a domain, in ascending order."""
    return all(_is_code(code, domain_size) for code in values) and all(low < high for low, high in pairwise(values))


def _is_code(value: object, domain_size: int) -> bool:
    """Return whether a value is an integer proper, as True, 1.0 and "1" are not, in its domain."""
    return type(value) is int and 0 <= value < domain_size
