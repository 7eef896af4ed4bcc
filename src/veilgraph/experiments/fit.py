"""Fits of cells: draw splits and reports, train methods on them, and score them against the truth."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
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
    reports (the very same array, so that what is made of them can be shared too).
    """
    entry = find_method(cell.method)
    split = _split(private, cell.seed)
    budget = entry.budget(private.schema, cell.epsilon_x, cell.epsilon_y, cell.sampled)
    label = GRR(private.schema.num_classes, budget.epsilon_y)
    labels = randomize_labels(private, label, split, rng=label_rng(cell.seed))
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
    runs: dict[Run, Cell] = {}
    for cell, (perturbed, split) in zip(cells, _draw_all(cells, private), strict=True):
        method = make_method(cell.method, {**cell.parameters, "seed": cell.seed, "device": device})
        runs[Run(method=method, perturbed=perturbed, split=split)] = cell
    if not runs:
        return
    started = time.perf_counter()
    for batch in type(next(iter(runs)).method).fit_together(list(runs), memory=memory):
        seconds = (time.perf_counter() - started) / len(batch)
        for run in batch:
            yield Fit(
                cell=runs[run],
                method=run.method,
                perturbed=run.perturbed,
                accuracy=accuracy(run.method.predict(), private, run.split.test),
                seconds=seconds,
            )
        started = time.perf_counter()


def _draw_all(cells: Sequence[Cell], private: PrivateGraph) -> Iterator[tuple[PerturbedGraph, Split]]:
    """The draws of many cells; first of one cell for each distinct draw of features, in as many threads as allowed."""
    firsts = {(cell.method, cell.epsilon_x, cell.seed): cell for cell in reversed(cells)}
    with ThreadPoolExecutor(max(1, torch.get_num_threads())) as pool:
        list(pool.map(lambda cell: draw_reports(cell, private), firsts.values()))
    return (draw_reports(cell, private) for cell in cells)


@lru_cache(maxsize=64)
def _split(private: PrivateGraph, seed: int) -> Split:
    return Split.random(private.graph.num_nodes, seed=seed, eligible=private.labels != NO_LABEL)


@lru_cache(maxsize=64)
def _feature_reports(private: PrivateGraph, mechanism: Mechanism, seed: int) -> NDArray[Any]:
    return mechanism.randomize(private.features, rng=feature_rng(seed))
