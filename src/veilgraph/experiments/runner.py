"""Runs the cells of an experiment that are not finished yet, in as many processes as asked for."""

from __future__ import annotations

import multiprocessing
import platform
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
from veilgraph.experiments.fit import fit_cell
from veilgraph.experiments.plan import Cell, Experiment
from veilgraph.experiments.store import CellStore

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


def run_cell(cell: Cell, data_dir: Path | None, device: str) -> dict[str, Any]:
    """Fit one cell; what is kept of it."""
    fit = fit_cell(cell, load_data(cell.dataset, data_dir, cell.original_columns), device)
    guarantee = fit.perturbed.guarantee
    if not fit.method.uses_features:  # a collection for it would not ask for them
        guarantee = replace(guarantee, features=None, unsound_theorem_1=None)
    return {
        "cell": asdict(cell),
        "accuracy": fit.accuracy,
        "epsilon_user_level": json_epsilon(fit.method.epsilon_spent(guarantee)),
        "guarantee": guarantee.as_dict() | {"attribute_level": None},
        "seconds": fit.seconds,
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
