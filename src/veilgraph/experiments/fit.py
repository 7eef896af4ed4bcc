"""Fits of cells: draw splits and reports, train methods on them, and score them against the truth."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.datasets import PrivateGraph
from veilgraph.evaluation import accuracy
from veilgraph.experiments.methods import find_method, make_method
from veilgraph.experiments.plan import Cell
from veilgraph.experiments.simulate import collect, feature_rng, grr_fs, label_rng, randomize_labels
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.learn.method import DEFAULT_MEMORY, Method, Run
from veilgraph.mechanisms import GRR, Mechanism
from veilgraph.schema import NO_LABEL


@dataclass(frozen=True, kw_only=True, eq=False)
class Fit:
    """A trained method, what it was trained on, and how well it did.

    Attributes:
        cell: what was asked for.
        method: fitted.
        perturbed: the reports.
        accuracy: on test nodes, against true labels.
        seconds: of training; where fits were trained together, its share.
    """

    cell: Cell
    method: Method
    perturbed: PerturbedGraph
    accuracy: float
    seconds: float


def draw_reports(cell: Cell, private: PrivateGraph) -> tuple[PerturbedGraph, Split]:
    """The reports and the split of a cell.

    Cells of one seed share the split; at one epsilon_y they share the label reports, at one epsilon_x the feature
    reports (the very same arrays, so that what is made of them can be shared too).
    """
    entry = find_method(cell.method)
    split = _split(private, cell.seed)
    budget = entry.budget(private.schema, cell.epsilon_x, cell.epsilon_y, cell.sampled)
    label = GRR(private.schema.num_classes, budget.epsilon_y)
    labels = _label_reports(private, label, cell.seed)
    if entry.features is None:
        mechanism = grr_fs(private.schema, budget)  # that nobody used
        return collect(private, split, label, labels, mechanism, None), split
    mechanism = entry.features(private.schema, budget)
    features = _feature_reports(private, mechanism, cell.seed)
    return collect(private, split, label, labels, mechanism, features), split


def fit_cells(
    cells: Sequence[Cell], private: PrivateGraph, device: str, *, memory: int = DEFAULT_MEMORY
) -> Iterator[Fit]:
    """Randomize, fit and score cells of one method on one data set, together where the method can."""
    for finish in start_cells(draw_runs(cells, private, device), private, memory=memory):
        yield from finish()


def draw_runs(cells: Sequence[Cell], private: PrivateGraph, device: str) -> dict[Run, Cell]:
    """What is to be fitted for each cell: its method, reports and split."""
    runs: dict[Run, Cell] = {}
    for cell in cells:
        perturbed, split = draw_reports(cell, private)
        runs[Run(method=method_of(cell, device), perturbed=perturbed, split=split)] = cell
    return runs


def start_cells(
    runs: Mapping[Run, Cell], private: PrivateGraph, *, memory: int = DEFAULT_MEMORY
) -> Iterator[Callable[[], list[Fit]]]:
    """Start to fit runs of one class of methods; calling what is handed back waits for the fits, and scores them."""
    if not runs:
        return
    started = time.perf_counter()
    for finish in type(next(iter(runs)).method).start_together(list(runs), memory=memory):
        yield partial(_scored, finish, runs, private, started)
        started = time.perf_counter()


def method_of(cell: Cell, device: str = "auto") -> Method:
    """The estimator of a cell, not yet fitted."""
    return make_method(cell.method, {**cell.parameters, "seed": cell.seed, "device": device})


def _scored(
    finish: Callable[[], Sequence[Run]], runs: Mapping[Run, Cell], private: PrivateGraph, started: float
) -> list[Fit]:
    batch = finish()
    seconds = (time.perf_counter() - started) / len(batch)
    return [
        Fit(
            cell=runs[run],
            method=run.method,
            perturbed=run.perturbed,
            accuracy=accuracy(run.method.predict(), private, run.split.test),
            seconds=seconds,
        )
        for run in batch
    ]


@lru_cache(maxsize=64)
def _split(private: PrivateGraph, seed: int) -> Split:
    return Split.random(private.graph.num_nodes, seed=seed, eligible=private.labels != NO_LABEL)


@lru_cache(maxsize=64)
def _label_reports(private: PrivateGraph, mechanism: GRR, seed: int) -> NDArray[np.int64]:
    return randomize_labels(private, mechanism, _split(private, seed), rng=label_rng(seed))


@lru_cache(maxsize=64)
def _feature_reports(private: PrivateGraph, mechanism: Mechanism, seed: int) -> NDArray[Any]:
    return mechanism.randomize(private.features, rng=feature_rng(seed))
