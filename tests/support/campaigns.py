"""Campaigns of every kind, records for them, and words at and around every threshold."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.campaign import Campaign
from veilgraph.graph import Graph
from veilgraph.privacy.mechanisms import OSRandom
from veilgraph.privacy.mechanisms.random_source import WORDS
from veilgraph.privacy.schema import Column, FeatureSchema

CLOSES = datetime(2100, 1, 1, tzinfo=UTC)
BEFORE = datetime(2099, 1, 1, tzinfo=UTC)
GRAPH = Graph.from_edges([[0, 1], [1, 2]], num_nodes=3)

MIXED = FeatureSchema(
    columns=(
        Column(name="age", edges=(0, 30, 50, 120)),
        Column(name="city", values=("oslo", "rome", "lima", "bonn", "kyiv")),
        Column(name="smoker", values=("no", "yes")),
        Column(name="weight", edges=(-1.5, 0.1, 1e-7 + 0.1, 2.5e10, float("inf"))),
        Column(name="größe \U0001f4cf", values=("<1", "≥1", '"quoted\\" \u2192 \xa0')),
    ),
    classes=("ill", "well", "é"),
    note="Declared by a person.",
)


def campaign(schema: FeatureSchema, **budget: Any) -> Campaign:
    settings: dict[str, Any] = {"purpose": "To learn", "contact": "privacy@example.org", "closes": CLOSES}
    return Campaign.new(schema=schema, graph=GRAPH, **(settings | budget))


CAMPAIGNS: dict[str, Campaign] = {
    "binary": campaign(
        FeatureSchema.binary(8, classes=["no", "yes"]), epsilon_x=0.5, sampled=2, epsilon_y=1.0, label="ill"
    ),
    "mixed domains, bins and names beyond ASCII": campaign(MIXED, epsilon_x=1.0, sampled=2, epsilon_y=2.0),
    "merged columns": campaign(
        FeatureSchema.binary(10, classes=["a", "b", "c"], group=3), epsilon_x=1.5, sampled=2, epsilon_y=0.1
    ),
    "label only": campaign(MIXED, epsilon_y=0.7),
    "features only": campaign(MIXED, epsilon_x=0.7, sampled=3),
    "all features sampled": campaign(MIXED, epsilon_x=0.25, sampled=5, epsilon_y=0.25),
    "tiny epsilon": campaign(MIXED, epsilon_x=1e-9, sampled=1, epsilon_y=1e-12),
    "large epsilon": campaign(MIXED, epsilon_x=20.0, sampled=4, epsilon_y=30.0),
    "an epsilon beyond the words": campaign(MIXED, epsilon_x=50.0, sampled=1, epsilon_y=1e300),
    "many bins": campaign(
        FeatureSchema(
            columns=(Column(name="x", edges=tuple(map(float, range(1001)))), Column(name="y")),
            classes=tuple(f"c{i}" for i in range(37)),
        ),
        epsilon_x=3.0,
        sampled=1,
        epsilon_y=4.0,
    ),
    "the paper's size": campaign(
        FeatureSchema.binary(53, classes=[f"c{i}" for i in range(6)]), epsilon_x=0.1, sampled=10, epsilon_y=3.0
    ),
    "one column": campaign(FeatureSchema.binary(1, classes=["0", "1"]), epsilon_x=1.0, sampled=1, epsilon_y=1.0),
}


def records(campaign: Campaign, rng: random.Random) -> Iterator[dict[str, Any]]:
    """Yield valid raw records without end, with values at the edges of bins too."""
    while True:
        record: dict[str, Any] = {}
        for column in campaign.schema.columns:
            if column.edges:
                finite = [edge for edge in column.edges if abs(edge) < 1e300]
                inside = rng.uniform(finite[0], finite[-1])
                record[column.name] = rng.choice([*finite, inside, repr(inside)])
            else:
                record[column.name] = rng.choice(column.values)
        leave_out = campaign.feature_mechanism is not None and rng.random() < 0.1
        record[campaign.label] = None if leave_out else rng.choice(campaign.schema.classes)
        yield record


def edge_words(campaign: Campaign) -> list[int]:
    """Return the words at which decisions change: the ends of every table's shares and of every rejected range."""
    tables = [response.table for response in campaign.feature_mechanism.responses] if campaign.feature_mechanism else []
    tables += [campaign.label_mechanism.table] if campaign.label_mechanism else []
    bounds = {table.domain_size for table in tables} | set(range(1, campaign.schema.num_features + 1))
    turns = {0, WORDS} | {WORDS - WORDS % bound for bound in bounds}
    turns |= {table.true + j * table.other for table in tables for j in (0, 1, table.domain_size - 2)}
    return sorted({word for turn in turns for word in (turn - 1, turn, turn + 1) if 0 <= word < WORDS})


class ScriptedWords(OSRandom):
    """`OSRandom`, with given words in place of the operating system's."""

    def __init__(self, words: list[int]) -> None:
        self.left = list(words)

    def _words(self, size: int) -> NDArray[np.int64]:  # type: ignore[override]
        taken, self.left = self.left[:size], self.left[size:]
        assert len(taken) == size, "the words have run out"
        return np.array(taken, dtype=np.int64)
