"""Fits of cells: draw splits and reports, train methods on them, and score them against the truth."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from veilgraph.datasets import PrivateGraph
from veilgraph.evaluation import accuracy
from veilgraph.experiments.grid import Cell
from veilgraph.experiments.simulation import (
    collect,
    family_of,
    feature_rng,
    label_rng,
    randomize_alike,
    randomize_labels,
)
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.models.base import DEFAULT_MEMORY, FitTask, Method, PendingFit
from veilgraph.models.registry import find_method, make_method
from veilgraph.privacy.mechanisms import GRR, Mechanism
from veilgraph.privacy.mechanisms.registry import grr_fs
from veilgraph.privacy.schema import NO_LABEL


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


def draw_reports(cell: Cell, private: PrivateGraph, family: tuple[Mechanism, ...] = ()) -> tuple[PerturbedGraph, Split]:
    """The reports and the split of a cell.

    Cells of one seed share the split; at one epsilon_y they share the label reports, at one epsilon_x the feature
    reports (the very same arrays, so that what is made of them can be shared too).

    Args:
        cell: for which reports are needed.
        private: the records.
        family: mechanisms that will need feature reports of the same seed and can be drawn with the cell's.
    """
    split, randomizers = _split(private, cell.seed), _randomizers_of(cell, private)
    features = None
    if randomizers.asks_for_features:
        drawn = _feature_reports(private, family or (randomizers.features,), cell.seed)
        features = drawn[randomizers.features]
    labels = _label_reports(private, randomizers.label, cell.seed)
    return collect(private, split, randomizers.label, labels, randomizers.features, features), split


def fit_cells(
    cells: Sequence[Cell], private: PrivateGraph, device: str, *, memory: int = DEFAULT_MEMORY
) -> Iterator[Fit]:
    """Randomize, fit and score cells of one method on one data set, together where the method can."""
    for finish in start_cells(draw_runs(cells, private, device), private, memory=memory):
        yield from finish()


def draw_runs(cells: Sequence[Cell], private: PrivateGraph, device: str) -> dict[FitTask[Method], Cell]:
    """What is to be fitted for each cell: its method, reports and split."""
    mechanisms = [_randomizers_of(cell, private).features for cell in cells]
    families: dict[Hashable, dict[Mechanism, None]] = {}
    for mechanism in mechanisms:
        families.setdefault(family_of(mechanism), {})[mechanism] = None
    runs: dict[FitTask[Method], Cell] = {}
    for cell, mechanism in zip(cells, mechanisms, strict=True):
        perturbed, split = draw_reports(cell, private, tuple(families[family_of(mechanism)]))
        runs[FitTask(method=method_of(cell, device), perturbed=perturbed, split=split)] = cell
    return runs


def start_cells(
    runs: Mapping[FitTask[Method], Cell], private: PrivateGraph, *, memory: int = DEFAULT_MEMORY
) -> Iterator[Callable[[], list[Fit]]]:
    """Start to fit runs of one class of methods; calling what is handed back waits for the fits, and scores them."""
    if not runs:
        return
    started = time.perf_counter()
    for pending in type(next(iter(runs)).method).start_together(list(runs), memory=memory):
        yield partial(_scored, pending, runs, private, started)
        started = time.perf_counter()


def method_of(cell: Cell, device: str = "auto") -> Method:
    """The estimator of a cell, not yet fitted."""
    return make_method(cell.method, {**cell.parameters, "seed": cell.seed, "device": device})


def _scored(
    pending: PendingFit[Method], runs: Mapping[FitTask[Method], Cell], private: PrivateGraph, started: float
) -> list[Fit]:
    batch = pending.result()
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
def _feature_reports(private: PrivateGraph, family: tuple[Mechanism, ...], seed: int) -> dict[Mechanism, NDArray[Any]]:
    reports = randomize_alike(family, private.features, rng=feature_rng(seed))
    return dict(zip(family, reports, strict=True))


class _Randomizers(NamedTuple):
    """Of a cell: of the label, of features, and whether anybody is asked for them."""

    label: GRR
    features: Mechanism
    asks_for_features: bool


def _randomizers_of(cell: Cell, private: PrivateGraph) -> _Randomizers:
    return _randomizers(private, cell.method, cell.epsilon_x, cell.epsilon_y, cell.sampled)


@lru_cache(maxsize=256)  # cells with one budget share them, and with them what is computed of them
def _randomizers(
    private: PrivateGraph, method: str, epsilon_x: float | None, epsilon_y: float | None, sampled: int
) -> _Randomizers:
    entry = find_method(method)
    budget = entry.budget(private.schema, epsilon_x, epsilon_y, sampled)
    return _Randomizers(
        label=GRR(private.schema.num_classes, budget.epsilon_y),
        features=(entry.features or grr_fs)(private.schema, budget),
        asks_for_features=entry.uses_features,
    )
