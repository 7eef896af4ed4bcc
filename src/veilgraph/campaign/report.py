"""The report, which is the only thing that leaves a device: randomized codes, and the campaign and node they answer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from veilgraph.campaign.document import Campaign
from veilgraph.errors import ReportError
from veilgraph.privacy.strict_json import canonical_json, parse_json

MAX_NODE_LENGTH = 256
_ID_STEP = 256

_KEYS = frozenset({"campaign", "node"})


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
        number: number of the round, or of the wave about neighbours, that it answers, from 1; None where it is asked
            once.
        answer: answer to a wave about neighbours: a count for each class, the codes of a set in ascending order, or the
            text of a randomized list.
        series: id of the first document of the series about neighbours; the store keeps all its reports together.

    >>> Report(campaign="5f7f", node="u17", features=(0, 1), label=None).to_json()
    '{"campaign":"5f7f","features":[0,1],"label":null,"node":"u17"}'
    """

    campaign: str
    node: str
    features: tuple[int | None, ...] | None = None
    label: int | tuple[int, ...] | None = None
    number: int | None = None
    answer: tuple[int, ...] | str | None = None
    series: str | None = None

    @classmethod
    def parse(cls, document: object, campaign: Campaign) -> Report:
        """Validate JSON values against the campaign; refuse everything that is not exactly a report of it."""
        if not isinstance(document, dict):
            raise ReportError("a report must be a JSON object")
        keys = _KEYS | campaign.asked.report_keys
        if wrong := keys ^ set(document):
            key = min(map(str, wrong))
            raise ReportError(f"the report {'lacks the key' if key in keys else 'has an unknown key'} {key[:40]!a}")
        if document["campaign"] != campaign.id:
            raise ReportError(f"the report answers another campaign; this one is {campaign.id}")
        node = check_node(document["node"])
        return cls(campaign=campaign.id, node=node, **campaign.asked.read_report(document, node))

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
        numbered = {} if self.number is None else {"round": self.number}
        return {"campaign": self.campaign, "node": self.node, "features": features, "label": label} | numbered

    def to_json(self) -> str:
        """Return the canonical form, which is the same for equal reports."""
        return self._canonical

    @cached_property
    def _canonical(self) -> str:
        # The store and the receipt need it both.
        return canonical_json(self.document)


def sent_length(campaign: Campaign, node: str) -> int:
    """Return the length of every report that a device sends about a node: spaces follow a shorter one.

    It is the length of the longest report, and the id counts as a multiple of 256 bytes. So who watches the network
    learns nothing of what is answered, nor whether an answer is left out, nor of an id of up to 256 bytes.

    >>> from datetime import UTC, datetime
    >>> from veilgraph.campaign.budget import CampaignBudget
    >>> from veilgraph.campaign.notice import Notice
    >>> from veilgraph.graph import Graph
    >>> from veilgraph.privacy.schema import FeatureSchema
    >>> campaign = Campaign.new(
    ...     schema=FeatureSchema.binary(8, classes=["no", "yes"]), graph=Graph.from_edges([[0], [1]], num_nodes=2),
    ...     budget=CampaignBudget(epsilon_x=0.5, sampled=2, epsilon_y=1.0), nonce="0" * 32,
    ...     notice=Notice(purpose="Learn who needs a vaccine", contact="privacy@example.org",
    ...                   closes=datetime(2027, 1, 31, tzinfo=UTC)))
    >>> shortest = Report(campaign=campaign.id, node="u1", features=None, label=1).to_json()
    >>> len(shortest), sent_length(campaign, "u1"), sent_length(campaign, "ann@example.org")
    (117, 387, 387)
    """
    steps = -(-len(canonical_json(node)[1:-1]) // _ID_STEP)
    longest = {"campaign": campaign.id, "node": "", **campaign.asked.longest_report}
    return len(canonical_json(longest)) + steps * _ID_STEP


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
