"""How a collection stands: who answered, who is missing, whether it is enough yet, and what to do next."""

from __future__ import annotations

import shlex
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from veilgraph.campaign.assessment import Assessment
from veilgraph.collection.folder import Collection
from veilgraph.collector.reminders import nodes_asked, nodes_to_remind
from veilgraph.collector.store import ReportStore
from veilgraph.deploy import TrainingOptions, open_source
from veilgraph.deploy.assess_collected import assess_collection
from veilgraph.progress import Watch, unwatched

FEWEST = 20
"""Answers below which nothing is estimated."""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How a collection stands.

    Attributes:
        folder: its folder.
        asked: number of people who are asked now.
        silent: number of those who have not answered, withdrawn or objected.
        withdrawals: number of people who withdrew their report.
        objections: number of people who do not want to take part.
        is_open: whether reports are accepted.
        assessment: accuracy of a model on the reports so far; None if there are too few.
        model: folder of the newest model; None if there is none.
    """

    folder: Path
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
    def next(self) -> str:
        """What to do next, as a command."""
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
            "folder": str(self.folder),
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


def standing(collection: Collection, *, now: datetime, watch: Watch = unwatched) -> Standing:
    """Return how a collection stands; a model is trained on its reports for that, and not kept.

    Args:
        collection: the collection.
        now: the time.
        watch: shows the progress.
    """
    campaign, names = collection.campaign, collection.graph.names
    asked = len(nodes_asked(names, campaign))
    silent, withdrawals, objections = asked, 0, 0
    if collection.store.exists:
        with closing(ReportStore.open(collection.store.url, create=False)) as store:
            silent = len(nodes_to_remind(names, store, campaign))
            withdrawals = store.withdrawals.count(campaign.series)
            objections = store.withdrawals.objections(campaign.series)
    answered = asked - silent - withdrawals - objections
    assessment = None
    if answered >= FEWEST:
        source = open_source(campaign, collection.graph, store=collection.store.url, tables=collection.waves)
        assessment = assess_collection(source, TrainingOptions(), now=now, watch=watch)
    return Standing(
        folder=collection.folder,
        asked=asked,
        silent=silent,
        withdrawals=withdrawals,
        objections=objections,
        is_open=campaign.is_open(now),
        assessment=assessment,
        model=collection.models.newest,
    )
