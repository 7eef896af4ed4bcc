"""The plan of a campaign: what `veilgraph plan` writes and `veilgraph init --plan` reads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from veilgraph.campaign.document import Campaign
from veilgraph.campaign.notice import Notice
from veilgraph.campaign.once import FORMAT, Once, new_nonce
from veilgraph.errors import CampaignError
from veilgraph.graph import Graph
from veilgraph.graph.links import told_about_links
from veilgraph.privacy.mechanisms import GRRFS, JointGRR
from veilgraph.privacy.mechanisms.registry import LabelOnce
from veilgraph.privacy.schema import FeatureSchema
from veilgraph.privacy.strict_json import TIME_FORMAT, canonical_json, content_id, expect_object, parse_strict

_NEVER = datetime(9999, 12, 31, tzinfo=UTC)
_LATER: dict[str, Any] = {"purpose": "planned", "contact": "planned", "closes": _NEVER.strftime(TIME_FORMAT)}
"""What a plan leaves open, with values that stand for it in the draft of the campaign."""
_NO_NONCE = "0" * 32
"""Stands for the nonce in the draft: each campaign that follows a plan draws its own."""
_PLANNED = ("note", "texts", "language", "public")
_NOTICE: dict[str, Any] = {**_LATER, "version": 1, "retention": None, "round": None}


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
            Campaign(
                asked=replace(_once(self.draft), nonce=_NO_NONCE),
                notice=replace(self.draft.notice, **_LATER | {"closes": _NEVER}),
            ),
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
                asked=Once(
                    schema=replace(schema, note="", texts={}, public=()),
                    feature_mechanism=feature_mechanism,
                    label_mechanism=label_mechanism,
                    label_name=label,
                    nodes=graph.num_nodes,
                    graph_sha256=graph.fingerprint,
                    nonce=_NO_NONCE,
                ),
                notice=Notice(
                    **_LATER | {"closes": _NEVER},
                    note=schema.note,
                    texts=schema.texts,
                    public=(*schema.public, *told_about_links(graph.links)),
                ),
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
        bound = {key: value for key, value in self.draft.asked.bound.items() if key != "nonce"}
        content = {**bound, **{key: value for key, value in self.draft.notice.document.items() if key in _PLANNED}}
        return canonical_json({"plan": content, "id": content_id({"plan": content})})

    def campaign(self, notice: Notice, *, nonce: str | None = None) -> Campaign:
        """Return a campaign that follows the plan, whose note and texts it has.

        Args:
            notice: purpose, contact and dates.
            nonce: 32 hexadecimal digits; None: the operating system draws them.
        """
        planned = self.draft.notice
        told = replace(notice, note=planned.note, texts=planned.texts, public=planned.public)
        return Campaign(asked=replace(_once(self.draft), nonce=nonce or new_nonce()), notice=told)

    def check(
        self, *, schema: FeatureSchema | None = None, graph: Graph | None = None, label: str | None = None
    ) -> None:
        """Raise CampaignError if the plan was made for another schema, graph or label than those that are given."""
        if schema is not None and replace(schema, texts=self.draft.schema.texts) != self.draft.schema:
            raise CampaignError("the plan was made for another schema: plan again, or leave the schema out")
        if graph is not None and graph.fingerprint != self.draft.graph_sha256:
            planned = f"{self.draft.nodes} nodes, SHA-256 {self.draft.graph_sha256[:8]}"
            raise CampaignError(
                f"the plan was made for another graph of {planned}: plan again, or give the graph and the nodes of the "
                "plan"
            )
        if label is not None and label != self.draft.label_name:
            raise CampaignError(
                f"the plan's label is '{self.draft.label_name}', not '{label}': plan again, or leave it out"
            )


def _once(draft: Campaign) -> Once:
    if not isinstance(draft.asked, Once):
        raise CampaignError("a plan asks each person once: leave waves about neighbours out")
    return draft.asked


def _draft(planned: dict[str, Any]) -> dict[str, Any]:
    """Return the document of the draft."""
    bound = {key: value for key, value in planned.items() if key not in _PLANNED} | {"nonce": _NO_NONCE}
    notice = _NOTICE | {key: planned[key] for key in _PLANNED if key in planned}
    return {"format": FORMAT, "id": content_id(bound), "bound": bound, "notice": notice}
