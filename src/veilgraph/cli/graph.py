"""Command `veilgraph graph`: write a graph and its reports as shards, from tables or generated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilgraph.cli._common import needs_extra, show_progress
from veilgraph.cli.options import EdgelessNodesOption, JsonOption, takes_groups
from veilgraph.cli.output import Facts, emit
from veilgraph.errors import RunError
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.plain_text import counted

if TYPE_CHECKING:
    from veilgraph.graph.shards import ShardFolder

graph_app = typer.Typer(help="Write a large public graph as shards.")


@graph_app.callback()
def _graph() -> None:
    """Write a large public graph as shards."""


@graph_app.command()
def shard(
    edges: Annotated[Path, typer.Option(help="Edge table, .csv or .parquet; its first two columns name the ends.")],
    out: Annotated[Path, typer.Option(help="Folder to write; it must not exist yet.")],
    nodes: EdgelessNodesOption = None,
    reports: Annotated[
        str | None, typer.Option(help="Reports: a store (sqlite:///FILE, postgresql://...) or its export, .parquet.")
    ] = None,
    campaign: Annotated[
        Path | None, typer.Option(help="Campaign that the reports answer, .json; it must be on this graph.")
    ] = None,
    parts: Annotated[int, typer.Option(help="Number of shards: as many as processes, or more.")] = 64,
    as_json: JsonOption = False,
) -> None:
    """Write a graph, and reports of its nodes, as a folder of Parquet shards. Tables are read in batches."""
    if (reports is None) != (campaign is None):
        raise RunError("--reports and --campaign belong together: give both, or neither to write the graph alone")
    with needs_extra("server"):
        from veilgraph.campaign import Campaign
        from veilgraph.deploy.shard_reports import reports_to_shard
        from veilgraph.graph.shard_writer import write_shards

    answers = graph = None
    if reports is not None and campaign is not None:
        asked = Campaign.from_json(campaign.read_bytes())
        answers, graph = reports_to_shard(reports, asked, watch=show_progress), asked.graph_sha256
    with show_progress("shard") as progress:
        folder = write_shards(
            out, edges, parts=parts, nodes=nodes, reports=answers, campaign_graph=graph, progress=progress
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


@dataclass(frozen=True, kw_only=True)
class _ModelOptions:
    """Graph and records of the model csbm."""

    mean_degree: Annotated[float, typer.Option(help="Mean number of neighbours.")] = 20.0
    classes: Annotated[int, typer.Option(help="Number of classes, of equal probability.")] = 4
    homophily: Annotated[float, typer.Option(help="Probability that an edge is within a class.")] = 0.8
    features: Annotated[int, typer.Option(help="Number of binary features; 0 collects the label alone.")] = 16
    signal: Annotated[float, typer.Option(help="Dependence of features on the class, 0 to 1.")] = 0.5


@dataclass(frozen=True, kw_only=True)
class _ReportOptions:
    """What is reported, by how many."""

    epsilon_x: Annotated[float, typer.Option(help="Epsilon of each sampled feature (any two values of it).")] = 1.0
    sampled: Annotated[int, typer.Option(help="Number of features that a device samples.")] = 4
    epsilon_y: Annotated[float, typer.Option(help="Epsilon of the label (user level, any two records).")] = 2.0
    label_share: Annotated[float, typer.Option(help="Share of the nodes that report their label.")] = 0.75

    def budget(self, *, has_features: bool) -> PrivacyBudget:
        """Return the budget of a report."""
        if not has_features:
            return PrivacyBudget(epsilon_y=self.epsilon_y)
        return PrivacyBudget(self.epsilon_x, self.epsilon_y, self.sampled)


@dataclass(frozen=True, kw_only=True)
class _JobOptions:
    """Shards, processes and the seed."""

    parts: Annotated[int, typer.Option(help="Number of shards; another number is another graph.")] = 64
    jobs: Annotated[int, typer.Option(help="Number of processes; the result does not depend on it.")] = 1
    seed: Annotated[int, typer.Option(help="Seed of graph, records and reports.")] = 0


@graph_app.command()
@takes_groups
def generate(
    nodes: Annotated[int, typer.Option(help="Number of nodes.")],
    out: Annotated[Path, typer.Option(help="Folder to write; it must not exist yet.")],
    graph: _ModelOptions,
    reported: _ReportOptions,
    job: _JobOptions,
    as_json: JsonOption = False,
) -> None:
    """Generate a large graph of the model csbm with simulated reports, as shards with their campaign."""
    with needs_extra("lab"):
        from veilgraph.datasets.csbm_blocks import CsbmBlocks
        from veilgraph.experiments.shard_simulation import CAMPAIGN, write_simulated_shards

    model = CsbmBlocks(
        num_nodes=nodes,
        num_classes=graph.classes,
        mean_degree=graph.mean_degree,
        homophily=graph.homophily,
        num_features=graph.features,
        feature_signal=graph.signal,
        blocks=job.parts,
        seed=job.seed,
    )
    budget = reported.budget(has_features=bool(graph.features))
    with show_progress("generate") as progress:
        folder = write_simulated_shards(
            out, model, budget, label_share=reported.label_share, jobs=job.jobs, progress=progress
        )
    reports = folder.manifest["reports"]
    document = {
        "folder": str(out),
        "campaign": str(out / CAMPAIGN),
        "parts": folder.parts,
        "nodes": folder.num_nodes,
        "edges": folder.num_edges,
        "reports": reports,
    }
    sentences = [
        f"Generated {counted(folder.num_nodes, 'node')} and {counted(folder.num_edges, 'edge')} with "
        f"{counted(reports, 'simulated report')} in {counted(folder.parts, 'shard')}: {out}",
        f"Train on them: veilgraph train --graph {out} --campaign {out / CAMPAIGN} --out model",
    ]
    emit(Facts(document, sentences), as_json=as_json)
