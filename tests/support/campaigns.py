"""Campaigns of every kind, records for them, and words at and around every threshold."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support.label_cases import LABELS
from veilgraph.campaign import Campaign
from veilgraph.campaign.budget import CampaignBudget
from veilgraph.campaign.notice import Notice
from veilgraph.graph import Graph
from veilgraph.privacy.budget import RoundBudget
from veilgraph.privacy.mechanisms import GRR, JointGRR, OSRandom, SubsetSelection
from veilgraph.privacy.mechanisms.random_source import WORDS
from veilgraph.privacy.public_columns import PublicColumn
from veilgraph.privacy.schema import Column, FeatureSchema

CLOSES = datetime(2100, 1, 1, tzinfo=UTC)
BEFORE = datetime(2099, 1, 1, tzinfo=UTC)
NONCE = "0123456789abcdef" * 2
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
    return Campaign.new(schema=schema, **{"graph": GRAPH} | grouped(**{"nonce": NONCE} | budget))


def grouped(**settings: Any) -> dict[str, Any]:
    """Return arguments of `Campaign.new`: what is said in a notice and what a budget has, in objects of their own."""
    told: dict[str, Any] = {"purpose": "To learn", "contact": "privacy@example.org", "closes": CLOSES}
    told |= {name: settings.pop(name) for name in ("purpose", "contact", "closes", "retention") if name in settings}
    rounds = {each.name: settings.pop(each.name) for each in fields(RoundBudget) if each.name in settings}
    budget = {name: settings.pop(name) for name in ("epsilon_x", "sampled", "epsilon_y") if name in settings}
    return {"notice": Notice(**told), "budget": CampaignBudget(**budget, rounds=RoundBudget(**rounds)), **settings}


def with_mechanisms(made: Campaign, **mechanisms: Any) -> Campaign:
    """Return a campaign that asks by other mechanisms."""
    return replace(made, asked=replace(made.asked, **mechanisms))


def with_grr(schema: FeatureSchema, *, epsilon_y: float | None = None, **budget: Any) -> Campaign:
    """Return a campaign whose label is by GRR, also where a set would tell more."""
    made = campaign(schema, epsilon_y=epsilon_y, **budget)
    return with_mechanisms(made, label_mechanism=None if epsilon_y is None else GRR(schema.num_classes, epsilon_y))


_WITH_GRR: dict[str, Campaign] = {
    "binary": with_grr(
        FeatureSchema.binary(8, classes=["no", "yes"]), epsilon_x=0.5, sampled=2, epsilon_y=1.0, label="ill"
    ),
    "mixed domains, bins and names beyond ASCII": with_grr(MIXED, epsilon_x=1.0, sampled=2, epsilon_y=2.0),
    "merged columns": with_grr(
        FeatureSchema.binary(10, classes=["a", "b", "c"], group=3), epsilon_x=1.5, sampled=2, epsilon_y=0.1
    ),
    "label only": with_grr(MIXED, epsilon_y=0.7),
    "features only": with_grr(MIXED, epsilon_x=0.7, sampled=3),
    "all features sampled": with_grr(MIXED, epsilon_x=0.25, sampled=5, epsilon_y=0.25),
    "tiny epsilon": with_grr(MIXED, epsilon_x=1e-9, sampled=1, epsilon_y=1e-12),
    "large epsilon": with_grr(MIXED, epsilon_x=20.0, sampled=4, epsilon_y=30.0),
    "an epsilon beyond the words": with_grr(MIXED, epsilon_x=50.0, sampled=1, epsilon_y=1e300),
    "many bins": with_grr(
        FeatureSchema(
            columns=(Column(name="x", edges=tuple(map(float, range(1001)))), Column(name="y")),
            classes=tuple(f"c{i}" for i in range(37)),
        ),
        epsilon_x=3.0,
        sampled=1,
        epsilon_y=4.0,
    ),
    "whole numbers": with_grr(
        FeatureSchema(
            columns=(
                Column(name="persons", edges=(1, 2, 4, 20), whole=True),
                Column(name="debts", edges=(float("-inf"), 0, 1e6, float("inf")), whole=True),
            ),
            classes=("a", "b"),
        ),
        epsilon_x=1.0,
        sampled=1,
        epsilon_y=1.0,
    ),
    "the paper's size": with_grr(
        FeatureSchema.binary(53, classes=[f"c{i}" for i in range(6)]), epsilon_x=0.1, sampled=10, epsilon_y=3.0
    ),
    "one column": with_grr(FeatureSchema.binary(1, classes=["0", "1"]), epsilon_x=1.0, sampled=1, epsilon_y=1.0),
}


def classes(count: int) -> FeatureSchema:
    """Return a schema that asks for the label alone."""
    return FeatureSchema(classes=tuple(f"c{i}" for i in range(count)))


def sets(schema: FeatureSchema, epsilon: float, size: int | None = None, **budget: Any) -> Campaign:
    """Return a campaign that asks for the label by subset selection."""
    mechanism = SubsetSelection(schema.num_classes, epsilon, size)
    made = campaign(schema, epsilon_y=1.0, **budget)
    return with_mechanisms(made, label_mechanism=mechanism)


def joint(schema: FeatureSchema, sampled: int, epsilon: float, epsilon_y: float | None = None) -> Campaign:
    """Return a campaign that asks for features by joint GRR."""
    made = campaign(schema, epsilon_x=1.0, sampled=1, epsilon_y=epsilon_y)
    return with_mechanisms(made, feature_mechanism=JointGRR(schema.domain_sizes, sampled, epsilon))


TEXTS = {
    "de": {
        "purpose": "Um zu lernen",
        "questions": {
            "city": {"text": "Wo wohnen Sie?", "help": "Die Stadt", "answers": {"rome": "Rom", "kyiv": "Kyjiw"}},
            "größe \U0001f4cf": {"answers": {"≥1": "ab 1"}},
            "label": {"text": "Sind Sie krank?", "answers": {"ill": "ja", "well": "nein"}},
        },
    },
    "pt-BR": {"contact": "privacidade@example.org", "note": "Declarado por uma pessoa."},
    "ar": {},
}


_WITH_SETS_AND_JOINT_FEATURES: dict[str, Campaign] = {
    "a label and nothing else": campaign(classes(4), epsilon_y=1.0, label="country"),
    "a set of 6 of 18 classes": sets(classes(18), 1.0, label="country"),
    "a set of 40 of 130 classes": sets(classes(130), 1.2),
    "sets beside features": sets(
        FeatureSchema(columns=MIXED.columns, classes=classes(9).classes), 0.5, epsilon_x=0.5, sampled=2
    ),
    "all classes but one": sets(classes(5), 1.0, 4),
    "a set of one class": sets(classes(5), 1.0, 1),
    "sets with a tiny epsilon": sets(classes(18), 1e-9, 9),
    "sets with a large epsilon": sets(classes(18), 1e300, 3),
    "joint features": joint(FeatureSchema.binary(12, classes=["a", "b"]), 4, 0.5, epsilon_y=0.5),
    "joint features of mixed domains": joint(MIXED, 3, 0.4, epsilon_y=0.3),
    "joint features alone": joint(MIXED, 2, 1.0),
    "all features jointly": joint(MIXED, 5, 0.25),
    "one feature jointly": joint(MIXED, 1, 1.0, epsilon_y=1.0),
    "merged columns jointly": joint(FeatureSchema.binary(10, classes=["a", "b", "c"], group=3), 2, 1.5, epsilon_y=0.1),
    "joint features with a large epsilon": joint(MIXED, 2, 30.0),
}

_WITH_NOTICES: dict[str, Campaign] = {
    "texts and retention": campaign(
        replace(MIXED, texts=TEXTS), epsilon_x=1.0, sampled=2, epsilon_y=2.0, retention=CLOSES
    ),
    "joint features, second notice": joint(MIXED, 3, 0.4, epsilon_y=0.3).revise(contact="both@example.org"),
    "public columns beside the questions": campaign(
        replace(
            MIXED,
            columns=MIXED.columns[:1],
            public=(PublicColumn(name="village", kind="category"), PublicColumn(name="born")),
        ),
        epsilon_x=1.0,
        sampled=1,
        epsilon_y=2.0,
    ),
    "sets with a name of the label": sets(classes(18), 1.0, label="country"),
}

_WITH_EVERY_LABEL_MECHANISM: dict[str, Campaign] = {
    f"a label by {name}": with_mechanisms(
        campaign(classes(mechanism.domain_size), epsilon_y=1.0), label_mechanism=mechanism
    )
    for name, mechanism in {each.wire_name: each for each in LABELS if each.domain_size > 2}.items()
}

CAMPAIGNS: dict[str, Campaign] = _WITH_GRR | _WITH_SETS_AND_JOINT_FEATURES | _WITH_NOTICES | _WITH_EVERY_LABEL_MECHANISM


# Series of rounds: of the label alone, and of features beside it.
MONTHLY = campaign(classes(5), epsilon_y=2.0, rounds=12, values=2)
COLUMNS = (
    Column(name="smokes", values=("no", "yes")),
    Column(name="colour", values=("red", "green", "blue")),
    Column(name="age", edges=(0.0, 20.0, 40.0, 60.0, 120.0)),
    Column(name="drinks", values=("no", "yes")),
)
SCHEMA_IN_ROUNDS = FeatureSchema(columns=COLUMNS, classes=("a", "b", "c"))
FEATURES_AND_LABEL = campaign(
    SCHEMA_IN_ROUNDS, epsilon_x=1.0, sampled=2, epsilon_y=2.0, rounds=12, values=2, round_epsilon_x=0.7
)


def records(campaign: Campaign, rng: random.Random) -> Iterator[dict[str, Any]]:
    """Yield valid raw records without end, with values at the edges of bins too."""
    while True:
        record: dict[str, Any] = {}
        for column in campaign.schema.columns:
            if column.edges:
                finite = [edge for edge in column.edges if abs(edge) < 1e300]
                inside = rng.uniform(finite[0], finite[-1])
                inside = float(round(inside)) if column.whole else inside
                record[column.name] = rng.choice([*finite, inside, repr(inside)])
            else:
                record[column.name] = rng.choice(column.values)
            if rng.random() < 0.2:
                record[column.name] = None  # left out
        leave_out = campaign.feature_mechanism is not None and rng.random() < 0.1
        record[campaign.label_name] = None if leave_out else rng.choice(campaign.schema.classes)
        yield record


def edge_words(campaign: Campaign) -> list[int]:
    """Return the words at which decisions change: the ends of every table's shares and of every rejected range."""
    features, label = campaign.asked.bound["features"], campaign.asked.bound["label"]
    tables: list[dict[str, int]] = (features["tables"] if features else []) + ([label["table"]] if label else [])
    bounds = {table["domain_size"] for table in tables} | set(range(1, campaign.schema.num_features + 1))
    bounds |= {bound for table in tables if "size" in table for bound in range(1, table["domain_size"])}
    turns = {0, WORDS} | {WORDS - WORDS % bound for bound in bounds}
    turns |= {table["inside"] for table in tables if "size" in table}
    turns |= {
        table["true"] + j * table["other"]
        for table in tables
        if "true" in table
        for j in (0, 1, table["domain_size"] - 2)
    }
    return sorted({word for turn in turns for word in (turn - 1, turn, turn + 1) if 0 <= word < WORDS})


class ScriptedWords(OSRandom):
    """`OSRandom`, with given words in place of the operating system's."""

    def __init__(self, words: list[int]) -> None:
        self.left = list(words)

    def _words(self, size: int) -> NDArray[np.int64]:  # type: ignore[override]
        taken, self.left = self.left[:size], self.left[size:]
        assert len(taken) == size, "the words have run out"
        return np.array(taken, dtype=np.int64)
