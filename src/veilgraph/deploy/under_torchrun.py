"""Training and prediction under torchrun: the same call in every process.

Several processes read a folder of shards, each its own. An edge table and a store are written as such a folder first.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from veilgraph.campaign import Campaign
from veilgraph.deploy.fit_collected import DEFAULT_METHOD, train_on_store
from veilgraph.deploy.fit_shards import ShardAnswers, predict_shards, train_on_shards
from veilgraph.deploy.model_folder import Model, check_model_folder
from veilgraph.deploy.prediction import CERTAIN
from veilgraph.deploy.shard_reports import reports_to_shard
from veilgraph.distributed.process_group import join_process_group
from veilgraph.distributed.shard_part import CUTS
from veilgraph.errors import RunError
from veilgraph.graph import Graph
from veilgraph.graph.shard_writer import write_shards
from veilgraph.graph.shards import MANIFEST, ShardFolder, check_graph_path
from veilgraph.models.base import DEFAULT_MEMORY
from veilgraph.models.engine.device import resolve_device
from veilgraph.progress import Watch, unwatched

_PARTS = 64
"""Number of shards of a table, or more with more processes."""

MAX_KEPT_NODES = 5_000_000
"""Largest number of nodes in shards whose reports and probabilities one process keeps in the model's folder."""

_ONE_PROCESS = {"nodes": "--nodes", "screened": "--screen", "plausible": "--plausible", "tables": "--tables"}
"""Options that need the whole graph or all reports in one process."""


def train_under_torchrun(
    store: str | None,
    campaign: Path,
    graph: Path | Graph,
    *,
    out: Path,
    device: str = "auto",
    memory: int = DEFAULT_MEMORY,
    max_kept_nodes: int = MAX_KEPT_NODES,
    **options: Any,
) -> Model | None:
    """Call `train_on_shards` in every process that torchrun started; none ever holds more than its share.

    From an edge table, the leader writes shards first (`write_shards_of_tables`). Without torchrun there is one
    process, which calls `train_on_store`, except on shards of more than `max_kept_nodes` nodes.

    Returns:
        The model in the process that leads, None in the others.
    """
    with join_process_group(resolve_device(device)) as processes:
        if processes.world_size == 1 and not _is_large(graph, max_kept_nodes):
            return train_on_store(store, campaign, graph, out=out, device=device, memory=memory, **options)
        if isinstance(graph, Graph):
            raise RunError("several processes read an edge table or a folder of shards: give its path")
        shards = graph
        if not graph.is_dir():
            nodes, parts = options.pop("nodes", None), max(_PARTS, processes.world_size)
            if processes.is_leader:
                options_of_shards(None, options)  # refused before anything is written
                watch = options.get("watch", unwatched)
                shards = write_shards_of_tables(store, campaign, graph, nodes=nodes, out=out, parts=parts, watch=watch)
            shards, store = processes.broadcast(shards), None
        return train_on_shards(
            processes, campaign, shards, out=out, device=device, memory=memory, **options_of_shards(store, options)
        )


def _is_large(graph: Path | Graph, max_kept_nodes: int) -> bool:
    """Tell whether a graph is a folder of shards with too many nodes to keep their reports in a model."""
    return isinstance(graph, Path) and graph.is_dir() and ShardFolder.open(graph).num_nodes > max_kept_nodes


def shards_beside(out: Path) -> Path:
    """Return the folder of the shards that a training on tables writes beside its model."""
    return out.with_name(f"{out.name}.shards")


def write_shards_of_tables(
    store: str | None,
    campaign: Path,
    edges: Path,
    *,
    out: Path,
    nodes: Path | None = None,
    parts: int = _PARTS,
    watch: Watch = unwatched,
) -> Path:
    """Write an edge table and the reports of a store as shards beside the model's folder, in bounded memory.

    Shards of an earlier start are written again, since people may have withdrawn. Parts that were found are kept: they
    are used if the graph is the same.

    Args:
        store: URL of the store.
        campaign: file of the campaign.
        edges: edge table, .csv or .parquet.
        out: folder of the model.
        nodes: node table with a column "id", for nodes without edges.
        parts: number of shards.
        watch: shows the progress.

    Returns:
        The folder.
    """
    check_graph_path(edges)
    if store is None:
        raise RunError("there are no reports: give --store, or a folder of shards with reports as --graph")
    check_model_folder(out)
    folder, reports = (
        shards_beside(out),
        reports_to_shard(store, Campaign.from_json(campaign.read_bytes()), watch=watch),
    )
    cuts = out.with_name(f".{out.name}.cuts.part")
    if (folder / MANIFEST).exists():
        shutil.rmtree(cuts, ignore_errors=True)
        if (folder / CUTS).exists():
            (folder / CUTS).rename(cuts)
        shutil.rmtree(folder)
    with watch("shards") as progress:
        write_shards(folder, edges, parts=parts, nodes=nodes, fingerprinted=True, progress=progress, **reports)
    if cuts.exists():
        cuts.rename(folder / CUTS)
    return folder


def predict_under_torchrun(
    folder: Path,
    shards: Path,
    out: Path,
    *,
    device: str = "auto",
    coverage: float | None = None,
    certain: float = CERTAIN,
    watch: Watch = unwatched,
) -> tuple[Model, ShardAnswers] | None:
    """Call `predict_shards` in every process that torchrun started, or in one.

    Args:
        folder: folder of the model.
        shards: folder of the graph's shards, with reports.
        out: folder of the predictions.
        device: "auto", "cpu" or "cuda".
        coverage: probability with which a set holds the true class; default: 0.9, and no sets where the method gives
            none.
        certain: least probability of an answer that counts as certain enough.
        watch: shows the progress of the leader.

    Returns:
        The model and what it predicted in the process that leads, None in the others.
    """
    with join_process_group(resolve_device(device)) as processes:
        model = Model.load(folder, device=device)
        found = predict_shards(processes, model, shards, out, coverage=coverage, certain=certain, watch=watch)
        return None if found is None else (model, found)


def options_of_shards(store: str | None, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of `train_on_shards`; refuse those that need one process."""
    if store is not None:
        raise RunError(
            "several processes, and one on a large graph, read reports from the shards: write them with veilgraph "
            "graph shard --reports, and leave --store out"
        )
    for name, option in _ONE_PROCESS.items():
        if options.get(name):
            raise RunError(
                f"{option} needs one process that holds all reports: leave it out, or start without torchrun on a "
                "smaller graph"
            )
    others = {name: value for name, value in options.items() if name not in (*_ONE_PROCESS, "waves", "card")}
    return others | {"method": options.get("method") or DEFAULT_METHOD}
