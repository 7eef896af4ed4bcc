"""Command `veilgraph graph`: write a graph and its reports as shards, from tables or generated."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from veilgraph.cli._common import echo, echo_json, needs_extra, show_progress
from veilgraph.errors import RunError
from veilgraph.privacy.plain_text import counted

graph_app = typer.Typer(help="Write a large public graph as shards.")


@graph_app.callback()
def _graph() -> None:
    """Write a large public graph as shards."""


@graph_app.command()
def shard(
    edges: Annotated[Path, typer.Option(help="Edge table, .csv or .parquet; its first two columns name the ends.")],
    out: Annotated[Path, typer.Option(help="Folder to write; it must not exist yet.")],
    nodes: Annotated[Path | None, typer.Option(help="Node table with a column 'id', for nodes without edges.")] = None,
    reports: Annotated[
        str | None, typer.Option(help="Reports: a store (sqlite:///FILE, postgresql://...) or its export, .parquet.")
    ] = None,
    campaign: Annotated[
        Path | None, typer.Option(help="Campaign that the reports answer, .json; it must be on this graph.")
    ] = None,
    parts: Annotated[int, typer.Option(help="Number of shards: as many as processes, or more.")] = 64,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Write a graph, and reports of its nodes, as a folder of Parquet shards. Tables are read in batches."""
    if (reports is None) != (campaign is None):
        raise RunError("--reports and --campaign belong together: give both, or neither to write the graph alone")
    with needs_extra("server"):
        from veilgraph.campaign import Campaign
        from veilgraph.deploy.shard_reports import reports_to_shard
        from veilgraph.graph.shard_writer import write_shards

    given: dict[str, Any] = {}
    if reports is not None and campaign is not None:
        asked = Campaign.from_json(campaign.read_bytes())
        given = reports_to_shard(reports, asked, watch=show_progress) | {"campaign_graph": asked.graph}
    with show_progress("shard") as progress:
        folder = write_shards(out, edges, parts=parts, nodes=nodes, progress=progress, **given)
    facts = {key: value for key, value in folder.manifest.items() if key not in ("format", "shards")}
    if as_json:
        echo_json({"folder": str(out), "parts": folder.parts} | facts)
        return
    with_reports = f", {counted(facts['reports'], 'report')}" if folder.has_reports else ""
    echo(
        f"Wrote {counted(folder.num_nodes, 'node')} and {counted(folder.num_edges, 'edge')}{with_reports} in "
        f"{counted(folder.parts, 'shard')}: {out}"
    )
    loops, twice = facts["dropped_self_loops"], facts["dropped_duplicates"]
    if loops or twice:
        echo(f"Dropped: {counted(loops, 'self loop')}, {counted(twice, 'duplicate edge')}.")
    if unknown := facts["dropped_reports"]:
        echo(f"Left out: {counted(unknown, 'report')} of nodes that the graph lacks.")


@graph_app.command()
def generate(
    nodes: Annotated[int, typer.Option(help="Number of nodes.")],
    out: Annotated[Path, typer.Option(help="Folder to write; it must not exist yet.")],
    mean_degree: Annotated[float, typer.Option(help="Mean number of neighbours.")] = 20.0,
    classes: Annotated[int, typer.Option(help="Number of classes, of equal probability.")] = 4,
    homophily: Annotated[float, typer.Option(help="Probability that an edge is within a class.")] = 0.8,
    features: Annotated[int, typer.Option(help="Number of binary features; 0 collects the label alone.")] = 16,
    signal: Annotated[float, typer.Option(help="Dependence of features on the class, 0 to 1.")] = 0.5,
    epsilon_x: Annotated[float, typer.Option(help="Epsilon of each sampled feature (any two values of it).")] = 1.0,
    sampled: Annotated[int, typer.Option(help="Number of features that a device samples.")] = 4,
    epsilon_y: Annotated[float, typer.Option(help="Epsilon of the label (user level, any two records).")] = 2.0,
    label_share: Annotated[float, typer.Option(help="Share of the nodes that report their label.")] = 0.75,
    parts: Annotated[int, typer.Option(help="Number of shards; another number is another graph.")] = 64,
    jobs: Annotated[int, typer.Option(help="Number of processes; the result does not depend on it.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of graph, records and reports.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Generate a large graph of the model csbm with simulated reports, as shards with their campaign."""
    with needs_extra("lab"):
        from veilgraph.datasets.csbm_blocks import CsbmBlocks
        from veilgraph.experiments.shard_simulation import CAMPAIGN, write_simulated_shards
        from veilgraph.privacy.budget import PrivacyBudget

    model = CsbmBlocks(
        num_nodes=nodes,
        num_classes=classes,
        mean_degree=mean_degree,
        homophily=homophily,
        num_features=features,
        feature_signal=signal,
        blocks=parts,
        seed=seed,
    )
    budget = PrivacyBudget(epsilon_x, epsilon_y, sampled) if features else PrivacyBudget(epsilon_y=epsilon_y)
    with show_progress("generate") as progress:
        folder = write_simulated_shards(out, model, budget, label_share=label_share, jobs=jobs, progress=progress)
    if as_json:
        echo_json(
            {
                "folder": str(out),
                "campaign": str(out / CAMPAIGN),
                "parts": folder.parts,
                "nodes": folder.num_nodes,
                "edges": folder.num_edges,
                "reports": folder.manifest["reports"],
            }
        )
        return
    echo(
        f"Generated {counted(folder.num_nodes, 'node')} and {counted(folder.num_edges, 'edge')} with "
        f"{counted(folder.manifest['reports'], 'simulated report')} in {counted(folder.parts, 'shard')}: {out}"
    )
    echo(f"Train on them: veilgraph train --graph {out} --campaign {out / CAMPAIGN} --out model")
