"""The next wave of a series about private neighbours: a table from all that is stored, and the document that names it.

A table is post-processing of reports, so publishing it reveals nothing more. It is computed by a command, never by a
request handler.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from veilgraph.atomic_files import write_atomically
from veilgraph.campaign import Campaign
from veilgraph.campaign.assemble import check_graph
from veilgraph.campaign.neighbour_collection import NeighbourCollection
from veilgraph.campaign.neighbour_series import Answer, read_table_file, table_path
from veilgraph.campaign.people_file import PeopleFile, people_file
from veilgraph.campaign.series_folder import newest_document, wave_path
from veilgraph.deploy.stored_reports import series_documents, stored_reports
from veilgraph.errors import CampaignError, RunError
from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.models.neighbour_waves import NeighbourWaves
from veilgraph.privacy.belief_table import BeliefTable
from veilgraph.progress import Watch, unwatched

SERIES_SEED = 0
"""Seed of every fit of a series: it decides whose reports are in no table, and that must not change between waves."""

_SHARES = {"train": 2 / 3, "validation": 1 / 3}
"""Shares of the labelled people; nobody is kept aside for a test."""


def read_collection(
    store: str, campaign: Campaign, people: Graph, tables: Path | None, *, watch: Watch = unwatched
) -> tuple[NeighbourCollection, PerturbedGraph]:
    """Read the documents and all reports of a series from a store, and its tables from their folder.

    Args:
        store: URL of the store.
        campaign: the newest document of the series.
        people: the people of the series, without edges.
        tables: folder of the tables; None if there is no wave yet.
        watch: shows the progress of reading.
    """
    ordered = check_graph(campaign, people).reordered(PeopleFile.of(people.names).names)
    documents = series_documents(store, campaign)
    waves = [each.neighbours for each in documents if each.neighbours is not None]
    if waves and tables is None:
        raise CampaignError("the tables of the series are missing: give --tables, the folder of 'neighbours publish'")
    published = [read_table_file(tables, wave, people=ordered.num_nodes) for wave in waves if tables is not None]
    collection = NeighbourCollection(documents=documents, tables=tuple(map(BeliefTable.from_bytes, published)))
    with stored_reports(store, campaign, watch=watch) as reports:
        return collection, collection.perturbed(ordered, reports)


def publish_wave(
    store: str,
    campaign: Campaign,
    people: Graph,
    answer: Answer,
    *,
    tables: Path,
    out: Path | None = None,
    closes: datetime,
    purpose: str | None = None,
    contact: str | None = None,
    retention: datetime | None = None,
    watch: Watch = unwatched,
) -> tuple[Campaign, PerturbedGraph]:
    """Fit to all reports of a series so far, write the next table, and then the document of the next wave.

    Args:
        store: URL of the store.
        campaign: a document of the series; the newest one in the folder is continued.
        people: the people of the series, without edges.
        answer: mechanism of the next wave.
        tables: folder of the series. The table and the file of people are written there, named by their hashes.
        out: the document to write; nothing is there before the table is. Default: in the folder, where a running
            collector takes it up.
        closes: time until which answers are accepted.
        purpose: purpose of the wave; default: that of the document before.
        contact: contact for participants; default: that of the document before.
        retention: time after which all reports of the series are deleted; default: that of the document before.
        watch: shows the progress.

    Returns:
        The document of the wave, and the reports that the table was computed from.
    """
    campaign = newest_document(tables, campaign)
    wave = 1 if campaign.neighbours is None else campaign.neighbours.wave + 1
    out = wave_path(tables, wave) if out is None else out
    if out.exists():
        raise RunError(f"{out} exists: publish the wave after it, or choose another --out")
    _, perturbed = read_collection(store, campaign, people, tables, watch=watch)
    if perturbed.neighbour_waves and not perturbed.neighbour_waves[-1].has_answer.any():
        raise RunError(
            f"nobody has answered wave {wave - 1} yet, and the next one would close it: publish it when people have"
        )
    labelled = Split.random(perturbed.graph.num_nodes, seed=SERIES_SEED, eligible=perturbed.has_label, **_SHARES)
    with watch("fit"):
        table = NeighbourWaves(seed=SERIES_SEED).fit(perturbed, labelled).next_table(perturbed)
    made = campaign.next_wave(
        answer,
        graph=people,
        table=table.sha256,
        closes=closes,
        purpose=purpose,
        contact=contact,
        retention=retention,
    )
    tables.mkdir(parents=True, exist_ok=True)
    write_atomically(table_path(tables, table.sha256), table.to_bytes())
    write_atomically(tables / f"{made.neighbour_series.people}.people", people_file(people.names))
    write_atomically(out, made.to_json() + "\n")
    return made, perturbed
