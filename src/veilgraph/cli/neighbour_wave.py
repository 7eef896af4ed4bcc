"""`veilgraph open-round` of a series about private neighbours: its options, and the wave that it publishes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from veilgraph.campaign import Campaign
from veilgraph.campaign.neighbours.next_wave import NextWave
from veilgraph.campaign.neighbours.wave import series_of
from veilgraph.campaign.notice import time_in_words
from veilgraph.campaign.series_folder import wave_path
from veilgraph.cli._common import needs_extra, show_progress
from veilgraph.cli.deadlines import read_future
from veilgraph.cli.options import CapOption
from veilgraph.cli.output import Facts
from veilgraph.collection import Collection
from veilgraph.errors import RunError
from veilgraph.graph import PerturbedGraph
from veilgraph.privacy.mechanisms.registry import answer_mechanism
from veilgraph.privacy.plain_text import counted


@dataclass(frozen=True, kw_only=True)
class WaveOptions:
    """What a wave asks about neighbours, and of whom."""

    epsilon: Annotated[
        float | None, typer.Option(help="Private contacts: budget of the wave, under the relation of its answer.")
    ] = None
    cap: CapOption = None
    turns: Annotated[
        int | None,
        typer.Option(help="Private contacts: each person answers one of this number of waves; with the first alone."),
    ] = None

    def check(self, answer: str) -> None:
        """Refuse turns of a list, and fewer than two."""
        if self.turns is not None and answer == "list":
            raise RunError("--turns is for histogram and class: a list is the only wave of its series, for everybody")
        if self.turns is not None and self.turns < 2:
            raise RunError(
                f"--turns is {self.turns}: give 2 or more, or leave it out, and everybody answers every wave"
            )

    def check_none(self) -> None:
        """Refuse options of a wave where rounds are asked."""
        for name in ("epsilon", "cap", "turns"):
            if getattr(self, name) is not None:
                raise RunError(f"this collection asks the same again in rounds: leave --{name} out")


def publish(home: Collection, asked: WaveOptions, closes: str | None, zone: str) -> Facts:
    """Publish the next wave in the folder of a collection."""
    tables, people = home.folder / "waves", home.graph
    name = str(home.settings.get("contacts", "histogram"))
    asked.check(name)
    if asked.epsilon is None or closes is None:
        raise RunError("give --epsilon, the budget of the wave, and --closes, its last day")
    until = read_future(closes, zone)
    with needs_extra("server"):
        from veilgraph.deploy.publish_wave import publish_wave
    answer = answer_mechanism(
        name,
        num_classes=home.campaign.schema.num_classes,
        people=people.num_nodes,
        epsilon=asked.epsilon,
        cap=asked.cap,
    )
    following = NextWave(answer=answer, closes=until, turns=asked.turns)
    made, perturbed = publish_wave(home.store.url, home.campaign, people, following, tables=tables, watch=show_progress)
    return _published(made, people.names, perturbed, tables)


def _published(campaign: Campaign, names: Sequence[str], perturbed: PerturbedGraph, tables: Path) -> Facts:
    """Return what a wave asks, of whom, and where its document is."""
    series, documents = series_of(campaign.asked), campaign.asked.documents
    answers = [int(wave.has_answer.sum()) for wave in perturbed.neighbour_waves]
    asked, labels = sum(map(documents.is_asked, names)), int(perturbed.has_label.sum())
    file = wave_path(tables, documents.number)
    document = {
        "id": campaign.id,
        "series": series.first,
        "wave": series.wave,
        "turns": series.turns,
        "asked": asked,
        "table": series.table,
        "people": series.people,
        "label_reports": labels,
        "answers": answers,
        "guarantee": campaign.guarantee.as_dict(),
        "wave_guarantee": series.wave_guarantee.as_dict(),
        "out": str(file),
    }
    told = f" and {sum(answers):,} answers of {counted(len(answers), 'wave')}" if answers else ""
    sentences = [
        f"Wave {series.wave} of series {series.first}: campaign {campaign.id}.",
        *([] if series.turns is None else [_turn_in_words(series.turns, asked, len(names))]),
        f"Devices randomize the list itself, and need the file of people alone: {tables / series.people}.people. "
        "It is the only wave of the series."
        if series.table is None
        else f"Its table is learned from {counted(labels, 'label report')}{told}: {tables / series.table}.beliefs.",
        *campaign.asked.words.guarantee,
        f"Open until {time_in_words(campaign.notice.closes)}. Written to {file}.",
        "A running collector takes it up within seconds.",
    ]
    return Facts(document, sentences)


def _turn_in_words(turns: int, answering: int, people: int) -> str:
    return f"Each person answers one of {turns} waves, and this is the turn of {answering:,} of {people:,} people."
