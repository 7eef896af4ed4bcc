"""What leaves a device: which campaign and node it answers, randomized codes, and nothing else."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, TypeGuard

from veilgraph.campaign.document import Campaign, canonical_json
from veilgraph.errors import ReportError

LONGEST_NODE = 256

_KEYS = {"campaign", "node", "features", "label"}


@dataclass(frozen=True, kw_only=True)
class Report:
    """One person's randomized answer. It is not secret: the mechanism has protected it already.

    A part is None where the campaign does not ask it, or where the person left it out. Whether a part is there is
    visible and not protected, so it must not depend on what the part would say.

    Attributes:
        campaign: the campaign's id.
        node: the node's id in the public graph.
        features: a code for each reported feature.
        label: a class code.

    >>> Report(campaign="5f7f", node="u17", features=(0, 1), label=None).to_json()
    '{"campaign":"5f7f","features":[0,1],"label":null,"node":"u17"}'
    """

    campaign: str
    node: str
    features: tuple[int, ...] | None
    label: int | None

    @classmethod
    def parse(cls, document: object, campaign: Campaign) -> Report:
        """Validate JSON values against the campaign, to the last one; anything else is refused."""
        if not isinstance(document, dict):
            raise ReportError("a report must be a JSON object")
        if wrong := _KEYS ^ set(document):
            key = min(map(str, wrong))
            raise ReportError(f"the report {'lacks the key' if key in _KEYS else 'has an unknown key'} {key[:40]!a}")
        if document["campaign"] != campaign.id:
            raise ReportError(f"the report answers another campaign; this one is {campaign.id}")
        features, label = document["features"], document["label"]
        if features is None and label is None:
            raise ReportError("the report is empty: it needs features, a label or both")
        return cls(
            campaign=campaign.id,
            node=check_node(document["node"]),
            features=None if features is None else _features(features, campaign),
            label=None if label is None else _label(label, campaign),
        )

    @classmethod
    def from_json(cls, text: str | bytes, campaign: Campaign) -> Report:
        """As `parse`, from JSON text."""
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            raise ReportError("the report is not readable as JSON") from None
        return cls.parse(document, campaign)

    @property
    def document(self) -> dict[str, Any]:
        """The report as JSON values."""
        features = None if self.features is None else list(self.features)
        return {"campaign": self.campaign, "node": self.node, "features": features, "label": self.label}

    def to_json(self) -> str:
        """The canonical form, the same for the same content."""
        return canonical_json(self.document)


def check_node(node: object) -> str:
    """A node id that can be a line of a table and a part of a URL.

    >>> check_node("..")
    Traceback (most recent call last):
    veilgraph.errors.ReportError: node must be text of 1 to 256 characters without control characters, not . or ..
    """
    if (
        not isinstance(node, str)
        or not 1 <= len(node) <= LONGEST_NODE
        or node in (".", "..")  # every URL library would resolve them
        or any(c < " " or c == "\x7f" or "\ud800" <= c <= "\udfff" for c in node)
    ):
        raise ReportError(
            f"node must be text of 1 to {LONGEST_NODE} characters without control characters, not . or .."
        )
    return node


def _features(values: object, campaign: Campaign) -> tuple[int, ...]:
    if campaign.feature_mechanism is None:
        raise ReportError("features: the campaign asks none; send null")
    schema = campaign.schema
    if not isinstance(values, list) or len(values) != schema.num_features:
        raise ReportError(f"features must be a list of {schema.num_features} codes")
    for name, size, value in zip(schema.feature_names, schema.domain_sizes, values, strict=True):
        if not _is_code(value, size):
            raise ReportError(f"feature {name[:40]!a}: the code must be a whole number from 0 to {size - 1}")
    return tuple(values)


def _label(value: object, campaign: Campaign) -> int:
    if campaign.label_mechanism is None:
        raise ReportError("label: the campaign asks none; send null")
    if not _is_code(value, campaign.schema.num_classes):
        raise ReportError(f"label: the code must be a whole number from 0 to {campaign.schema.num_classes - 1}")
    return value


def _is_code(value: object, size: int) -> TypeGuard[int]:
    """Codes are integers proper: True, 1.0 and "1" are not."""
    return type(value) is int and 0 <= value < size
