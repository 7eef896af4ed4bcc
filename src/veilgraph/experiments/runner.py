"""Runs the cells of an experiment that are not finished yet, in as many processes as asked for."""

from __future__ import annotations

import multiprocessing
import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from veilgraph.experiments.fit import Fit, fit_cells
from veilgraph.experiments.methods import find_method
from veilgraph.experiments.plan import Cell, Experiment
from veilgraph.experiments.store import CellStore
from veilgraph.learn.method import DEFAULT_MEMORY

Progress = Callable[[str, int, int], None]

_CHUNK_NODES = 120_000
_LEAST_CHUNK = 8


@lru_cache(maxsize=8)
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
    memory: int = DEFAULT_MEMORY,
    progress: Progress = lambda what, done, total: None,
) -> None:
    """Run what is missing. Each fit is kept as it finishes, so stopping loses at most those in flight.

    Args:
        experiment: what to run.
        store: where results are.
        data_dir: folder of the data sets.
        device: "auto", "cpu" or "cuda".
        jobs: processes.
        memory: that all processes together may take for fits in flight, in bytes.
        progress: told what was done, how many fits are finished, and of how many.
    """
    keys = {key_of(cell, data_dir): cell for cell in experiment.cells}
    missing = [cell for key, cell in keys.items() if not store.has(key)]
    done = len(keys) - len(missing)
    progress("already finished", done, len(keys))
    for results in _finished_chunks(_chunks(missing, data_dir, device), data_dir, device, jobs, memory):
        for cell, result in results:
            store.put(key_of(cell, data_dir), result)
            done += 1
            progress(describe(cell), done, len(keys))


Result = tuple[Cell, dict[str, Any]]


def _chunks(cells: Sequence[Cell], data_dir: Path | None, device: str) -> list[list[Cell]]:
    """Cells that are worth training together; on a processor not more, so that processes have something to share.

    Cells of one draw of features share a network's inputs, so no chunk has a part of them if it can have all.
    """
    groups: dict[tuple[str, bool, str], dict[tuple[int, float | None], list[Cell]]] = {}
    for cell in cells:
        draws = groups.setdefault((cell.dataset, cell.original_columns, cell.method), {})
        draws.setdefault((cell.seed, cell.epsilon_x), []).append(cell)
    chunks: list[list[Cell]] = []
    for group in groups.values():
        first = next(iter(group.values()))[0]
        size = len(cells) if device == "cuda" else max(_LEAST_CHUNK, _CHUNK_NODES // _nodes(first, data_dir))
        chunks += _packed(group.values(), size)
    return chunks


def _packed(draws: Iterable[Sequence[Cell]], size: int) -> Iterator[list[Cell]]:
    """Draws side by side in chunks of at most so many cells; only a draw that is larger is taken apart."""
    chunk: list[Cell] = []
    for draw in draws:
        for start in range(0, len(draw), size):
            part = draw[start : start + size]
            if chunk and len(chunk) + len(part) > size:
                yield chunk
                chunk = []
            chunk = [*chunk, *part]
    if chunk:
        yield chunk


def _finished_chunks(
    chunks: Sequence[Sequence[Cell]], data_dir: Path | None, device: str, jobs: int, memory: int
) -> Iterator[Iterable[Result]]:
    if jobs == 1:
        for chunk in chunks:
            yield _run_chunk(chunk, data_dir, device, memory)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(chunks)) or 1, mp_context=context, initializer=_one_thread) as pool:
        # The largest graphs first, so that no process is left alone with one at the end.
        largest_first = sorted(chunks, key=lambda chunk: -_nodes(chunk[0], data_dir))
        running = {
            pool.submit(_run_chunk_in_process, chunk, data_dir, device, memory // jobs) for chunk in largest_first
        }
        try:
            while running:
                finished, running = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    yield _result(future)
        finally:
            for future in running:
                future.cancel()


def _nodes(cell: Cell, data_dir: Path | None) -> int:
    return load_data(cell.dataset, data_dir, cell.original_columns).graph.num_nodes


def run_cell(cell: Cell, data_dir: Path | None, device: str) -> dict[str, Any]:
    """Fit one cell; what is kept of it."""
    ((_, result),) = _run_chunk([cell], data_dir, device, DEFAULT_MEMORY)
    return result


def _run_chunk(chunk: Sequence[Cell], data_dir: Path | None, device: str, memory: int) -> Iterator[Result]:
    private = load_data(chunk[0].dataset, data_dir, chunk[0].original_columns)
    for fit in fit_cells(chunk, private, device, memory=memory):
        yield fit.cell, _summary(fit, device)


def _run_chunk_in_process(chunk: Sequence[Cell], data_dir: Path | None, device: str, memory: int) -> list[Result]:
    return list(_run_chunk(chunk, data_dir, device, memory))


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


def _summary(fit: Fit, device: str) -> dict[str, Any]:
    guarantee = fit.perturbed.guarantee
    if not find_method(fit.cell.method).uses_features:  # a collection for it would not ask for them
        guarantee = replace(guarantee, features=None, unsound_theorem_1=None)
    return {
        "cell": asdict(fit.cell),
        "accuracy": fit.accuracy,
        "epsilon_user_level": json_epsilon(guarantee.total_user_level),
        "guarantee": guarantee.as_dict() | {"attribute_level": None},
        "seconds": fit.seconds,
        "versions": {
            "veilgraph": veilgraph.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() and device != "cpu" else "cpu",
    }


def _result(future: Future[list[Result]]) -> list[Result]:
    try:
        return future.result()
    except BrokenProcessPool:
        raise RunError(
            "a process was killed, most likely for want of memory; finished fits are kept: run again with fewer --jobs"
        ) from None


def _one_thread() -> None:
    """Several processes share the cores; threads of one would only wait for those of another."""
    torch.set_num_threads(1)
