"""A simulated collection on a large graph, written as shards by several processes: each draws its own blocks."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.atomic_files import write_atomically
from veilgraph.campaign import Campaign
from veilgraph.campaign.budget import CampaignBudget
from veilgraph.campaign.notice import Notice
from veilgraph.datasets.csbm_blocks import CsbmBlocks
from veilgraph.errors import RunError
from veilgraph.graph import Graph
from veilgraph.graph.arrow import ArrowTable, arrow
from veilgraph.graph.counters import counter_words
from veilgraph.graph.shard_writer import ShardWriter, drafted_folder, write_shard
from veilgraph.graph.shards import ShardFolder
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.progress import Progress, no_progress

CAMPAIGN = "campaign.json"
_REPORTING, _REPORTS = 10, 11
_CLOSES = datetime(2100, 1, 1, tzinfo=UTC)


def write_simulated_shards(
    folder: Path,
    blocks: CsbmBlocks,
    budget: PrivacyBudget,
    *,
    label_share: float = 0.75,
    jobs: int = 1,
    progress: Progress = no_progress,
) -> ShardFolder:
    """Draw a graph and the reports of its nodes, and write them as shards with their campaign (`campaign.json`).

    Each block is one shard. Nothing but the graph and randomized reports is written; `blocks.labels` has true classes.

    Args:
        folder: folder to write; it must not exist yet, or be empty.
        blocks: the model of graph and records.
        budget: epsilons and number of sampled features; a budget for the label alone collects no features.
        label_share: probability that a node reports its label. All nodes report their features.
        jobs: number of processes; the result does not depend on it.
        progress: called after each shard.
    """
    if not 0 < label_share <= 1:
        raise RunError(f"label_share is {label_share}: give a probability above 0, at most 1")
    campaign = _campaign(blocks, budget)
    with drafted_folder(folder, blocks.blocks) as draft:
        write = partial(_write_block, draft, blocks, campaign, label_share)
        writer = ShardWriter(draft, ids="integer", reports=True)
        for done, described in enumerate(_mapped(write, blocks.blocks, jobs), start=1):
            writer.shards.append(described)
            progress("shards", done, blocks.blocks)
        writer.write_manifest()
        campaign = replace(campaign, asked=replace(campaign.asked, graph_sha256=ShardFolder.open(draft).identity))
        writer.write_manifest(described={"campaign": campaign.id, "withdrawals": 0}, identity=campaign.graph_sha256)
        write_atomically(draft / CAMPAIGN, campaign.to_json(), public=True)
    return ShardFolder.open(folder)


def _mapped(write: partial[dict[str, Any]], count: int, jobs: int) -> Iterator[dict[str, Any]]:
    if jobs == 1:
        yield from map(write, range(count))
        return
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(write, range(count))


def _campaign(blocks: CsbmBlocks, budget: PrivacyBudget) -> Campaign:
    """Return the campaign of the simulation, for a graph that is not known yet."""
    features = budget.collects_features and blocks.num_features > 0
    made = Campaign.new(
        schema=blocks.schema,
        graph=Graph.from_edges([[0], [1]], num_nodes=2),
        notice=Notice(purpose="A simulated collection.", contact="none: nobody is asked", closes=_CLOSES),
        budget=CampaignBudget(
            epsilon_x=budget.epsilon_x if features else None,
            sampled=budget.sampled if features else None,
            epsilon_y=budget.epsilon_y,
        ),
        nonce="0" * 32,  # nobody is asked, and the same simulation gives the same files
    )
    return replace(made, asked=replace(made.asked, nodes=blocks.num_nodes))


def _write_block(
    folder: Path, blocks: CsbmBlocks, campaign: Campaign, label_share: float, block: int
) -> dict[str, Any]:
    """Write the shards of one block, and return their descriptions."""
    pa, numbers = arrow(), blocks.numbers(block)
    ids = blocks.ids(numbers)
    described = {"nodes": write_shard(folder, "nodes", block, pa.table({"id": ids}))}
    source, target = blocks.edges(block)
    edges = pa.table({"source": blocks.ids(source), "target": blocks.ids(target)})
    described["edges"] = write_shard(folder, "edges", block, edges)
    del edges, source, target
    reports = _reports(blocks, campaign, label_share, block, numbers, ids)
    described["reports"] = write_shard(folder, "reports", block, reports)
    return described


def _reports(
    blocks: CsbmBlocks,
    campaign: Campaign,
    label_share: float,
    block: int,
    numbers: NDArray[np.int64],
    ids: NDArray[np.int64],
) -> ArrowTable:
    """Return the randomized reports of a block, with columns node, features and label."""
    pa = arrow()
    label_rng, feature_rng = np.random.default_rng([blocks.seed, _REPORTS, block]).spawn(2)
    columns: dict[str, Any] = {"node": ids}
    if campaign.feature_mechanism is not None:
        codes = campaign.feature_mechanism.randomize(blocks.features(block), rng=feature_rng)
        columns["features"] = pa.FixedSizeListArray.from_arrays(pa.array(codes.ravel()), blocks.num_features)
    mechanism = campaign.label_mechanism
    if mechanism is None:
        raise RunError("a simulation on shards asks for the label: give epsilon_y")
    reporting = counter_words(numbers, seed=blocks.seed, stream=_REPORTING) / 2.0**64 < label_share
    reports = mechanism.randomize(blocks.labels(numbers[reporting]), rng=label_rng)
    if reports.ndim > 1:  # sets of classes, as bit masks
        codes = np.nonzero(mechanism.named(reports))[1].astype(np.int32)
        ends = np.concatenate([[0], np.cumsum(reporting)]) * mechanism.set_size
        columns["label"] = pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), codes, mask=pa.array(~reporting))
    else:
        values = np.zeros(len(numbers), dtype=np.int32)
        values[reporting] = reports
        columns["label"] = pa.array(values, mask=~reporting)
    table = pa.table(columns)
    return table if campaign.feature_mechanism is not None else table.filter(pa.array(reporting))
