"""A small series about private neighbours: people, documents, tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from tests.support.campaigns import NONCE, grouped
from veilgraph.campaign import Campaign
from veilgraph.campaign.neighbours.next_wave import NextWave, begin_series
from veilgraph.campaign.neighbours.people_file import people_file
from veilgraph.campaign.neighbours.series import NeighbourSeries
from veilgraph.campaign.neighbours.series_label import FollowedBy
from veilgraph.campaign.neighbours.wave import NeighbourWave
from veilgraph.graph import Graph
from veilgraph.privacy.belief_table import BeliefTable, finest_scale
from veilgraph.privacy.mechanisms import (
    NeighbourhoodClass,
    NeighbourhoodHistogram,
    NeighbourMechanism,
    RandomizedNeighbourList,
)
from veilgraph.privacy.schema import FeatureSchema

CLOSES = datetime(2100, 1, 1, tzinfo=UTC)
CLASSES = ("red", "green", "blue")
NAMES = ("u0", "u1", "u2", "u3", "u10", "ü")
PEOPLE = Graph.without_edges(len(NAMES), node_ids=NAMES)
PEOPLE_FILE = people_file(NAMES)
TABLE = BeliefTable.of(np.random.default_rng(0).dirichlet([0.5] * 3, len(NAMES)), known=np.arange(len(NAMES)) != 3)
CLASS = NeighbourhoodClass(3, 2.0)
HISTOGRAM = NeighbourhoodHistogram(3, 1.0, finest_scale(3))
CAPPED = NeighbourhoodHistogram(3, 0.1, finest_scale(3), cap=2)
LIST = RandomizedNeighbourList(len(NAMES), 3.0)
ANSWERS: dict[str, NeighbourMechanism] = {"class": CLASS, "histogram": HISTOGRAM, "capped histogram": CAPPED}


def first_document(
    people: Graph = PEOPLE, *, epsilon_y: float = 2.0, followed_by: FollowedBy = "waves", **settings: Any
) -> Campaign:
    """Return the campaign that begins a series: it asks for the label."""
    schema = FeatureSchema(columns=(), classes=CLASSES)
    given = {"nonce": NONCE} | grouped(epsilon_y=epsilon_y, **settings)
    return begin_series(schema=schema, people=people, followed_by=followed_by, **given)


def of_series(wave: Campaign, series: NeighbourSeries) -> Campaign:
    """Return a wave that says something else about its series."""
    assert isinstance(wave.asked, NeighbourWave)
    return replace(wave, asked=replace(wave.asked, series=series))


def waves_of(
    *answers: NeighbourMechanism, first: Campaign | None = None, table: BeliefTable = TABLE, turns: int | None = None
) -> list[Campaign]:
    """Return the documents of a series: the first, and one for each answer."""
    documents = [first or first_document()]
    for answer in answers:
        sha256 = None if isinstance(answer, RandomizedNeighbourList) else table.sha256
        following = NextWave(answer=answer, closes=CLOSES, turns=turns).after(
            documents[-1], people=PEOPLE, table=sha256
        )
        documents.append(following)
    return documents
