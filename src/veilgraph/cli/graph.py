"""Command `veilgraph graph`: write a graph and its reports as shards, which several processes can read."""

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
    campaign: Annotated[Path | None, typer.Option(help="Campaign that the reports answer, .json.")] = None,
    parts: Annotated[int, typer.Option(help="Number of shards: as many as processes, or more.")] = 64,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Write a graph, and reports of its nodes, as a folder of Parquet shards. Tables are read in batches."""
    if (reports is None) != (campaign is None):
        raise RunError("--reports and --campaign belong together: give both, or neither to write the graph alone")
    with needs_extra("server"):
        from veilgraph.graph.shard_writer import write_shards

    given: dict[str, Any] = {}
    if reports is not None and campaign is not None:
        given = _reports_of(reports, campaign)
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


def _reports_of(source: str, campaign: Path) -> dict[str, Any]:
    """Return the arguments of `write_shards` about reports."""
    with needs_extra("server"):
        from veilgraph.campaign import Campaign
        from veilgraph.deploy.shard_reports import report_batches
        from veilgraph.deploy.stored_reports import count_withdrawals

    asked = Campaign.from_json(campaign.read_bytes())
    withdrawals = count_withdrawals(source, asked) if "://" in source else 0  # before reading, as in a training
    described = {"campaign": asked.id, "withdrawals": withdrawals}
    return {"reports": report_batches(source, asked, watch=show_progress), "described": described}
