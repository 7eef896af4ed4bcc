"""Reports of a campaign on the nodes that one process holds, and what a training takes from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.campaign import Campaign
from veilgraph.campaign.assemble import reports_of
from veilgraph.campaign.neighbours.collection import NeighbourCollection
from veilgraph.campaign.screening import Screening
from veilgraph.distributed.exchange import ALONE, Exchange
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.models import Method

_TRAIN_SHARE = 2 / 3


@dataclass(frozen=True, kw_only=True, eq=False)
class CollectedReports:
    """What a source yields: the reports on the graph, or on the part of it that this process holds.

    Attributes:
        campaign: the campaign of the reports.
        perturbed: the reports on the graph.
        withdrawals: number of people who had withdrawn when the reports were read.
        not_to_ask: names of the people who had withdrawn or objected, as far as the source knows them.
        rounds: reports of a series that count, "all" or "latest"; None for all other campaigns.
        shards: digest of the folder of shards that graph and reports are from; None if they are from elsewhere.
        collection: documents and tables of a series about private neighbours; None for all other campaigns.
        exchange: exchanges with the processes that hold the other parts.
    """

    campaign: Campaign
    perturbed: PerturbedGraph
    withdrawals: int = 0
    not_to_ask: frozenset[str] = field(default=frozenset(), repr=False)
    rounds: str | None = None
    shards: str | None = None
    collection: NeighbourCollection | None = None
    exchange: Exchange = ALONE

    def without(self, screening: Screening) -> CollectedReports:
        """Return the reports without what screening excludes; they are no longer those of the shards."""
        return replace(self, perturbed=screening.exclude(self.perturbed), shards=None)

    def lines(self, seen: PerturbedGraph) -> Iterator[str]:
        """Yield those of the reports that a training sees, as JSON in the order of the nodes, one line each."""
        reports = reports_of(seen, self.campaign) if self.collection is None else self.collection.reports_of(seen)
        return (report.to_json() + "\n" for report in reports)

    def count(self, nodes: NDArray[np.bool_]) -> int:
        """Return the number of nodes in a mask, over all processes."""
        return int(self.exchange.sum(np.array([np.count_nonzero(nodes)]))[0])

    def counts(self, split: Split, seen: PerturbedGraph) -> dict[str, int]:
        """Return how many nodes, edges and reports there are, over all processes, and in which part of the split."""
        degrees = np.array([self.perturbed.graph.degrees.sum()])
        return {
            "nodes": self.count(np.ones(self.perturbed.graph.num_nodes, dtype=np.bool_)),
            "edges": int(self.exchange.sum(degrees)[0]) // 2,
            "feature_reports": self.count(seen.has_features),
            "label_reports": self.count(self.perturbed.has_label),
            "train": self.count(split.train),
            "validation": self.count(split.validation),
            "held_out": self.count(split.test),
        }


def split_reports(
    perturbed: PerturbedGraph, method: Method, *, seed: int, hold_out: float
) -> tuple[Split, PerturbedGraph]:
    """Split the reported labels: two thirds for training, one third for the selection of the epoch.

    Args:
        perturbed: the reports.
        method: the method, not fitted yet.
        seed: seed of the split.
        hold_out: share of the label reports that only estimate the accuracy.

    Returns:
        The split, and the reports that a training sees: no label that is held out, and no feature that nothing reads.
    """
    shares: dict[str, Any] = {"train": _TRAIN_SHARE * (1 - hold_out), "validation": (1 - _TRAIN_SHARE) * (1 - hold_out)}
    numbers, drawn = perturbed.graph.counted_nodes, shares | {"seed": seed, "eligible": perturbed.has_label}
    split = Split.random(perturbed.graph.num_nodes, **drawn) if numbers is None else Split.counted(numbers, **drawn)
    has_label, has_features = perturbed.has_label & split.labelled, perturbed.has_features & method.uses_features
    return split, replace(perturbed, has_label=has_label, has_features=has_features)
