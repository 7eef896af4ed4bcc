"""`veilgraph shard`: write a graph and its reports as shards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilgraph.cli._common import needs_extra, show_progress
from veilgraph.cli.named_files import GraphOptions
from veilgraph.cli.options import JsonOption, takes_groups
from veilgraph.cli.output import Facts, emit
from veilgraph.errors import RunError
from veilgraph.privacy.plain_text import counted

if TYPE_CHECKING:
    from veilgraph.graph.shards import ShardFolder


@takes_groups
def shard(
    collection: GraphOptions,
    out: Annotated[Path, typer.Option(help="Folder to write; it must not exist yet.")],
    parts: Annotated[int, typer.Option(help="Number of shards: as many as processes, or more.")] = 64,
    as_json: JsonOption = False,
) -> None:
    """Write a graph, and reports of its nodes, as a folder of Parquet shards. Tables are read in batches.

    An export of a store, .parquet, is given as --store, too.
    """
    files, campaign = collection.graph_files(), collection.campaign
    if (files.store is None) != (campaign is None):
        raise RunError("the campaign and --store belong together: give both, or neither to write the graph alone")
    with needs_extra("server"):
        from veilgraph.campaign import Campaign
        from veilgraph.deploy.shard_reports import reports_to_shard
        from veilgraph.graph.shard_writer import write_shards

    answers = graph = None
    if files.store is not None and campaign is not None:
        asked = Campaign.from_json(campaign.read_bytes())
        answers, graph = reports_to_shard(files.store, asked, watch=show_progress), asked.graph_sha256
    with show_progress("shard") as progress:
        folder = write_shards(
            out, files.graph, parts=parts, nodes=files.nodes, reports=answers, campaign_graph=graph, progress=progress
        )
    facts = {key: value for key, value in folder.manifest.items() if key not in ("format", "shards")}
    document = {"folder": str(out), "parts": folder.parts} | facts
    emit(Facts(document, _sharded_in_words(folder, facts, out)), as_json=as_json)


def _sharded_in_words(folder: ShardFolder, facts: dict[str, Any], out: Path) -> Iterator[str]:
    with_reports = f", {counted(facts['reports'], 'report')}" if folder.has_reports else ""
    yield (
        f"Wrote {counted(folder.num_nodes, 'node')} and {counted(folder.num_edges, 'edge')}{with_reports} in "
        f"{counted(folder.parts, 'shard')}: {out}"
    )
    loops, twice = facts["dropped_self_loops"], facts["dropped_duplicates"]
    if loops or twice:
        yield f"Dropped: {counted(loops, 'self loop')}, {counted(twice, 'duplicate edge')}."
    if unknown := facts["dropped_reports"]:
        yield f"Left out: {counted(unknown, 'report')} of nodes that the graph lacks."
