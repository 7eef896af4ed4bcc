"""Cells, one by one: find the data, draw split and reports, train the method, score it against the true labels."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from veilgraph.datasets import PrivateGraph, load
from veilgraph.datasets.registry import REGISTERED, Source
from veilgraph.errors import RunError
from veilgraph.evaluation import accuracy
from veilgraph.experiments.grid import BEST_LABELS, HALF, Cell
from veilgraph.experiments.simulation import (
    feature_rng,
    label_rng,
    randomize_coupled,
    randomize_labels,
    simulated_collection,
)
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.models.base import DEFAULT_MEMORY, FitTask, Method, PendingFit
from veilgraph.models.registry import find_method, make_method
from veilgraph.privacy.mechanisms import GRR, FeatureMechanism, LabelMechanism
from veilgraph.privacy.mechanisms.registry import best_label_mechanism
from veilgraph.privacy.schema import NO_LABEL

DataSource: TypeAlias = Callable[[Cell], PrivateGraph]
"""Returns the data of a cell. Cells share reports only if their data are the same object."""


@dataclass(frozen=True)
class DatasetLoader:
    """Data sets by name or path, each read once in a process. It is a `DataSource`.

    Attributes:
        data_dir: folder to look for names in first.
        read: reads a data set by name or path.
    """

    data_dir: Path | None = None
    read: Callable[..., PrivateGraph] = field(default=load, kw_only=True)

    def __call__(self, cell: Cell) -> PrivateGraph:
        """Return the data of a cell."""
        return self.load(cell.dataset, original_columns=cell.original_columns)

    def load(self, dataset: str, *, original_columns: bool = False) -> PrivateGraph:
        """Return a data set by name or path, with columns merged as in the paper or as they were published."""
        return _read_once(self.read, dataset, self.data_dir, not original_columns, REGISTERED.get(dataset))


@lru_cache(maxsize=8)
def _read_once(
    read: Callable[..., PrivateGraph],
    dataset: str,
    data_dir: Path | None,
    merge_columns: bool,
    registered: Source | None,  # a name that is registered again is read again
) -> PrivateGraph:
    return read(dataset, data_dir=data_dir, merge_columns=merge_columns)


def key_of(cell: Cell, data: DataSource) -> str:
    """Return the key of a cell's result in a store. It depends on the data too."""
    return cell.key(data(cell).fingerprint)


def check_features(cell: Cell, data: DataSource) -> None:
    """Raise RunError if the method of a cell needs features and its data have none, before anything is fitted."""
    entry = find_method(cell.method)
    if entry.uses_features and entry.estimator.unmet_need(None) and not data(cell).schema.num_features:
        raise RunError(f"{cell.method} needs features, and {cell.dataset} has none: leave one of the two out")


@dataclass(frozen=True, kw_only=True, eq=False)
class Fit:
    """A fitted and scored cell.

    Attributes:
        cell: the cell.
        method: the fitted method.
        perturbed: the reports that it was fitted to.
        accuracy: share of test nodes whose true label is predicted.
        seconds: training time; for cells that were trained together, an equal share.
        trained_together: number of fits that were one computation, this one included.
    """

    cell: Cell
    method: Method
    perturbed: PerturbedGraph
    accuracy: float
    seconds: float
    trained_together: int


@dataclass(frozen=True, kw_only=True, eq=False)
class PendingCells:
    """Cells whose fits were started together. On a GPU they may still be running.

    Attributes:
        fits: the fits, of tasks that `cells` has.
        cells: the cell of each task.
        private: data that the fits are scored against.
        started: `time.perf_counter` of the start.
    """

    fits: PendingFit[Method]
    cells: Mapping[FitTask[Method], Cell]
    private: PrivateGraph
    started: float

    def result(self) -> list[Fit]:
        """Wait for the fits, score them and return them."""
        tasks = self.fits.result()
        seconds = (time.perf_counter() - self.started) / len(tasks)
        return [
            Fit(
                cell=self.cells[task],
                method=task.method,
                perturbed=task.perturbed,
                accuracy=accuracy(task.method.predict(), self.private, task.split.test),
                seconds=seconds,
                trained_together=len(tasks),
            )
            for task in tasks
        ]


def fit_cells(
    cells: Sequence[Cell], private: PrivateGraph, device: str, *, memory: int = DEFAULT_MEMORY
) -> Iterator[Fit]:
    """Randomize, fit and score cells of one method on one data set, together where the method can."""
    for pending in start_cells(draw_tasks(cells, private, device), private, memory=memory):
        yield from pending.result()


def start_cells(
    cells: Mapping[FitTask[Method], Cell], private: PrivateGraph, *, memory: int = DEFAULT_MEMORY
) -> Iterator[PendingCells]:
    """Start the fits of tasks whose methods are of one class; yield each batch as soon as it is started.

    Args:
        cells: tasks and their cells, as `draw_tasks` returns them.
        private: data that the fits are scored against.
        memory: limit for all fits that run at the same time, in bytes.
    """
    if not cells:
        return
    started = time.perf_counter()
    for fits in type(next(iter(cells)).method).start_together(list(cells), memory=memory):
        yield PendingCells(fits=fits, cells=cells, private=private, started=started)
        started = time.perf_counter()


def draw_tasks(cells: Sequence[Cell], private: PrivateGraph, device: str) -> dict[FitTask[Method], Cell]:
    """Draw the reports of cells; return a task with method, reports and split for each cell.

    Mechanisms that can be coupled are drawn together, from the same random words.
    """
    mechanisms = [_mechanisms_of(cell, private).features for cell in cells]
    coupled: dict[Hashable, dict[FeatureMechanism, None]] = {}
    for mechanism in filter(None, mechanisms):
        coupled.setdefault(mechanism.coupling, {})[mechanism] = None
    tasks: dict[FitTask[Method], Cell] = {}
    for cell, own in zip(cells, mechanisms, strict=True):
        perturbed, split = draw_reports(cell, private, () if own is None else tuple(coupled[own.coupling]))
        tasks[FitTask(method=method_of(cell, device), perturbed=perturbed, split=split)] = cell
    return tasks


def draw_reports(
    cell: Cell, private: PrivateGraph, coupled: tuple[FeatureMechanism, ...] = ()
) -> tuple[PerturbedGraph, Split]:
    """Return the reports and the split of a cell.

    Cells of one seed share the split; at one epsilon_y they share label reports, at one epsilon_x feature reports.
    Shared reports are the same arrays, so that whatever is computed from them can be shared too.

    Args:
        cell: the cell.
        private: the true records.
        coupled: feature mechanisms to draw together with the cell's own, which is one of them.
    """
    split, mechanisms = _split(private, cell.seed, cell.reporters), _mechanisms_of(cell, private)
    features = None
    if mechanisms.features is not None:
        drawn = _feature_reports(private, coupled or (mechanisms.features,), cell.seed)
        features = drawn[mechanisms.features]
    labels = _label_reports(private, mechanisms.label, cell.seed, cell.reporters)
    reports = simulated_collection(private, split, mechanisms.label, labels, mechanisms.features, features)
    return cell.edge_knowledge.known(private, reports, split, cell.edge_epsilon or 0.0, cell.seed), split


def method_of(cell: Cell, device: str = "auto") -> Method:
    """Return the method of a cell, not fitted yet."""
    return make_method(cell.method, {**cell.parameters, "seed": cell.seed, "device": device})


@lru_cache(maxsize=64)
def _split(private: PrivateGraph, seed: int, reporters: float) -> Split:
    """Return the split of a seed. If half of the people give a label, a fifth of the training nodes selects."""
    split = Split.random(private.graph.num_nodes, seed=seed, eligible=private.labels != NO_LABEL)
    if reporters != HALF:
        return split
    most = np.random.default_rng(seed).random(len(split.train)) < 0.8
    return Split(train=split.train & most, validation=split.train & ~most, test=split.test)


@lru_cache(maxsize=64)
def _label_reports(private: PrivateGraph, mechanism: LabelMechanism, seed: int, reporters: float) -> NDArray[Any]:
    return randomize_labels(private, mechanism, _split(private, seed, reporters), rng=label_rng(seed))


@lru_cache(maxsize=64)
def _feature_reports(
    private: PrivateGraph, coupled: tuple[FeatureMechanism, ...], seed: int
) -> dict[FeatureMechanism, NDArray[Any]]:
    reports = randomize_coupled(coupled, private.features, rng=feature_rng(seed))
    return dict(zip(coupled, reports, strict=True))


class _Mechanisms(NamedTuple):
    """Mechanisms of a cell's collection; without a feature mechanism, no features are collected."""

    label: LabelMechanism
    features: FeatureMechanism | None


def _mechanisms_of(cell: Cell, private: PrivateGraph) -> _Mechanisms:
    return _mechanisms(private, cell.method, cell.epsilon_x, cell.epsilon_y, cell.sampled, cell.label_mechanism)


@lru_cache(maxsize=256)  # cells of one budget share the mechanisms, and so the tables that they computed
def _mechanisms(
    private: PrivateGraph,
    method: str,
    epsilon_x: float | None,
    epsilon_y: float | None,
    sampled: int,
    label_mechanism: str,
) -> _Mechanisms:
    entry = find_method(method)
    budget = entry.budget(private.schema, epsilon_x, epsilon_y, sampled)
    label = best_label_mechanism if label_mechanism == BEST_LABELS else GRR
    return _Mechanisms(
        label=label(private.schema.num_classes, budget.epsilon_y),
        features=entry.features(private.schema, budget) if entry.features and budget.collects_features else None,
    )
