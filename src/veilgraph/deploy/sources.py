"""Sources of the reports of a training: a store, shards, a series about private neighbours, or memory.

Each puts the reports that one process holds on the nodes of that process (`CollectedReports`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.campaign import Campaign
from veilgraph.campaign.assemble import ROUNDS, check_graph, perturbed_graph, reports_of
from veilgraph.campaign.neighbours.collection import NeighbourCollection
from veilgraph.campaign.screening import Screening
from veilgraph.campaign.series_folder import newest_document
from veilgraph.deploy.publish_wave import SERIES_SEED, read_collection
from veilgraph.deploy.shard_reports import SharedReports, check_campaign
from veilgraph.deploy.shards_of_tables import PARTS, write_shards_of_tables
from veilgraph.deploy.stored_reports import count_withdrawals, stored_reports, withdrawn_people
from veilgraph.deploy.training_options import TrainingOptions
from veilgraph.distributed.exchange import ALONE, Exchange
from veilgraph.distributed.process_group import ProcessGroup
from veilgraph.errors import RunError
from veilgraph.graph import Graph, PerturbedGraph, Split, read_public
from veilgraph.graph.graph import GraphSize
from veilgraph.graph.shards import ShardFolder, check_graph_path, read_graph
from veilgraph.models import Method
from veilgraph.progress import Watch, unwatched

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
        """Return the reports without what screening excludes; they then differ from the shards."""
        return replace(self, perturbed=screening.exclude(self.perturbed), shards=None)

    def lines(self, seen: PerturbedGraph) -> Iterator[str]:
        """Yield the reports that a training sees, as JSON in the order of the nodes, one line each."""
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


_NO_REPORTS = "there are no reports: give the store, or a folder of shards with reports as the graph"


class Source(ABC):
    """Where a training finds its reports; `read` yields them on the graph.

    Attributes:
        campaign: the campaign of the reports; of a series its newest document.
    """

    campaign: Campaign

    @property
    @abstractmethod
    def graph(self) -> GraphSize:
        """The public graph, or what is known of it before it is read."""

    @property
    def sharded_nodes(self) -> int:
        """Number of nodes if the graph is a folder of shards, which may be too many for one process; otherwise 0."""
        return 0

    def refusal(self, options: TrainingOptions) -> str | None:
        """Return why options do not fit the reports, with the remedy; None if they do."""
        return None

    def shared(self, processes: ProcessGroup, *, out: Path, watch: Watch = unwatched) -> Source:
        """Return the source from which several processes read their shares; refuse one that needs a single process.

        Args:
            processes: the processes, all of which call this function.
            out: folder of the model.
            watch: shows the progress.
        """
        raise RunError("these reports need one process that holds all of them: start without torchrun")

    @abstractmethod
    def read(
        self, exchange: Exchange = ALONE, *, bag_counts: tuple[int, ...] = (), watch: Watch = unwatched
    ) -> CollectedReports:
        """Return the reports on the graph, or on the part of it that this process holds.

        Args:
            exchange: exchanges with the processes that share the graph.
            bag_counts: numbers of clusters of the whole graph that a part carries along.
            watch: shows the progress.
        """


@dataclass(frozen=True, kw_only=True, eq=False)
class GivenReports(Source):
    """Reports in memory, such as simulated ones.

    Attributes:
        campaign: the campaign.
        perturbed: the reports on the graph.
    """

    campaign: Campaign
    perturbed: PerturbedGraph

    @property
    def graph(self) -> Graph:
        """The graph of the reports."""
        return self.perturbed.graph

    def read(
        self, exchange: Exchange = ALONE, *, bag_counts: tuple[int, ...] = (), watch: Watch = unwatched
    ) -> CollectedReports:
        """Return the reports."""
        return CollectedReports(campaign=self.campaign, perturbed=self.perturbed)


@dataclass(frozen=True, kw_only=True, eq=False)
class StoreSource(Source):
    """Reports of a store, on a public graph.

    Attributes:
        campaign: the campaign.
        store: URL of the store: `sqlite:///FILE` or `postgresql://...`.
        table: the public graph that the campaign was made for, or its edge table, or its folder of shards.
        nodes: node table with a column "id", for nodes without edges in an edge table.
        rounds: reports of a series to learn from: "all" of each person, or the "latest", if many values change.
    """

    campaign: Campaign
    store: str = field(repr=False)
    table: Path | Graph
    nodes: Path | None = None
    rounds: str = ROUNDS[0]

    @cached_property
    def graph(self) -> Graph:
        """The public graph, read on first use."""
        graph = self.table if isinstance(self.table, Graph) else read_graph(self.table, nodes=self.nodes)
        return check_graph(self.campaign, graph)

    @property
    def sharded_nodes(self) -> int:
        """Number of nodes of a folder of shards."""
        folder = self.table if isinstance(self.table, Path) and self.table.is_dir() else None
        return 0 if folder is None else ShardFolder.open(folder).num_nodes

    def shared(self, processes: ProcessGroup, *, out: Path, watch: Watch = unwatched) -> ShardSource:
        """Write an edge table and the reports as shards, beside the model, in the process that leads."""
        if isinstance(self.table, Graph):
            raise RunError("several processes read an edge table or a folder of shards: give its path")
        if self.table.is_dir():
            raise RunError(
                "several processes, and one on a large graph, read reports from the shards: write them with "
                "'veilgraph shard --store', and leave the store out here"
            )
        folder, parts = None, max(PARTS, processes.world_size)
        if processes.is_leader:
            folder = write_shards_of_tables(
                self.store, self.campaign, self.table, nodes=self.nodes, out=out, parts=parts, watch=watch
            )
        return ShardSource(campaign=self.campaign, path=processes.broadcast(folder))

    def read(
        self, exchange: Exchange = ALONE, *, bag_counts: tuple[int, ...] = (), watch: Watch = unwatched
    ) -> CollectedReports:
        """Put the reports of the store on the graph."""
        withdrawals = count_withdrawals(self.store, self.campaign)  # before reading: a later one may be in the model
        with stored_reports(self.store, self.campaign, watch=watch) as reports:
            perturbed = perturbed_graph(self.campaign, self.graph, reports, rounds=self.rounds)
        public = read_public(self.campaign.schema.public, self.nodes, self.graph)
        rounds = None if self.campaign.asked.first_round is None else self.rounds
        return CollectedReports(
            campaign=self.campaign,
            perturbed=replace(perturbed, public=public),
            withdrawals=withdrawals,
            not_to_ask=frozenset(withdrawn_people(self.store, self.campaign)),
            rounds=rounds,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class ShardSource(Source):
    """Reports that are written beside the graph in a folder of shards; each process reads its own.

    Attributes:
        campaign: the campaign.
        path: folder of the shards.
    """

    campaign: Campaign
    path: Path

    @cached_property
    def graph(self) -> ShardFolder:
        """The folder, whose manifest states the size of the graph."""
        folder = ShardFolder.open(self.path)
        check_campaign(self.campaign, folder)
        return folder

    @property
    def sharded_nodes(self) -> int:
        """Number of nodes of the folder."""
        return ShardFolder.open(self.path).num_nodes

    def shared(self, processes: ProcessGroup, *, out: Path, watch: Watch = unwatched) -> ShardSource:
        """Return the same source: each process reads its shards."""
        return self

    def read(
        self, exchange: Exchange = ALONE, *, bag_counts: tuple[int, ...] = (), watch: Watch = unwatched
    ) -> CollectedReports:
        """Read the part of this process; a single process reads the whole graph."""
        folder = self.graph
        with watch("read shards"):
            part = SharedReports.read(folder, self.campaign, exchange, bag_counts=bag_counts)
        return CollectedReports(
            campaign=self.campaign,
            perturbed=part.perturbed,
            withdrawals=int(folder.manifest.get("withdrawals", 0)),
            shards=folder.digest,
            exchange=exchange,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class SeriesSource(Source):
    """Reports of a series about private neighbours, in a store.

    Attributes:
        campaign: the newest document of the series.
        store: URL of the store.
        people: the people of the series, or the table of their ids.
        tables: folder of the published tables; None if there is none.
    """

    campaign: Campaign
    store: str = field(repr=False)
    people: Path | Graph
    tables: Path | None = None

    @cached_property
    def graph(self) -> Graph:
        """The people, without edges, read on first use."""
        people = self.people if isinstance(self.people, Graph) else read_graph(self.people)
        return check_graph(self.campaign, people)

    def refusal(self, options: TrainingOptions) -> str | None:
        """Refuse held-out labels, and another seed than the seed of the published tables."""
        if self.campaign.asked.has_edges or (options.seed == SERIES_SEED and not options.hold_out):
            return None
        return (
            "a series about neighbours is judged by people whose reports are in no table, and its seed is "
            f"{SERIES_SEED}: leave the settings seed and hold_out out"
        )

    def read(
        self, exchange: Exchange = ALONE, *, bag_counts: tuple[int, ...] = (), watch: Watch = unwatched
    ) -> CollectedReports:
        """Put all labels and answers of the series on its people."""
        withdrawals = count_withdrawals(self.store, self.campaign)  # before reading: a later one may be in the model
        collection, perturbed = read_collection(self.store, self.campaign, self.graph, self.tables, watch=watch)
        return CollectedReports(
            campaign=self.campaign,
            perturbed=perturbed,
            withdrawals=withdrawals,
            not_to_ask=frozenset(withdrawn_people(self.store, self.campaign)),
            collection=collection,
        )


def open_source(
    campaign: Path | Campaign,
    graph: Path | Graph,
    *,
    store: str | None = None,
    nodes: Path | None = None,
    rounds: str = ROUNDS[0],
    tables: Path | None = None,
) -> Source:
    """Return the source of the reports of a campaign.

    Args:
        campaign: the campaign, or its file.
        graph: the public graph that the campaign was made for, or its edge table, or its folder of shards.
        store: URL of the store: `sqlite:///FILE` or `postgresql://...`; None reads the reports of a folder of shards.
        nodes: node table with a column "id", for nodes without edges in an edge table.
        rounds: reports of a series to learn from: "all" of each person, or the "latest", if many values change.
        tables: folder of a series about private neighbours; its newest wave is taken, whichever document is given.
    """
    document = campaign if isinstance(campaign, Campaign) else Campaign.from_json(campaign.read_bytes())
    document = document if tables is None else newest_document(tables, document)
    if store is None:
        if not isinstance(graph, Path) or not check_graph_path(graph).is_dir():
            raise RunError(_NO_REPORTS)
        return ShardSource(campaign=document, path=graph)
    if document.asked.answers:
        return SeriesSource(campaign=document, store=store, people=graph, tables=tables)
    return StoreSource(campaign=document, store=store, table=graph, nodes=nodes, rounds=rounds)
