"""The next wave of a series about private neighbours: a table from all that is stored, and the document that names it.

A table is post-processing of reports, so publishing it reveals no more than they do. It is computed by a command,
never by a request handler.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from veilgraph.atomic_files import write_atomically
from veilgraph.campaign import Campaign
from veilgraph.campaign.assemble import check_graph
from veilgraph.campaign.neighbours.collection import NeighbourCollection
from veilgraph.campaign.neighbours.next_wave import NextWave
from veilgraph.campaign.neighbours.people_file import people_of
from veilgraph.campaign.neighbours.series import read_table_file, table_path
from veilgraph.campaign.neighbours.wave import series_of
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

_LEAST_LABELS = 5
"""Label reports before a table is published: with fewer it would say nothing, and nothing could be learned from it."""

_NO_TABLE = "0" * 64
"""Placeholder for the hash of a table that is not computed yet."""


def read_collection(
    store: str, campaign: Campaign, people: Graph, tables: Path | None, *, watch: Watch = unwatched
) -> tuple[NeighbourCollection, PerturbedGraph]:
    """Read the documents and all reports of a series from a store, and its tables from their folder.

    Args:
        store: URL of the store.
        campaign: the newest document of the series.
        people: the people of the series, without edges.
        tables: folder of the tables; None if there is none yet.
        watch: shows the progress of reading.
    """
    check_graph(campaign, people)
    documents = series_documents(store, campaign)
    waves = [series_of(wave.asked) for wave in documents[1:]]
    published = [read_table_file(tables, wave, people=people.num_nodes) for wave in waves]
    read = tuple(None if each is None else BeliefTable.from_bytes(each) for each in published)
    collection = NeighbourCollection(documents=documents, tables=read)
    with stored_reports(store, campaign, watch=watch) as reports:
        return collection, collection.perturbed(people, reports)


def publish_wave(
    store: str,
    campaign: Campaign,
    people: Graph,
    following: NextWave,
    *,
    tables: Path,
    out: Path | None = None,
    watch: Watch = unwatched,
) -> tuple[Campaign, PerturbedGraph]:
    """Fit to all reports of a series so far, write the next table, and then the document of the next wave.

    A wave that asks for randomized lists needs no table, so nothing is fitted and no belief is published.

    Args:
        store: URL of the store.
        campaign: a document of the series; the newest one in the folder is continued.
        people: the people of the series, without edges.
        following: the next wave.
        tables: folder of the series. The table and the file of people are written there, named by their hashes.
        out: the document to write; nothing is there before the table is. Default: in the folder, where a running
            collector takes it up.
        watch: shows the progress.

    Returns:
        The document of the wave, and the reports so far.
    """
    campaign = newest_document(tables, campaign)
    answers, wave = campaign.asked.answers, campaign.asked.documents.number + 1
    if any(answer.asks_for_lists for answer in answers):
        raise CampaignError("the series asks for randomized lists, in one wave: train on it, or begin another series")
    out = wave_path(tables, wave) if out is None else out
    if out.exists():
        raise RunError(f"{out} exists: publish the wave after it, or choose another folder")
    _, perturbed = read_collection(store, campaign, people, tables, watch=watch)
    if not all(wave.has_answer.any() for wave in perturbed.neighbour_waves[-1:]):
        raise RunError(
            f"nobody has answered wave {wave - 1} yet, and the next one would close it: publish it when people have"
        )
    labelled = int(perturbed.has_label.sum())
    if labelled < _LEAST_LABELS and not following.answer.asks_for_lists:
        raise RunError(f"{labelled} people have reported a label: publish a wave when at least {_LEAST_LABELS} have")
    document = partial(following.after, campaign, people=people)
    if following.answer.asks_for_lists:
        table, made = None, document(table=None)
    else:
        document(table=_NO_TABLE)  # refused now, if it is, and not after the fit
        table = _next_table(perturbed, watch)
        made = document(table=table.sha256)
    tables.mkdir(parents=True, exist_ok=True)
    if table is not None:
        write_atomically(table_path(tables, table.sha256), table.to_bytes(), public=True)
    write_atomically(tables / f"{series_of(made.asked).people}.people", people_of(people).content, public=True)
    write_atomically(out, made.to_json() + "\n", public=True)
    return made, perturbed


def _next_table(perturbed: PerturbedGraph, watch: Watch) -> BeliefTable:
    labelled = Split.random(perturbed.graph.num_nodes, seed=SERIES_SEED, eligible=perturbed.has_label, **_SHARES)
    with watch("fit"):
        return NeighbourWaves(seed=SERIES_SEED).fit(perturbed, labelled).next_table(perturbed)
