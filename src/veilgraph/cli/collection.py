"""`veilgraph campaign progress` and `missing`: how far a collection is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from veilgraph.atomic_files import write_atomically
from veilgraph.campaign import Campaign
from veilgraph.cli._common import check_new, needs_extra, show_progress
from veilgraph.cli.options import (
    CampaignArgument,
    DeviceOption,
    EdgelessNodesOption,
    JsonOption,
    SeriesTablesOption,
    takes_groups,
)
from veilgraph.cli.output import Facts, emit
from veilgraph.cli.people import people_of
from veilgraph.errors import RunError
from veilgraph.graph import Graph
from veilgraph.graph.text_tables import from_cell, read_text_table, write_text_table
from veilgraph.privacy.plain_text import counted

Store = Annotated[
    str,
    typer.Option(help="Store of the reports: sqlite:///FILE or postgresql://...", envvar="VEILGRAPH_STORE"),
]


@dataclass(frozen=True, kw_only=True)
class _PeopleOptions:
    """The people and their links."""

    graph: Annotated[Path, typer.Option(help="Public graph of the campaign: edge table, .csv or .parquet.")]
    nodes: EdgelessNodesOption = None


@dataclass(frozen=True, kw_only=True)
class _FitOptions:
    """Where the assessment is written, and how a model is fitted for it."""

    out: Annotated[Path | None, typer.Option(help="File for 'serve --assessment', .json; replaced if it exists.")] = (
        None
    )
    seed: Annotated[int, typer.Option(help="Seed of the fit, and of the half of the reports.")] = 0
    tables: SeriesTablesOption = None
    device: DeviceOption = "auto"


@takes_groups
def progress(
    campaign: CampaignArgument,
    store: Store,
    people: _PeopleOptions,
    fit: _FitOptions,
    as_json: JsonOption = False,
) -> None:
    """Say whether it is enough yet: the accuracy of a model on the reports so far, and what the second half brought."""
    with needs_extra("server"):
        from veilgraph.deploy import TrainingOptions, open_source
        from veilgraph.deploy.assess_collected import assess_collection

    public = Graph.from_files(people.graph, nodes=people.nodes)
    source = open_source(campaign, public, store=store, tables=fit.tables)
    options = TrainingOptions(seed=fit.seed, device=fit.device)
    found = assess_collection(source, options, now=datetime.now(UTC), watch=show_progress)
    written = []
    if fit.out is not None:
        write_atomically(fit.out, found.to_json() + "\n")
        written = [f"Written to {fit.out}."]
    sentences = [f"{counted(found.label_reports, 'label report')} so far.", *found.sentences, *written]
    emit(Facts(found.document, sentences), as_json=as_json)


def missing(
    campaign: CampaignArgument,
    store: Store,
    out: Annotated[Path, typer.Option(help="Table of the nodes to remind, .csv.")],
    tokens: Annotated[
        Path | None, typer.Option(help="Table that 'campaign tokens' wrote: keeps tokens and links. Secret.")
    ] = None,
    graph: Annotated[Path | None, typer.Option(help="Without --tokens: edge table of the campaign's graph.")] = None,
    nodes: Annotated[
        Path | None,
        typer.Option(help="Without --tokens: node table with a column 'id', as for 'campaign tokens'."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List who has not answered, for reminders; people who withdrew are not listed."""
    with needs_extra("collector"):
        from veilgraph.collector.reminders import nodes_asked, nodes_to_remind, to_csv
        from veilgraph.collector.store import ReportStore

    if tokens is not None and (graph is not None or nodes is not None):
        raise RunError("the people are given twice: give --tokens, or --graph and --nodes")
    check_new(out)
    read = Campaign.from_json(campaign.read_bytes())
    if tokens is None:
        held, (names, _) = None, people_of(read, graph, nodes)
    else:
        held = read_text_table(tokens)
        names = [from_cell(node) for node in held.column("node", "give the table that 'campaign tokens' wrote")]
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
    secret = "" if tokens is None else " It holds tokens: keep it secret."
    sentence = f"{len(silent):,} of {counted(asked, 'node')} have not answered: {out}.{secret}"
    document = {"campaign": read.id, "nodes": asked, "missing": len(silent), "out": str(out)}
    emit(Facts(document, [sentence]), as_json=as_json)
