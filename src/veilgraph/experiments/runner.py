"""Runs the cells of an experiment that are not finished yet, in as many processes as asked for."""

from __future__ import annotations

import multiprocessing
import platform
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

import veilgraph
from veilgraph.budget import json_epsilon
from veilgraph.datasets import PrivateGraph, load
from veilgraph.errors import RunError
from veilgraph.evaluation import accuracy
from veilgraph.experiments.methods import find_method, make_method
from veilgraph.experiments.plan import Cell, Experiment
from veilgraph.experiments.simulate import reports_rng, simulate
from veilgraph.experiments.store import CellStore
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.learn.gnn import GNNMethod
from veilgraph.schema import NO_LABEL

Progress = Callable[[str, int, int], None]


@lru_cache(maxsize=2)
def load_data(dataset: str, data_dir: Path | None, original_columns: bool = False) -> PrivateGraph:
    """A data set, kept for the next cell that needs it."""
    return load(dataset, data_dir=data_dir, merge_columns=not original_columns)


def run_experiment(
    experiment: Experiment,
    store: CellStore,
    *,
    data_dir: Path | None = None,
    device: str = "auto",
    jobs: int = 1,
    progress: Progress = lambda what, done, total: None,
) -> None:
    """Run what is missing. Each cell is kept as it finishes, so stopping loses at most the cells in flight."""
    keys = {key_of(cell, data_dir): cell for cell in experiment.cells}
    missing = {key: cell for key, cell in keys.items() if not store.has(key)}
    done = len(keys) - len(missing)
    progress("already finished", done, len(keys))
    if jobs == 1:
        for key, cell in missing.items():
            store.put(key, run_cell(cell, data_dir, device))
            done += 1
            progress(describe(cell), done, len(keys))
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_one_thread) as pool:
        running = {pool.submit(run_cell, cell, data_dir, device): key for key, cell in missing.items()}
        try:
            while running:
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    key = running.pop(future)
                    store.put(key, _result(future))
                    done += 1
                    progress(describe(keys[key]), done, len(keys))
        finally:
            for future in running:
                future.cancel()


def key_of(cell: Cell, data_dir: Path | None) -> str:
    """A cell's key, with the data that it will see."""
    return cell.key(load_data(cell.dataset, data_dir, cell.original_columns).fingerprint)


def describe(cell: Cell) -> str:
    """A cell in a few words."""
    budget = ", ".join(
        f"{name} {value:g}"
        for name, value in (("epsilon_x", cell.epsilon_x), ("epsilon_y", cell.epsilon_y))
        if value is not None
    )
    words = (cell.dataset, cell.method, cell.variant, budget or "not private", f"seed {cell.seed}")
    return ", ".join(word for word in words if word)


def draw(cell: Cell, data_dir: Path | None) -> tuple[PrivateGraph, PerturbedGraph, Split]:
    """The split and the reports of a cell. Cells of one seed share the split, and labels at one epsilon_y."""
    private = load_data(cell.dataset, data_dir, cell.original_columns)
    entry = find_method(cell.method)
    split = Split.random(private.graph.num_nodes, seed=cell.seed, eligible=private.labels != NO_LABEL)
    budget = entry.budget(private.schema, cell.epsilon_x, cell.epsilon_y, cell.sampled)
    perturbed = simulate(private, budget, split, rng=reports_rng(cell.seed), features=entry.features)
    return private, perturbed, split


def run_cell(cell: Cell, data_dir: Path | None, device: str) -> dict[str, Any]:
    """Randomize, fit and score one cell."""
    private, perturbed, split = draw(cell, data_dir)
    method = make_method(cell.method, {**cell.parameters, "seed": cell.seed, "device": device})
    started = time.perf_counter()
    method.fit(perturbed, split)
    seconds = time.perf_counter() - started
    guarantee = perturbed.guarantee
    if not method.uses_features:  # a collection for it would not ask for them
        guarantee = replace(guarantee, features=None, unsound_theorem_1=None)
    return {
        "cell": asdict(cell),
        "accuracy": accuracy(method.predict(), private, split.test),
        "validation_score": max(method.curve.validation_score) if isinstance(method, GNNMethod) else None,
        "epsilon_user_level": json_epsilon(method.epsilon_spent(guarantee)),
        "guarantee": guarantee.as_dict() | {"attribute_level": None},
        "seconds": seconds,
        "versions": {
            "veilgraph": veilgraph.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() and device != "cpu" else "cpu",
    }


def _result(future: Future[dict[str, Any]]) -> dict[str, Any]:
    try:
        return future.result()
    except BrokenProcessPool:
        raise RunError(
            "a process was killed, most likely for want of memory; finished fits are kept: run again with fewer --jobs"
        ) from None


def _one_thread() -> None:
    """Several processes share the cores; threads of one would only wait for those of another."""
    torch.set_num_threads(1)
