"""A series about private neighbours: its first document, which asks for the label, and the wave after a document."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import datetime

from veilgraph.campaign.budget import CampaignBudget
from veilgraph.campaign.document import Campaign
from veilgraph.campaign.neighbours.people_file import people_of
from veilgraph.campaign.neighbours.series import NeighbourSeries
from veilgraph.campaign.neighbours.series_label import FollowedBy, SeriesLabel
from veilgraph.campaign.neighbours.wave import NeighbourWave
from veilgraph.campaign.notice import Notice
from veilgraph.errors import CampaignError
from veilgraph.graph import Graph
from veilgraph.privacy.mechanisms import GRR, NeighbourMechanism
from veilgraph.privacy.mechanisms.registry import LabelOnce
from veilgraph.privacy.schema import FeatureSchema


def begin_series(
    *,
    schema: FeatureSchema,
    people: Graph,
    notice: Notice,
    budget: CampaignBudget,
    followed_by: FollowedBy = "waves",
    label: str = "label",
    nonce: str | None = None,
) -> Campaign:
    """Make the first document of a series: it asks for the label alone, once.

    Args:
        schema: classes of the label.
        people: the people, without edges.
        notice: what people are told.
        budget: budget of the label.
        followed_by: before "waves" of histograms or classes the label is randomized by GRR, of which they learn most,
            and before randomized "lists" as in any other campaign.
        label: name of the label.
        nonce: 32 hexadecimal digits; None: the operating system draws them.
    """
    if budget.epsilon_x is not None:
        raise CampaignError(
            "a series about private neighbours asks for no features: its waves state the guarantee of label and "
            "lists alone; leave epsilon_x and sampled out"
        )
    if schema.public:
        raise CampaignError(
            f"a series about private neighbours does not learn from public columns yet: take '{schema.public[0].name}' "
            "out of the schema"
        )
    if people.num_edges or budget.epsilon_y is None or budget.rounds.rounds is not None:
        raise CampaignError(
            "a series about private neighbours begins with the label alone, asked once of people without edges: "
            "give epsilon_y, and a node table as the graph"
        )
    made = Campaign.new(schema=schema, graph=people, notice=notice, budget=budget, label=label, nonce=nonce)
    parts = {field.name: getattr(made.asked, field.name) for field in fields(made.asked)}
    if followed_by == "waves":
        parts["label_mechanism"] = GRR(schema.num_classes, float(budget.epsilon_y))
    return replace(made, asked=SeriesLabel(**parts, followed_by=followed_by))


@dataclass(frozen=True, kw_only=True)
class NextWave:
    """The next wave of a series, and what people are told about it.

    Args:
        answer: mechanism of the wave.
        closes: time until which answers are accepted.
        turns: number of waves of which each person answers one, said with the first wave; None: all answer all.
        purpose: purpose of the wave; None keeps the purpose of the document before.
        contact: contact for participants; None keeps the contact of the document before.
        retention: time after which the organiser deletes all reports of the series; it may only be earlier. None: that
            of the document before.
    """

    answer: NeighbourMechanism
    closes: datetime
    turns: int | None = None
    purpose: str | None = None
    contact: str | None = None
    retention: datetime | None = None

    def after(self, campaign: Campaign, *, people: Graph, table: str | None) -> Campaign:
        """Return the document of the wave.

        Args:
            campaign: the document before it, whose note and texts it keeps.
            people: the people, without edges, that the series was made for.
            table: SHA-256 of the belief table that is published for the wave; None for randomized lists.
        """
        asked, notice = campaign.asked, campaign.notice
        label = asked.collected_label
        if not isinstance(label, LabelOnce) or asked.schema.columns:
            raise CampaignError("a series about private neighbours begins with a campaign for the label alone, once")
        told_enough = ("waves", "lists") if self.answer.asks_for_lists else ("waves",)
        if not asked.documents.earlier and getattr(asked, "followed_by", None) not in told_enough:
            raise CampaignError(
                "the first document does not tell people what is published about them from now on: begin the series "
                "with a campaign whose contacts are private, and the answer that follows"
            )
        if people.fingerprint != asked.graph_sha256 or people.num_edges:
            raise CampaignError("the people are not those of the series: give its node table, and no edges")
        told = replace(
            notice,
            purpose=self.purpose or notice.purpose,
            contact=self.contact or notice.contact,
            closes=self.closes,
            retention=notice.agreed_retention(self.retention),
            version=1,
        )
        wave = NeighbourWave(
            schema=asked.schema,
            label_name=asked.label_name,
            nodes=asked.nodes,
            graph_sha256=asked.graph_sha256,
            series=NeighbourSeries(
                documents=(*asked.documents.earlier, campaign.id),
                label=label,
                answers=(*asked.answers, self.answer),
                turns=self._turns(campaign),
                people=people_of(people).sha256,
                table=table,
            ),
        )
        return Campaign(asked=wave, notice=told)

    def _turns(self, campaign: Campaign) -> int | None:
        before = campaign.asked.documents
        if not before.earlier:
            return self.turns
        if self.turns not in (None, before.turns):
            raise CampaignError("whether people answer in turns is said with the first wave: leave turns out")
        return before.turns
