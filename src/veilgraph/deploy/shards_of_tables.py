"""Shards that a training of several processes writes of an edge table and a store."""

from __future__ import annotations

import shutil
from pathlib import Path

from veilgraph.campaign import Campaign
from veilgraph.deploy.model_folder import check_model_folder
from veilgraph.deploy.shard_reports import reports_to_shard
from veilgraph.distributed.shard_part import CUTS
from veilgraph.graph.shard_manifest import MANIFEST
from veilgraph.graph.shard_writer import ShardOptions, write_shards
from veilgraph.graph.shards import check_graph_path
from veilgraph.progress import Watch, unwatched

PARTS = 64
"""Number of shards of a table, or more with more processes."""


def shards_beside(out: Path) -> Path:
    """Return the folder of the shards that a training on tables writes beside its model."""
    return out.with_name(f"{out.name}.shards")


def write_shards_of_tables(
    store: str,
    campaign: Campaign,
    edges: Path,
    *,
    out: Path,
    nodes: Path | None = None,
    parts: int = PARTS,
    watch: Watch = unwatched,
) -> Path:
    """Write an edge table and the reports of a store as shards beside the model's folder, in bounded memory.

    Shards of an earlier start are written again, since people may have withdrawn. Parts that were found are kept: they
    are used if the graph is the same.

    Args:
        store: URL of the store.
        campaign: the campaign.
        edges: edge table, .csv or .parquet.
        out: folder of the model.
        nodes: node table with a column "id", for nodes without edges.
        parts: number of shards.
        watch: shows the progress.

    Returns:
        The folder.
    """
    check_graph_path(edges)
    check_model_folder(out)
    folder, reports = shards_beside(out), reports_to_shard(store, campaign, watch=watch)
    cuts = out.with_name(f".{out.name}.cuts.part")
    if (folder / MANIFEST).exists():
        shutil.rmtree(cuts, ignore_errors=True)
        if (folder / CUTS).exists():
            (folder / CUTS).rename(cuts)
        shutil.rmtree(folder)
    with watch("shards") as progress:
        write_shards(
            folder,
            edges,
            parts=parts,
            nodes=nodes,
            options=ShardOptions(fingerprinted=True),
            progress=progress,
            reports=reports,
        )
    if cuts.exists():
        cuts.rename(folder / CUTS)
    return folder
