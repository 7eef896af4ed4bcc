"""`veilgraph campaign progress` and `missing`: how far a collection is."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from veilgraph.atomic_files import write_atomically
from veilgraph.campaign import Campaign
from veilgraph.cli._common import echo, echo_json, needs_extra, show_progress
from veilgraph.cli.campaign import AsJson, CampaignFile
from veilgraph.errors import RunError
from veilgraph.graph import Graph, read_ids
from veilgraph.graph.text_tables import from_cell, read_text_table, write_text_table
from veilgraph.privacy.plain_text import counted

Store = Annotated[
    str,
    typer.Option(help="Store of the reports: sqlite:///FILE or postgresql://...", envvar="VEILGRAPH_STORE"),
]


def progress(
    campaign: CampaignFile,
    store: Store,
    graph: Annotated[Path, typer.Option(help="Public graph of the campaign: edge table, .csv or .parquet.")],
    nodes: Annotated[Path | None, typer.Option(help="Node table with a column 'id', for nodes without edges.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="File for 'serve --assessment', .json; replaced if it exists.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the fit, and of the half of the reports.")] = 0,
    tables: Annotated[
        Path | None, typer.Option(help="Private neighbours: folder of 'neighbours publish'; its newest wave is taken.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    as_json: AsJson = False,
) -> None:
    """Say whether it is enough yet: the accuracy of a model on the reports so far, and what the second half brought."""
    with needs_extra("server"):
        from veilgraph.deploy import TrainingOptions, open_source
        from veilgraph.deploy.assess_collected import assess_collection

    source = open_source(campaign, Graph.from_files(graph, nodes=nodes), store=store, tables=tables)
    options = TrainingOptions(seed=seed, device=device)
    found = assess_collection(source, options, now=datetime.now(UTC), watch=show_progress)
    if out is not None:
        write_atomically(out, found.to_json() + "\n")
    if as_json:
        echo_json(json.loads(found.to_json()) | {"verdict": found.verdict, "sentences": found.sentences})
        return
    echo(f"{counted(found.label_reports, 'label report')} so far.", *found.sentences)
    if out is not None:
        echo(f"Written to {out}.")


def missing(
    campaign: CampaignFile,
    store: Store,
    out: Annotated[Path, typer.Option(help="Table of the nodes to remind, .csv.")],
    tokens: Annotated[
        Path | None, typer.Option(help="Table that 'campaign tokens' wrote: keeps tokens and links. Secret.")
    ] = None,
    graph: Annotated[
        Path | None, typer.Option(help="Without --tokens: edge table of the nodes that may report.")
    ] = None,
    nodes: Annotated[
        Path | None, typer.Option(help="Without --tokens: node table with a column 'id' of the nodes that may report.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List who has not answered, for reminders; people who withdrew are not listed."""
    with needs_extra("collector"):
        from veilgraph.collector.reminders import nodes_asked, nodes_to_remind, to_csv
        from veilgraph.collector.store import ReportStore

    if sum(each is not None for each in (tokens, graph, nodes)) != 1:
        raise RunError("the nodes are missing: give one of --tokens, --graph and --nodes")
    if out.exists():
        raise RunError(f"{out} exists: choose another --out")
    read = Campaign.from_json(campaign.read_bytes())
    held = None if tokens is None else read_text_table(tokens)
    if held is not None:
        names = [from_cell(node) for node in held.column("node", "give the table that 'campaign tokens' wrote")]
    else:
        names = list(Graph.from_files(graph).names) if graph is not None else read_ids(nodes) if nodes else []
    opened = ReportStore.open(store, create=False)
    try:
        silent = nodes_to_remind(names, opened, read)
    finally:
        opened.close()
    if held is None:
        text = to_csv(silent)
    else:
        of_silent, rows = set(silent), zip(names, held.rows, strict=True)
        kept = ([from_cell(cell) for cell in row] for name, row in rows if name in of_silent)
        text = write_text_table(held.columns, kept)
    write_atomically(out, text)
    asked = len(nodes_asked(names, read))
    if as_json:
        echo_json({"campaign": read.id, "nodes": asked, "missing": len(silent), "out": str(out)})
        return
    secret = "" if tokens is None else " It holds tokens: keep it secret."
    echo(f"{len(silent):,} of {counted(asked, 'node')} have not answered: {out}.{secret}")
