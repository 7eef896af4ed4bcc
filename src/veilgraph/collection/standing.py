"""How a collection stands: who answered, who is missing, whether it is enough yet, and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from veilgraph.campaign import Campaign
from veilgraph.campaign.assessment import Assessment
from veilgraph.collection.folder import Collection
from veilgraph.collector.reminders import nodes_asked, nodes_to_remind
from veilgraph.collector.store import ReportStore
from veilgraph.deploy import TrainingOptions, open_source
from veilgraph.deploy.assess_collected import assess_collection
from veilgraph.graph import Graph
from veilgraph.progress import Watch, unwatched

FEWEST = 20
"""Answers below which nothing is estimated."""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How a collection stands.

    Attributes:
        folder: its folder; None if its files were named one by one.
        asked: number of people who are asked now.
        silent: number of those who have not answered, withdrawn or objected.
        withdrawals: number of people who withdrew their report.
        objections: number of people who do not want to take part.
        is_open: whether reports are accepted.
        assessment: accuracy of a model on the reports so far; None if there are too few.
        model: folder of the newest model; None if there is none.
    """

    folder: Path | None
    asked: int
    silent: int
    withdrawals: int
    objections: int
    is_open: bool
    assessment: Assessment | None
    model: Path | None

    @property
    def answered(self) -> int:
        """Number of people whose answer is stored."""
        return self.asked - self.silent - self.withdrawals - self.objections

    @property
    def next(self) -> str | None:
        """What to do next, as a command; None without a folder."""
        if self.folder is None:
            return None
        folder = shlex.quote(str(self.folder))
        verdict = "unclear" if self.assessment is None else self.assessment.verdict
        if self.is_open and not self.answered:
            return f"veilgraph invite {folder} --url https://..."
        if self.is_open and self.silent and verdict != "enough":
            return f"veilgraph invite {folder} --url https://... --remind"
        return f"veilgraph train {folder}"

    @property
    def document(self) -> dict[str, Any]:
        """The standing as JSON-ready values."""
        return {
            "folder": None if self.folder is None else str(self.folder),
            "asked": self.asked,
            "answered": self.answered,
            "silent": self.silent,
            "withdrawals": self.withdrawals,
            "objections": self.objections,
            "open": self.is_open,
            "assessment": None if self.assessment is None else self.assessment.document,
            "model": None if self.model is None else str(self.model),
            "next": self.next,
        }


@dataclass(frozen=True, kw_only=True)
class Stood:
    """What a standing is computed from.

    Attributes:
        campaign: the document that is open now.
        graph: people and links.
        joined: ids of people who joined later.
        store: URL of the store; None if there is none yet.
        people: table of the people, which has the public columns; None if there is none.
        tables: folder of the published waves about private contacts; None if people are asked about none.
        folder: folder of the collection; None if its files were named one by one.
        model: folder of the newest model; None if there is none.
    """

    campaign: Campaign
    graph: Graph
    joined: Sequence[str] = ()
    store: str | None
    people: Path | None = None
    tables: Path | None = None
    folder: Path | None = None
    model: Path | None = None

    @classmethod
    def of(cls, collection: Collection, *, store: str | None = None) -> Stood:
        """Return what the folder of a collection holds; `store` is the URL of a store in place of its own."""
        return cls(
            campaign=collection.campaign,
            graph=collection.graph,
            joined=collection.optional.names_joined,
            store=store or (collection.store.url if collection.store.exists else None),
            people=collection.graph_files[1],
            tables=collection.waves,
            folder=collection.folder,
            model=collection.models.newest,
        )


def standing(
    stood: Stood, *, now: datetime, options: TrainingOptions | None = None, watch: Watch = unwatched
) -> Standing:
    """Return how a collection stands; a model is trained on its reports for that, and not kept.

    Args:
        stood: what it is computed from.
        now: the time.
        options: how the model is trained.
        watch: shows the progress.
    """
    campaign, names = stood.campaign, (*stood.graph.names, *stood.joined)
    asked = len(nodes_asked(names, campaign))
    silent, withdrawals, objections = asked, 0, 0
    if stood.store is not None:
        with closing(ReportStore.open(stood.store, create=False)) as store:
            silent = len(nodes_to_remind(names, store, campaign))
            withdrawals = store.withdrawals.count(campaign.series)
            objections = store.withdrawals.objections(campaign.series)
    answered = asked - silent - withdrawals - objections
    assessment = None
    if answered >= FEWEST:
        source = open_source(campaign, stood.graph, store=stood.store, nodes=stood.people, tables=stood.tables)
        assessment = assess_collection(source, options or TrainingOptions(), now=now, watch=watch)
    return Standing(
        folder=stood.folder,
        asked=asked,
        silent=silent,
        withdrawals=withdrawals,
        objections=objections,
        is_open=campaign.is_open(now),
        assessment=assessment,
        model=stood.model,
    )
