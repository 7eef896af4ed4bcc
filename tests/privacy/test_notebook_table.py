"""Tables for notebooks: everything escaped, colours inherited, nothing private."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Protocol

import numpy as np
import pytest

from tests.support.result_rows import control, row
from veilgraph.datasets import csbm
from veilgraph.experiments import simulate
from veilgraph.experiments.budget_planner import Candidate, Plan, Scenario
from veilgraph.experiments.results import Results
from veilgraph.graph import Split
from veilgraph.models import RGNN, LabelVeil, MajorityClass
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms import GRR
from veilgraph.privacy.notebook_table import html_table
from veilgraph.privacy.schema import FeatureSchema

PRIVATE = csbm(60, num_classes=3, num_features=4, seed=0)
SPLIT = Split.random(60, seed=0)
PERTURBED = simulate(PRIVATE, PrivacyBudget(1.0, 2.0, 2), SPLIT, rng=np.random.default_rng(0))
SCENARIO = Scenario(homophily=0.6, assortativity=0.4, largest_class=0.4, feature_signal=0.0, accuracy=0.8)
CANDIDATE = Candidate(features=None, label=GRR(3, 1.0))


class Shown(Protocol):
    """What a notebook shows as HTML."""

    def _repr_html_(self) -> str: ...


SHOWN: dict[str, Shown] = {
    "schema": PRIVATE.schema,
    "schema without features": FeatureSchema(classes=("no", "yes")),
    "budget": PrivacyBudget(1.0, 2.0, 2),
    "budget of the label": PrivacyBudget(epsilon_y=2.0),
    "guarantee": PERTURBED.guarantee,
    "perturbed graph": PERTURBED,
    "method": RGNN(),
    "fitted method": MajorityClass().fit(PERTURBED, SPLIT),
    "results": Results([row(0.8), control(0.7)]),
    "plan": Plan(recommended=CANDIDATE, candidates=(CANDIDATE,), scenarios=(SCENARIO,), assumptions=("None.",)),
}


class Balanced(HTMLParser):
    """Checks that every tag is closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data + " "


@pytest.mark.parametrize("name", SHOWN)
def test_a_representation_is_balanced_and_inherits_its_colours(name: str) -> None:
    html = SHOWN[name]._repr_html_()
    parser = Balanced()
    parser.feed(html)
    assert not parser.open
    assert html.count("color:inherit") == 2  # tables do not inherit a colour in every page
    assert "#" not in html  # no colour of its own: it must be readable on a dark theme
    assert "<script" not in html


def test_every_epsilon_names_its_relation() -> None:
    for name in ("budget", "budget of the label", "guarantee", "perturbed graph", "plan", "results"):
        assert "any two records" in SHOWN[name]._repr_html_().lower()


def test_texts_of_a_schema_cannot_become_markup() -> None:
    schema = FeatureSchema(classes=("<script>alert(1)</script>", "b"))
    assert "<script>" not in schema._repr_html_()
    assert "&lt;script&gt;" in schema._repr_html_()
    assert "<b>" not in html_table("<b>", {"<b>": "<b>"}, notes=["<b>"])


def test_a_fitted_method_names_its_classes() -> None:
    fitted = LabelVeil().fit(PERTURBED, SPLIT)
    parser = Balanced()
    parser.feed(fitted._repr_html_())
    assert f"60 nodes, 3 classes: {', '.join(PRIVATE.schema.classes)}" in parser.text
    assert "label reports alone" in parser.text
