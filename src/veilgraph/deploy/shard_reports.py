"""Reports as columns: written to shards from a store or an export, and read back as codes of nodes.

Several processes share a folder of shards (`SharedReports`), and none holds more than its part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.campaign import Campaign
from veilgraph.campaign.assemble import ReportCodes, code_type, perturbed_graph_of_codes
from veilgraph.deploy.stored_reports import count_withdrawals, stored_reports
from veilgraph.distributed.exchange import Exchange
from veilgraph.distributed.shard_part import ShardHomes, ShardPart
from veilgraph.errors import CampaignError, DomainError, GraphError, ReportError
from veilgraph.graph import Graph, PerturbedGraph, PublicAttributes
from veilgraph.graph.arrow import ArrowBatch, ArrowTable, arrow, column_type
from veilgraph.graph.encoded_attributes import EncodedColumn
from veilgraph.graph.shard_manifest import shard_name
from veilgraph.graph.shard_writer import ShardedReports
from veilgraph.graph.shards import KeyIndex, ShardFolder, node_keys
from veilgraph.privacy.mechanisms import LabelMechanism
from veilgraph.privacy.mechanisms.feature_sampling import NOT_ASKED
from veilgraph.progress import Watch, unwatched

_BATCH_REPORTS = 2**14
_COLUMNS = ["node", "features", "label"]


def report_batches(source: str, campaign: Campaign, *, watch: Watch = unwatched) -> Iterator[ArrowBatch]:
    """Yield the reports of a campaign in batches with the columns `node`, `features` and `label`.

    Args:
        source: URL of a store, or a Parquet file that the dashboard exported.
        campaign: the campaign; a series of rounds is refused.
        watch: shows the progress of reading a store.
    """
    if not campaign.asked.asks_one_report:
        raise CampaignError("shards hold one report of each person: train a series of rounds from its store")
    if "://" in source:
        yield from _stored_batches(source, campaign, watch)
    else:
        yield from _exported_batches(Path(source), campaign)


def reports_to_shard(source: str, campaign: Campaign, *, watch: Watch = unwatched) -> ShardedReports:
    """Return the reports of a campaign, as `write_shards` takes them.

    Args:
        source: URL of a store, or a Parquet file that the dashboard exported.
        campaign: the campaign.
        watch: shows the progress of reading a store.
    """
    withdrawals = count_withdrawals(source, campaign) if "://" in source else 0  # before reading, as in a training
    described = {"campaign": campaign.id, "withdrawals": withdrawals}
    return ShardedReports(report_batches(source, campaign, watch=watch), described, campaign.schema.public)


def _stored_batches(store: str, campaign: Campaign, watch: Watch) -> Iterator[ArrowBatch]:
    pa = arrow()

    parts = campaign.asked.report_parts
    schema = pa.schema([("node", pa.string()), *((part, column_type(parts[part])) for part in _COLUMNS[1:])])
    with stored_reports(store, campaign, watch=watch) as reports:
        while group := list(islice(reports, _BATCH_REPORTS)):
            columns = [[getattr(report, name) for report in group] for name in _COLUMNS]
            yield pa.record_batch(columns, schema=schema)


def _exported_batches(path: Path, campaign: Campaign) -> Iterator[ArrowBatch]:
    pa = arrow()
    pq = arrow("parquet")

    try:
        with pq.ParquetFile(path) as file:
            metadata = file.schema_arrow.metadata or {}
            stated = metadata.get(b"veilgraph.campaign")
            if stated is not None and Campaign.from_json(stated).id != campaign.id:
                raise CampaignError(f"{path} holds reports of another campaign: give the campaign that they answer")
            if lacking := [name for name in _COLUMNS if name not in file.schema_arrow.names]:
                raise GraphError(f"{path} has no column '{lacking[0]}': reports have {', '.join(_COLUMNS)}")
            yield from file.iter_batches(batch_size=_BATCH_REPORTS, columns=_COLUMNS)
    except (pa.ArrowException, OSError) as error:
        raise GraphError(f"{path} is not a readable table of reports, .parquet ({type(error).__name__})") from None


def read_shard_codes(folder: ShardFolder, shard: int, keys: NDArray[np.uint64], campaign: Campaign) -> ReportCodes:
    """Read the reports of a shard and check them against the campaign; one row for each node of the shard.

    Args:
        folder: folder of the shards.
        shard: number of the shard.
        keys: keys of its nodes, sorted.
        campaign: campaign of the reports.
    """
    pa = arrow()

    table, nodes = folder.reports(shard), len(keys)
    path, mechanism = folder.path / shard_name("reports", shard), campaign.label_mechanism
    if mechanism is None:
        raise CampaignError("the campaign collects no labels: there is nothing to learn to predict")
    features = np.zeros((nodes, campaign.schema.num_features), dtype=code_type(campaign))
    labels = mechanism.blank(nodes)
    has_features, has_label = np.zeros(nodes, dtype=np.bool_), np.zeros(nodes, dtype=np.bool_)
    if table.num_rows:
        rows = folder.positions(node_keys(table.column("node").combine_chunks()), KeyIndex(keys), path.name)
        if np.bincount(rows, minlength=nodes).max() > 1:
            raise GraphError(f"{path} holds two reports of one node: write the shards again")
        try:
            given, codes = _feature_codes(_column(table, "features"), campaign)
            features[rows[given]], has_features[rows[given]] = codes, True
            given, named = _label_codes(_column(table, "label"), mechanism)
            labels[rows[given]], has_label[rows[given]] = named, True
        except (ReportError, DomainError, pa.ArrowException) as error:
            raise GraphError(f"{path}: {error}; write the shards again with reports of this campaign") from None
    return ReportCodes(
        features=features,
        labels=labels,
        has_features=has_features,
        has_label=has_label,
        feature_mechanism=campaign.feature_mechanism,
        label_mechanism=mechanism,
    )


def perturbed_from_shards(campaign: Campaign, folder: ShardFolder, graph: Graph) -> PerturbedGraph:
    """Put the reports of all shards on the whole graph of the folder, in one process.

    Args:
        campaign: campaign of the reports.
        folder: folder of the shards.
        graph: `folder.graph()`.
    """
    check_campaign(campaign, folder)
    shards = folder.each_shard(lambda shard: read_shard_codes(folder, shard, folder.nodes(shard).keys, campaign))
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(each, name) for each in shards])
        for name in ("features", "labels", "has_features", "has_label")
    }
    return perturbed_graph_of_codes(campaign, graph, replace(shards[0], **arrays))


def check_campaign(campaign: Campaign, folder: ShardFolder) -> None:
    """Refuse a folder without reports, or with reports of another campaign, or of another graph."""
    if not folder.has_reports:
        raise GraphError(f"{folder.path} holds no reports: give the store, or write it with 'veilgraph shard --store'")
    if folder.manifest["campaign"] != campaign.id:
        raise CampaignError(f"{folder.path} holds reports of another campaign: give the campaign that they answer")
    if lacking := sorted({column.name for column in campaign.schema.public} - set(folder.public_names)):
        raise GraphError(
            f"{folder.path} lacks the public column '{lacking[0]}', which the campaign declares: write it again with "
            "the table of people, by 'veilgraph shard --nodes'"
        )
    if folder.identity != campaign.graph_sha256:
        raise GraphError(
            f"{folder.path} ({folder.num_nodes} nodes) is not the campaign's graph ({campaign.nodes} nodes): "
            "give the shards of the tables that 'veilgraph init' was given"
        )


def _column(table: ArrowTable, name: str) -> Any:
    pa = arrow()

    return table.column(name).combine_chunks() if name in table.column_names else pa.nulls(table.num_rows)


def _feature_codes(column: Any, campaign: Campaign) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows that have features, and their codes [rows, features]."""
    given, sizes = _given(column), np.array(campaign.schema.domain_sizes)
    if not len(given):
        return given, np.zeros((0, len(sizes)), dtype=np.int64)
    mechanism = campaign.feature_mechanism
    if mechanism is None:
        raise ReportError("a report holds features, and the campaign collects none")
    codes = _rectangle(column.take(given), len(sizes), "features")
    asked = codes != NOT_ASKED
    if (asked.sum(axis=1) != mechanism.num_answered).any():
        raise ReportError("a report has features that were not asked for, or lacks some")
    if ((codes < 0) & asked).any() or (codes >= sizes).any():
        raise ReportError("a feature code is outside its domain")
    return given, codes


def _label_codes(column: Any, mechanism: LabelMechanism) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the rows that have a label, and their reports as the mechanism has them."""
    pa = arrow()

    given = _given(column)
    if not len(given):
        return given, mechanism.blank(0)
    values = column.take(given)
    if mechanism.report_schema["type"] == "array":
        codes = _rectangle(values, mechanism.set_size, "labels")
    else:
        codes = values.cast(pa.int64()).to_numpy(zero_copy_only=False)
    reports = mechanism.encode(codes)
    mechanism.check_reports(reports)
    return given, reports


def _given(column: Any) -> NDArray[np.int64]:
    return np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))


def _rectangle(lists: Any, width: int, what: str) -> NDArray[np.int64]:
    """Return lists of equal length as an array; an element that is null becomes NOT_ASKED."""
    pa = arrow()
    pc = arrow("compute")

    if not (pa.types.is_list(lists.type) or pa.types.is_fixed_size_list(lists.type)):
        raise ReportError(f"{what} have type {lists.type}: they must be lists of {width} codes")
    if (pc.list_value_length(lists).to_numpy(zero_copy_only=False) != width).any():
        raise ReportError(f"a report has another number of {what} than {width}")
    values = lists.flatten().cast(pa.int64()).fill_null(NOT_ASKED)
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.int64).reshape(-1, width)


@dataclass(frozen=True, kw_only=True, eq=False)
class SharedReports:
    """The reports of this process's part of the graph.

    Attributes:
        perturbed: the reports on the part.
        homes: which process reads which shard.
        to_homes: sends values of the part's nodes to the processes that read their shards.
    """

    perturbed: PerturbedGraph
    homes: ShardHomes
    to_homes: Callable[[NDArray[Any]], NDArray[Any]] = field(repr=False)

    @classmethod
    def read(
        cls, folder: ShardFolder, campaign: Campaign, exchange: Exchange, *, bag_counts: tuple[int, ...] = ()
    ) -> SharedReports:
        """Read the part of this process; a single process reads the whole graph."""
        homes = ShardHomes(folder=folder, exchange=exchange)
        if exchange.world_size == 1:
            perturbed = perturbed_from_shards(campaign, folder, folder.graph())
            perturbed = replace(perturbed, public=_public(campaign, folder, range(folder.parts)))
            return cls(perturbed=perturbed, homes=homes, to_homes=lambda rows: rows)
        part = ShardPart.read(folder, exchange)
        codes = [read_shard_codes(folder, shard, folder.nodes(shard).keys, campaign) for shard in part.homes.shards]
        arrays: dict[str, Any] = {
            name: part.from_homes(np.concatenate([getattr(each, name) for each in codes]))
            for name in ("features", "labels", "has_features", "has_label")
        }
        here = replace(codes[0], **arrays)
        del codes, arrays
        public = _public(campaign, folder, part.homes.shards, part.from_homes)
        perturbed = replace(perturbed_graph_of_codes(campaign, part.graph_part(bag_counts), here), public=public)
        return cls(perturbed=perturbed, homes=homes, to_homes=_WayHome(part.homes, part.rows.numbers))


def _public(
    campaign: Campaign,
    folder: ShardFolder,
    shards: Sequence[int],
    moved: Callable[[NDArray[Any]], NDArray[Any]] = np.asarray,
) -> PublicAttributes | None:
    """Read the campaign's public columns of some shards, moved to where their nodes belong; None if it has none."""
    told = {column.name for column in campaign.schema.public}  # the folder may have some of an earlier notice
    if not told:
        return None
    parts = [[each for each in folder.public(shard) if each.name in told] for shard in shards]
    return PublicAttributes(tuple(EncodedColumn.joined(each, moved) for each in zip(*parts, strict=True)))


@dataclass(frozen=True)
class _WayHome:
    """Sends values of a part's nodes to the processes that read their shards; it does not keep the part's rows."""

    homes: ShardHomes
    numbers: NDArray[np.int64]

    def __call__(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the values of this home's nodes, in the order of its shards."""
        to = self.homes.of_numbers(self.numbers)
        arrived, _ = self.homes.exchange.send(self.numbers, to)
        return self.homes.exchange.send(values, to)[0][np.argsort(arrived)]
