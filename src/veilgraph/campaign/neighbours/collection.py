"""What a collector holds of a series about private neighbours: its documents, its published tables, and all reports."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

import numpy as np

from veilgraph.campaign.assemble import perturbed_graph, reports_of
from veilgraph.campaign.document import Campaign
from veilgraph.campaign.neighbours.people_file import people_of
from veilgraph.campaign.neighbours.series import NeighbourSeries
from veilgraph.campaign.neighbours.wave import series_of
from veilgraph.campaign.report import Report
from veilgraph.errors import CampaignError, GraphError, ReportError, RunError
from veilgraph.graph import Graph, PerturbedGraph, WaveAnswers
from veilgraph.graph.mutual_pairs import mutual_pairs
from veilgraph.privacy.belief_table import BeliefTable
from veilgraph.privacy.mechanisms import NeighbourMechanism


@dataclass(frozen=True, kw_only=True, eq=False)
class NeighbourCollection:
    """The documents of a series and the tables that were published for its waves.

    Attributes:
        documents: the first document, which asks for the label, then the document of each wave.
        tables: table of each wave; None for one that asks for randomized lists. Rows are in the order of the published
            file of people.
    """

    documents: tuple[Campaign, ...]
    tables: tuple[BeliefTable | None, ...] = field(repr=False)

    def __post_init__(self) -> None:
        first, *waves = self.documents
        if first.asked.answers:
            raise CampaignError("the first document of a series asks for the label, and this one about neighbours")
        ids = tuple(each.id for each in self.documents)
        for number, (wave, table) in enumerate(zip_longest(waves, self.tables), start=1):
            if wave is None or wave.asked.documents.earlier != ids[:number]:
                raise CampaignError(f"document {number} is not wave {number} of this series: give its own documents")
            if series_of(wave.asked).table != (None if table is None else table.sha256):
                raise CampaignError(f"the table of wave {number} is not the one that its document names: give its own")

    @classmethod
    def from_json(cls, text: str | bytes) -> NeighbourCollection:
        """Read documents and tables that `to_json` wrote."""
        stated = json.loads(text)
        tables = (None if each is None else BeliefTable.from_bytes(b64decode(each)) for each in stated["tables"])
        return cls(documents=tuple(map(Campaign.from_json, stated["documents"])), tables=tuple(tables))

    def to_json(self) -> str:
        """Return the documents and their tables as text."""
        tables = [None if each is None else b64encode(each.to_bytes()).decode() for each in self.tables]
        return json.dumps({"documents": [each.to_json() for each in self.documents], "tables": tables})

    @property
    def campaign(self) -> Campaign:
        """The newest document."""
        return self.documents[-1]

    @property
    def waves(self) -> list[NeighbourSeries]:
        """What each wave asked."""
        return [series_of(document.asked) for document in self.documents[1:]]

    def parse(self, document: object) -> Report:
        """Validate JSON values as a report of one of the documents."""
        named = document.get("campaign") if isinstance(document, dict) else None
        campaign = next((each for each in self.documents if each.id == named), None)
        if campaign is None:
            raise ReportError("the report answers a campaign of another series")
        return Report.parse(document, campaign)

    def perturbed(self, people: Graph, reports: Iterable[Report]) -> PerturbedGraph:
        """Return everything that the server knows: people, label reports, and the answers of all waves.

        Where lists were asked for, two people who name each other have an edge. Otherwise there is none.

        Args:
            people: the people of the series; the result has them in the order of its file of people.
            reports: valid reports of all documents.
        """
        published = people_of(people)
        if (
            people.num_edges
            or people.num_nodes != self.campaign.nodes
            or any(asked.people != published.sha256 for asked in self.waves)
        ):
            raise GraphError("the people are not those of the series, without edges: give its node table")
        people = people.reordered(published.names)
        of_wave: dict[int, dict[str, Any]] = {number: {} for number in range(1, len(self.documents))}
        labels = []
        for report in reports:
            if report.answer is None:
                labels.append(report)
            else:
                of_wave[report.number or 0][report.node] = report.answer
        waves = tuple(
            _wave(asked.answer, table, people, of_wave[asked.wave])
            for asked, table in zip(self.waves, self.tables, strict=True)
        )
        known = replace(perturbed_graph(self.documents[0], people, labels), neighbour_waves=waves)
        if not waves or not self.waves[-1].asks_for_lists:
            return known
        pairs = mutual_pairs(waves[-1].answers, people.num_nodes)
        if not pairs.size:
            raise RunError("no two people have named each other yet: train when more have answered")
        return replace(known, graph=Graph.from_edges(pairs, people.num_nodes, node_ids=people.node_ids))

    def reports_of(self, perturbed: PerturbedGraph) -> Iterator[Report]:
        """Return the reports of a perturbed graph, labels first, then wave by wave: the inverse of `perturbed`."""
        yield from reports_of(replace(perturbed, neighbour_waves=()), self.documents[0])
        names = perturbed.graph.names
        for campaign, asked, wave in zip(self.documents[1:], self.waves, perturbed.neighbour_waves, strict=True):
            answered = np.flatnonzero(wave.has_answer)
            rows = wave.answers[answered]
            for node, answer in zip(answered.tolist(), asked.answer.decode(rows), strict=True):
                yield Report(
                    campaign=campaign.id,
                    node=names[node],
                    number=asked.wave,
                    answer=answer if isinstance(answer, str) else tuple(answer),
                    series=asked.first,
                )


def _wave(mechanism: NeighbourMechanism, table: BeliefTable | None, people: Graph, said: dict[str, Any]) -> WaveAnswers:
    answered = np.array([name in said for name in people.names], dtype=np.bool_)
    answers = mechanism.blank(people.num_nodes)
    rows = [said[name] for name in people.names if name in said]
    if rows:
        answers[answered] = mechanism.encode(rows)
    return WaveAnswers(mechanism=mechanism, table=table, answers=answers, has_answer=answered)
