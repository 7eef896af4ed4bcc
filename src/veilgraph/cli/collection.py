"""`veilgraph campaign progress` and `missing`: how far a collection is."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from veilgraph.atomic_files import write_atomically
from veilgraph.campaign import Campaign
from veilgraph.campaign.series_folder import newest_document
from veilgraph.cli._common import echo, echo_json, needs_extra, show_progress
from veilgraph.cli.campaign import AsJson, CampaignFile
from veilgraph.errors import RunError
from veilgraph.graph import Graph, read_ids
from veilgraph.graph.io import from_cell
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
        from veilgraph.deploy.assess_collected import assess_collection

    read = newest_document(tables, Campaign.from_json(campaign.read_bytes()))
    public = Graph.from_files(graph, nodes=nodes)
    found = assess_collection(
        store, read, public, now=datetime.now(UTC), seed=seed, tables=tables, device=device, watch=show_progress
    )
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
    rows = [] if tokens is None else _read_rows(tokens)
    if tokens is not None:
        names = [from_cell(row["node"]) for row in rows]
    else:
        names = list(Graph.from_files(graph).names) if graph is not None else read_ids(nodes) if nodes else []
    opened = ReportStore.open(store, create=False)
    try:
        silent = nodes_to_remind(names, opened, read)
    finally:
        opened.close()
    write_atomically(out, to_csv(silent) if tokens is None else _rows_of(rows, set(silent)))
    asked = len(nodes_asked(names, read))
    if as_json:
        echo_json({"campaign": read.id, "nodes": asked, "missing": len(silent), "out": str(out)})
        return
    secret = "" if tokens is None else " It holds tokens: keep it secret."
    echo(f"{len(silent):,} of {counted(asked, 'node')} have not answered: {out}.{secret}")


def _read_rows(path: Path) -> list[dict[str, str]]:
    """Read the table that 'campaign tokens' wrote; cells stay as they are."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    if any(row.get("node") is None or None in row or None in row.values() for row in rows) or not rows:
        raise RunError(f"{path} has no column 'node' or no rows: give the table that 'campaign tokens' wrote")
    return rows


def _rows_of(rows: list[dict[str, str]], nodes: set[str]) -> str:
    """Return the rows of some nodes as a table."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(row for row in rows if from_cell(row["node"]) in nodes)
    return text.getvalue()
