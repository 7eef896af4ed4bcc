"""From reports to the graph that methods learn from: what simulations draw, collections bring in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from veilgraph.campaign import Campaign
from veilgraph.campaign.report import Report
from veilgraph.errors import CampaignError, GraphError
from veilgraph.graph import Graph, PerturbedGraph
from veilgraph.privacy.mechanisms import GRRFS


@dataclass(frozen=True, kw_only=True, eq=False)
class Codes:
    """What was reported, one row per node of the graph; where nothing was, zeros that a mask tells from reports.

    Attributes:
        features: codes of the features.
        labels: codes of the label.
        has_features: which rows of `features` are reports.
        has_label: which entries of `labels` are reports.
    """

    features: NDArray[np.unsignedinteger] = field(repr=False)
    labels: NDArray[np.int64] = field(repr=False)
    has_features: NDArray[np.bool_] = field(repr=False)
    has_label: NDArray[np.bool_] = field(repr=False)

    @property
    def has_report(self) -> NDArray[np.bool_]:
        """Which nodes reported anything."""
        return self.has_features | self.has_label


def read_codes(campaign: Campaign, graph: Graph, reports: Iterable[Report]) -> Codes:
    """The codes of reports, which are taken one at a time; those of nodes that have left the graph are passed over."""
    schema, nodes = campaign.schema, graph.num_nodes
    features = np.zeros((nodes, schema.num_features), dtype=schema.code_dtype)
    labels = np.zeros(nodes, dtype=np.int64)
    has_features, has_label = np.zeros(nodes, dtype=np.bool_), np.zeros(nodes, dtype=np.bool_)
    number_of = {name: number for number, name in enumerate(graph.names)}
    for report in reports:
        node = number_of.get(report.node)
        if node is None:
            continue
        if report.features is not None:
            features[node], has_features[node] = report.features, True
        if report.label is not None:
            labels[node], has_label[node] = report.label, True
    return Codes(features=features, labels=labels, has_features=has_features, has_label=has_label)


def perturbed_graph(campaign: Campaign, graph: Graph, reports: Iterable[Report]) -> PerturbedGraph:
    """The public graph with the campaign's reports on it; what was not reported is masked, and nothing is invented.

    Args:
        campaign: what was asked, and how it was randomized.
        graph: the public graph, as it is now: it may have grown since the campaign began.
        reports: valid ones, at most one per node; those of nodes that have left the graph are passed over.
    """
    return with_codes(campaign, graph, read_codes(campaign, graph, reports))


def with_codes(campaign: Campaign, graph: Graph, codes: Codes) -> PerturbedGraph:
    """The same, from codes that were read already."""
    if campaign.label_mechanism is None:
        raise CampaignError("the campaign collects no labels: there is nothing to learn to predict")
    return PerturbedGraph(
        graph=graph,
        schema=campaign.schema,
        features=codes.features,
        labels=codes.labels,
        has_features=codes.has_features,
        has_label=codes.has_label,
        # Where no features are asked, no node has any, and what would have randomized them does not matter.
        feature_mechanism=campaign.feature_mechanism or GRRFS(campaign.schema.domain_sizes, sampled=1, epsilon=1.0),
        label_mechanism=campaign.label_mechanism,
    )


def check_graph(campaign: Campaign, graph: Graph) -> Graph:
    """Return `graph` if it is the one that the campaign was made for."""
    if graph.fingerprint != campaign.graph:
        raise GraphError(
            f"the graph ({graph.num_nodes} nodes) is not the campaign's ({campaign.nodes} nodes): "
            "give the tables that 'campaign new' was given"
        )
    return graph


def reports_of(perturbed: PerturbedGraph, campaign: Campaign) -> Iterator[Report]:
    """The way back: the reports that a perturbed graph holds, in the order of its nodes."""
    return (
        Report(
            campaign=campaign.id,
            node=name,
            features=tuple(perturbed.features[node].tolist()) if perturbed.has_features[node] else None,
            label=int(perturbed.labels[node]) if perturbed.has_label[node] else None,
        )
        for node, name in enumerate(perturbed.graph.names)
        if perturbed.has_features[node] or perturbed.has_label[node]
    )
