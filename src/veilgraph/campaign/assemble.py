"""Assembly of reports into the `PerturbedGraph` that methods learn from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.campaign.document import Campaign
from veilgraph.campaign.report import Report
from veilgraph.errors import CampaignError, GraphError
from veilgraph.graph import Graph, PerturbedGraph
from veilgraph.graph.links import told_about_links
from veilgraph.privacy.mechanisms import GRRFS, JointGRR, LabelMechanism, LongitudinalFeatures, RoundEvidence
from veilgraph.privacy.mechanisms.feature_sampling import NOT_ASKED
from veilgraph.privacy.mechanisms.round_evidence import NO_REPORT

ROUNDS = ("all", "latest")
"""Reports of a series that are learned from: all of each person, which is the default, or the latest."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ReportCodes:
    """Codes of all reports, one row for each node of the graph; rows without a report are zero and masked.

    Attributes:
        features: codes of the features, `[nodes, features]`; those that all rounds of a series give together.
        labels: reports of the label as its mechanism has them: `[nodes]`, `[nodes, words]` or `[nodes, rounds]`.
        has_features: mask of the rows of `features` that were reported, `[nodes]`.
        has_label: mask of the entries of `labels` that were reported, `[nodes]`.
        feature_mechanism: that reads `features`; None if no features are collected.
        label_mechanism: that reads `labels`; None if no label is collected.
        feature_rounds: features in each round of a series, `[nodes, rounds, features]`; None where they are asked once.
        has_answer: mask of the nodes that answered a wave about neighbours, `[nodes]`; None where none is asked.
    """

    features: NDArray[Any] = field(repr=False)
    labels: NDArray[Any] = field(repr=False)
    has_features: NDArray[np.bool_] = field(repr=False)
    has_label: NDArray[np.bool_] = field(repr=False)
    feature_mechanism: GRRFS | JointGRR | LongitudinalFeatures | None
    label_mechanism: LabelMechanism | None
    feature_rounds: NDArray[Any] | None = field(default=None, repr=False)
    has_answer: NDArray[np.bool_] | None = field(default=None, repr=False)

    @property
    def has_report(self) -> NDArray[np.bool_]:
        """Mask of the nodes that reported anything, `[nodes]`."""
        reported = self.has_features | self.has_label
        return reported if self.has_answer is None else reported | self.has_answer


def read_codes(campaign: Campaign, graph: Graph, reports: Iterable[Report], *, rounds: str = ROUNDS[0]) -> ReportCodes:
    """Collect the codes of reports in arrays; reports of nodes that left the graph are ignored.

    Args:
        campaign: campaign of the reports.
        graph: the public graph, as it is now.
        reports: valid reports, at most one for each node and round; they are read one at a time.
        rounds: reports of a series to learn from, one of `ROUNDS`.
    """
    if rounds not in ROUNDS:
        raise CampaignError(f"rounds is '{rounds}': choose {' or '.join(ROUNDS)}")
    mechanism, asked, nodes = campaign.label_mechanism, campaign.feature_mechanism, graph.num_nodes
    features = np.zeros((nodes, campaign.schema.num_features), dtype=code_type(campaign))
    of_rounds = None
    if isinstance(asked, LongitudinalFeatures):
        of_rounds = np.full((nodes, asked.rounds, asked.num_features), NOT_ASKED, dtype=asked.code_type)
    labels = np.zeros(nodes, dtype=np.int64) if mechanism is None else mechanism.blank(nodes)
    has_features, has_label, has_answer = (np.zeros(nodes, dtype=np.bool_) for _ in range(3))
    number_of = {name: number for number, name in enumerate(graph.names)}
    named: dict[int, Any] = {}
    for report in reports:
        node = number_of.get(report.node)
        if node is None:
            continue
        has_answer[node] = report.answer is not None
        if report.features is not None:
            codes = [NOT_ASKED if code is None else code for code in report.features]
            row = features[node] if of_rounds is None or report.number is None else of_rounds[node, report.number - 1]
            row[:], has_features[node] = codes, True
        if report.label is not None and report.number is not None:
            labels[node, report.number - 1], has_label[node] = report.label, True
        elif report.label is not None:
            named[node], has_label[node] = report.label, True
    if isinstance(mechanism, RoundEvidence):
        mechanism = RoundEvidence.of(mechanism, labels, latest=rounds == "latest")
    if isinstance(asked, LongitudinalFeatures) and of_rounds is not None:
        asked = asked.combining(of_rounds, latest=rounds == "latest")
        features = asked.evidence(of_rounds)
    if named and campaign.label_mechanism is not None:
        labels[list(named)] = campaign.label_mechanism.encode([*named.values()])
    return ReportCodes(
        features=features,
        labels=labels,
        has_features=has_features,
        has_label=has_label,
        feature_mechanism=asked,
        label_mechanism=mechanism,
        feature_rounds=of_rounds,
        has_answer=has_answer,
    )


def code_type(campaign: Campaign) -> type[np.integer[Any]]:
    """Return the type of feature codes in the reports of a campaign."""
    mechanism = campaign.feature_mechanism
    return campaign.schema.code_dtype if mechanism is None else mechanism.code_type


def perturbed_graph(
    campaign: Campaign, graph: Graph, reports: Iterable[Report], *, rounds: str = ROUNDS[0]
) -> PerturbedGraph:
    """Combine the public graph with the campaign's reports; what was not reported is masked.

    Args:
        campaign: campaign of the reports.
        graph: the public graph, as it is now: it may have grown since the campaign began.
        reports: valid reports, at most one for each node and round; those of nodes that left the graph are ignored.
        rounds: reports of a series to learn from, one of `ROUNDS`.
    """
    return perturbed_graph_of_codes(campaign, graph, read_codes(campaign, graph, reports, rounds=rounds))


def perturbed_graph_of_codes(campaign: Campaign, graph: Graph, codes: ReportCodes) -> PerturbedGraph:
    """Combine the public graph with the codes of the campaign's reports."""
    if codes.label_mechanism is None:
        raise CampaignError("the campaign collects no labels: there is nothing to learn to predict")
    return PerturbedGraph(
        graph=graph,
        schema=campaign.schema,
        features=codes.features,
        labels=codes.labels,
        has_features=codes.has_features,
        has_label=codes.has_label,
        feature_mechanism=codes.feature_mechanism,
        label_mechanism=codes.label_mechanism,
        feature_rounds=codes.feature_rounds,
    )


def check_graph(campaign: Campaign, graph: Graph) -> Graph:
    """Return `graph` if the campaign was made for it, and told people what is known about its links."""
    if graph.fingerprint != campaign.graph_sha256:
        raise GraphError(
            f"the graph ({graph.num_nodes} nodes) is not the campaign's ({campaign.nodes} nodes): "
            "give the tables that 'veilgraph init' was given"
        )
    if untold := sorted({column.name for column in set(told_about_links(graph.links)) - set(campaign.notice.public)}):
        raise CampaignError(
            f"the table of links says {untold[0]}, and the notice does not tell people: put it back among the public "
            "columns of the notice, or begin another campaign without it"
        )
    return graph


def reports_of(perturbed: PerturbedGraph, campaign: Campaign) -> Iterator[Report]:
    """Return the reports of a perturbed graph, in the order of nodes and rounds: the inverse of `perturbed_graph`."""
    mechanism, has_label = perturbed.label_mechanism, np.flatnonzero(perturbed.has_label)
    labels = perturbed.labels[has_label]
    label_of = dict(zip(has_label.tolist(), mechanism.decode(labels), strict=True))
    for node, name in enumerate(perturbed.graph.names):
        if perturbed.has_features[node] or node in label_of:
            report = Report(campaign=campaign.id, node=name, features=None, label=None)
            if campaign.asked.stored_number is not None:
                features = _reported(perturbed.features[node]) if perturbed.has_features[node] else None
                yield replace(report, features=features, label=label_of.get(node))
            else:
                yield from _reports_of_rounds(perturbed, node, report, label_of.get(node))


def _reports_of_rounds(
    perturbed: PerturbedGraph, node: int, report: Report, labels: list[int] | None
) -> Iterator[Report]:
    """Return the reports of one node in each round in which it sent one."""
    codes = perturbed.feature_rounds if perturbed.has_features[node] else None
    count = len(codes[node]) if codes is not None else len(labels or ())
    for number in range(count):
        features = None if codes is None else _reported(codes[node, number])
        label = None if labels is None or labels[number] == NO_REPORT else labels[number]
        if features is not None or label is not None:
            yield replace(report, features=features, label=label, number=number + 1)


def _reported(codes: NDArray[Any]) -> tuple[int | None, ...] | None:
    """Return the features of a report; None if it has none."""
    found = tuple(None if code == NOT_ASKED else code for code in codes.tolist())
    return None if all(code is None for code in found) else found
