"""Private values appear in no error message, no repr and no log."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from veilgraph.datasets import PrivateGraph, csbm, from_tables
from veilgraph.errors import VeilgraphError
from veilgraph.experiments import simulate
from veilgraph.graph import Graph, Split
from veilgraph.models import RGNN
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms import GRR, GRRFS, MultiBit
from veilgraph.privacy.schema import Column, FeatureSchema

# A value that occurs nowhere else, so that finding it anywhere means that it leaked.
SECRET = 31337

SCHEMA = FeatureSchema(
    columns=(Column(name="age", edges=(0, 30, 120)), Column(name="city", values=("oslo", "rome"))),
    classes=("ill", "well"),
)
GRAPH = Graph.from_edges([[0, 1], [1, 2]], num_nodes=3)

MISTAKES: dict[str, Callable[[], Any]] = {
    "a continuous value out of range": lambda: SCHEMA.encode({"age": [SECRET], "city": ["oslo"]}),
    "a number where text was declared": lambda: SCHEMA.encode({"age": [1], "city": [SECRET]}),
    "text where numbers were declared": lambda: SCHEMA.encode({"age": [f"x{SECRET}"], "city": ["oslo"]}),
    "an undeclared class": lambda: SCHEMA.encode_labels([f"{SECRET}"]),
    "a code outside GRR's domain": lambda: GRR(3, 1.0).randomize(np.array([SECRET]), rng=np.random.default_rng(0)),
    "a code outside GRR-FS's domain": lambda: GRRFS((2, 3), 1, 1.0).randomize(
        np.array([[0, SECRET]]), rng=np.random.default_rng(0)
    ),
    "a value outside multi-bit's range": lambda: MultiBit((0.0,), (1.0,), 1, 1.0).randomize(
        np.array([[float(SECRET)]]), rng=np.random.default_rng(0)
    ),
    "a record outside the schema": lambda: PrivateGraph(
        name="x", graph=GRAPH, schema=SCHEMA, features=np.full((3, 2), SECRET), labels=np.zeros(3, dtype=np.int64)
    ),
    "a label outside the schema": lambda: PrivateGraph(
        name="x",
        graph=GRAPH,
        schema=SCHEMA,
        features=np.zeros((3, 2), dtype=np.uint8),
        labels=np.array([0, 1, SECRET]),
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_no_exception_contains_a_private_value(mistake: str) -> None:
    with pytest.raises(VeilgraphError) as caught:
        MISTAKES[mistake]()
    # Causes and contexts are printed too, source lines are not the program's data.
    shown = "".join(traceback.format_exception_only(caught.value)) + repr(caught.value.__cause__)
    assert str(SECRET) not in shown
    assert caught.value.__cause__ is None or caught.value.__suppress_context__


def test_no_exception_about_a_table_contains_a_private_value(tmp_path: Path) -> None:
    SCHEMA.save(tmp_path / "s.toml")
    (tmp_path / "e.csv").write_text("u,v\na,b\n")
    for row in (f"a,{SECRET},oslo,ill", f"a,x{SECRET},oslo,ill", f"a,1,{SECRET},ill", f"a,1,oslo,{SECRET}"):
        (tmp_path / "n.csv").write_text(f"id,age,city,y\n{row}\nb,1,oslo,well\n")
        with pytest.raises(VeilgraphError) as caught:
            from_tables(edges=tmp_path / "e.csv", nodes=tmp_path / "n.csv", schema=tmp_path / "s.toml", label="y")
        assert str(SECRET) not in str(caught.value)
        assert caught.value.__cause__ is None


def test_reprs_show_sizes_and_no_values(caplog: pytest.LogCaptureFixture) -> None:
    private = csbm(50, num_features=3, seed=0)
    split = Split.random(50, seed=0)
    with caplog.at_level(logging.DEBUG):
        perturbed = simulate(private, PrivacyBudget(1.0, 1.0, 2), split, rng=np.random.default_rng(0))
        method = RGNN(epochs=1, feature_hops=1, label_hops=1, num_clusters=2).fit(perturbed, split)
    assert "<private>" in repr(private)
    for thing in (private, perturbed, split, method):
        assert "array(" not in repr(thing)
        assert "tensor(" not in repr(thing)
    assert "array(" not in caplog.text
