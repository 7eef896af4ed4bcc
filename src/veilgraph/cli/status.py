"""`veilgraph status`: how a collection stands, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from veilgraph.atomic_files import write_atomically
from veilgraph.campaign import Campaign
from veilgraph.campaign.notice import time_in_words
from veilgraph.campaign.round_schedule import read_campaign
from veilgraph.cli._common import needs_extra, show_progress
from veilgraph.cli.named_files import GraphOptions
from veilgraph.cli.options import JsonOption, Settings, takes_groups
from veilgraph.cli.output import Facts, emit
from veilgraph.privacy.plain_text import counted

if TYPE_CHECKING:
    from veilgraph.collection.standing import Standing, Stood


@dataclass(frozen=True, kw_only=True)
class _Fit(Settings):
    """How a model is fitted for the estimate."""

    seed: Annotated[int, typer.Option(help="Seed of the fit, and of the half of the reports.")] = 0
    tables: Annotated[str | None, typer.Option(help="Without FOLDER: folder of waves about private neighbours.")] = None
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto"


@takes_groups
def status(
    collection: GraphOptions,
    fit: _Fit,
    out: Annotated[
        Path | None,
        typer.Option(help="File for the dashboard, .json, replaced if it exists; default: assessment.json in FOLDER."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Say how many answered and who is missing, whether it is enough yet, and what to do next."""
    with needs_extra("server"), needs_extra("collector"):
        from veilgraph.collection.standing import standing
        from veilgraph.deploy import TrainingOptions

    stood, home = _stood(collection, fit), collection.collection
    options = TrainingOptions(seed=fit.seed, device=fit.device)
    found = standing(stood, now=datetime.now(UTC), options=options, watch=show_progress)
    file = out if out is not None or home is None else home.optional.assessment
    if found.assessment is not None and file is not None:
        write_atomically(file, found.assessment.to_json() + "\n")
    emit(Facts(found.document, _in_words(found, stood.campaign)), as_json=as_json)


def _stood(collection: GraphOptions, fit: _Fit) -> Stood:
    """Return what the standing is computed from: the folder, or the files that are named."""
    from veilgraph.collection.standing import Stood
    from veilgraph.collection.store_address import named_database
    from veilgraph.graph.shards import read_graph

    if (home := collection.collection) is not None:
        collection.graph_files()  # refuses what the folder has
        return Stood.of(home, store=collection.store)
    files = collection.files()
    return Stood(
        campaign=read_campaign(files.campaign, now=datetime.now(UTC)),
        graph=read_graph(files.graph, nodes=files.nodes),
        store=files.store or named_database(),
        people=files.nodes,
        tables=None if fit.tables is None else Path(fit.tables),
    )


def _in_words(found: Standing, campaign: Campaign) -> Iterator[str]:
    """Say how a collection stands, and the next command."""
    closes, people = time_in_words(campaign.notice.closes), counted(found.asked, "person", "people")
    yield f"{found.answered:,} of {people} answered, {found.silent:,} have not."
    if found.withdrawals or found.objections:
        yield f"{found.withdrawals:,} withdrew, {found.objections:,} do not want to take part."
    yield f"Open until {closes}." if found.is_open else f"Closed since {closes}."
    if found.assessment is None:
        yield "There are too few answers to estimate what a model would get right."
    else:
        yield from found.assessment.sentences
    if found.next is not None:
        yield "No model yet." if found.model is None else f"Newest model: {found.model}"
        yield f"Next: {found.next}"
