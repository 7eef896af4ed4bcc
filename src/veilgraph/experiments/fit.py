"""One fit: draw a split and reports, train a method on them, and score it against the truth."""

from __future__ import annotations

import time
from dataclasses import dataclass

from veilgraph.datasets import PrivateGraph
from veilgraph.evaluation import accuracy
from veilgraph.experiments.methods import find_method, make_method
from veilgraph.experiments.plan import Cell
from veilgraph.experiments.simulate import reports_rng, simulate
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.learn import Method
from veilgraph.schema import NO_LABEL


@dataclass(frozen=True, kw_only=True, eq=False)
class Fit:
    """A trained method, what it was trained on, and how well it did.

    Attributes:
        method: fitted.
        perturbed: the reports.
        accuracy: on test nodes, against true labels.
        seconds: of training.
    """

    method: Method
    perturbed: PerturbedGraph
    accuracy: float
    seconds: float


def draw_reports(cell: Cell, private: PrivateGraph) -> tuple[PerturbedGraph, Split]:
    """The reports and the split of a cell. Cells of one seed share the split, and labels at one epsilon_y."""
    entry = find_method(cell.method)
    split = Split.random(private.graph.num_nodes, seed=cell.seed, eligible=private.labels != NO_LABEL)
    budget = entry.budget(private.schema, cell.epsilon_x, cell.epsilon_y, cell.sampled)
    return simulate(private, budget, split, rng=reports_rng(cell.seed), features=entry.features), split


def fit_cell(cell: Cell, private: PrivateGraph, device: str) -> Fit:
    """Randomize, fit and score."""
    perturbed, split = draw_reports(cell, private)
    method = make_method(cell.method, {**cell.parameters, "seed": cell.seed, "device": device})
    started = time.perf_counter()
    method.fit(perturbed, split)
    seconds = time.perf_counter() - started
    scored = accuracy(method.predict(), private, split.test)
    return Fit(method=method, perturbed=perturbed, accuracy=scored, seconds=seconds)
