"""The plan of a campaign: what `plan` writes and `campaign new` reads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from veilgraph.campaign.document import FORMAT, Campaign, new_nonce
from veilgraph.errors import CampaignError
from veilgraph.graph import Graph
from veilgraph.privacy.mechanisms import GRRFS, JointGRR
from veilgraph.privacy.mechanisms.registry import LabelOnce
from veilgraph.privacy.schema import FeatureSchema
from veilgraph.privacy.strict_json import TIME_FORMAT, canonical_json, content_id, expect_object, parse_strict

_NEVER = datetime(9999, 12, 31, tzinfo=UTC)
_LATER: dict[str, Any] = {"purpose": "planned", "contact": "planned", "closes": _NEVER.strftime(TIME_FORMAT)}
"""What a plan leaves open, with values that stand for it in the draft of the campaign."""
_NO_NONCE = "0" * 32
"""Stands for the nonce in the draft: each campaign that follows a plan draws its own."""
_PLANNED = ("note", "texts", "language")
_NOTICE: dict[str, Any] = {**_LATER, "version": 1, "retention": None, "wave": None}


@dataclass(frozen=True)
class CampaignPlan:
    """A campaign without purpose, contact and closing date: schema, mechanisms, guarantee and graph.

    The document is what the campaign's reports are bound to, without the nonce, and with the schema's note and texts
    and an id of its own. Reading it checks everything that reading a campaign checks.

    Args:
        draft: a campaign; its purpose, contact and closing date are not part of the plan.

    >>> from veilgraph.privacy.mechanisms import GRR
    >>> plan = CampaignPlan.new(
    ...     schema=FeatureSchema(columns=(), classes=("no", "yes")), label="vaccinated", label_mechanism=GRR(2, 1.0),
    ...     graph=Graph.from_edges([[0], [1]], num_nodes=2))
    >>> CampaignPlan.from_json(plan.to_json()) == plan
    True
    >>> CampaignPlan.from_json(plan.to_json().replace("vaccinated", "ill"))
    Traceback (most recent call last):
    veilgraph.errors.CampaignError: the plan was altered: its content is not what its id says; make it again
    """

    draft: Campaign

    def __post_init__(self) -> None:
        object.__setattr__(
            self,
            "draft",
            replace(self.draft, format=FORMAT, nonce=_NO_NONCE, **_LATER | {"closes": _NEVER, "stated": None}),
        )

    @classmethod
    def new(
        cls,
        *,
        schema: FeatureSchema,
        graph: Graph,
        label: str = "label",
        feature_mechanism: GRRFS | JointGRR | None = None,
        label_mechanism: LabelOnce | None = None,
    ) -> CampaignPlan:
        """Make a plan; without a mechanism, features or label are not collected."""
        return cls(
            Campaign(
                schema=schema,
                feature_mechanism=feature_mechanism,
                label_mechanism=label_mechanism,
                label=label,
                nodes=graph.num_nodes,
                graph=graph.fingerprint,
                nonce=_NO_NONCE,
                **_LATER | {"closes": _NEVER},
            )
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> CampaignPlan:
        """Read a plan; refuse one that is altered, or that no campaign could follow."""
        try:
            stated = parse_strict(text)
        except CampaignError:
            raise CampaignError("it is not a plan: make one with 'veilgraph plan --out'") from None
        content = dict(expect_object(stated, {"plan", "id"}, "the plan"))
        if content["id"] != content_id({"plan": content["plan"]}):
            raise CampaignError("the plan was altered: its content is not what its id says; make it again")
        if not isinstance(planned := content["plan"], dict) or planned.keys() & {*_LATER, "nonce"}:
            raise CampaignError("it is not a plan: make one with 'veilgraph plan --out'")
        return cls(Campaign.from_json(canonical_json(_draft(planned))))

    def to_json(self) -> str:
        """Return the canonical document."""
        bound = {key: value for key, value in self.draft.bound.items() if key != "nonce"}
        content = {**bound, **{key: self.draft.notice[key] for key in _PLANNED}}
        return canonical_json({"plan": content, "id": content_id({"plan": content})})

    def campaign(
        self,
        *,
        purpose: str,
        contact: str,
        closes: datetime,
        retention: datetime | None = None,
        nonce: str | None = None,
    ) -> Campaign:
        """Return a campaign that follows the plan; without `nonce`, the operating system draws one."""
        return replace(
            self.draft,
            purpose=purpose,
            contact=contact,
            closes=closes,
            retention=retention,
            nonce=nonce or new_nonce(),
        )

    def check(
        self, *, schema: FeatureSchema | None = None, graph: Graph | None = None, label: str | None = None
    ) -> None:
        """Raise CampaignError if the plan was made for another schema, graph or label than those that are given."""
        if schema is not None and replace(schema, texts=self.draft.schema.texts) != self.draft.schema:
            raise CampaignError("the plan was made for another schema: plan again, or leave --schema out")
        if graph is not None and graph.fingerprint != self.draft.graph:
            raise CampaignError(
                f"the plan was made for another graph of {self.draft.nodes} nodes, SHA-256 {self.draft.graph[:8]}: "
                "plan again, or give the graph and the nodes of the plan"
            )
        if label is not None and label != self.draft.label:
            raise CampaignError(f"the plan's label is '{self.draft.label}', not '{label}': plan again, or leave it out")


def _draft(planned: dict[str, Any]) -> dict[str, Any]:
    """Return the document of the draft."""
    bound = {key: value for key, value in planned.items() if key not in _PLANNED} | {"nonce": _NO_NONCE}
    notice = _NOTICE | {key: planned[key] for key in _PLANNED if key in planned}
    return {"format": FORMAT, "id": content_id(bound), "bound": bound, "notice": notice}
