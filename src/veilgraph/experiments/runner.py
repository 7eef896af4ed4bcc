"""Runs the cells of an experiment that are not finished yet, in as many processes as asked for."""

from __future__ import annotations

import itertools
import multiprocessing
import platform
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

import torch

import veilgraph
from veilgraph.datasets import PrivateGraph, load
from veilgraph.errors import RunError
from veilgraph.experiments.cells import Fit, draw_runs, method_of, start_cells
from veilgraph.experiments.grid import Cell, Experiment
from veilgraph.experiments.result_store import CellStore
from veilgraph.graph.metis_pool import start_workers
from veilgraph.models.base import DEFAULT_MEMORY, FitTask, Method
from veilgraph.models.engine.device import resolve_device
from veilgraph.models.registry import find_method
from veilgraph.privacy.epsilon import json_epsilon
from veilgraph.reconstruct.operators import operators_of

Progress = Callable[[str, int, int], None]
Item = TypeVar("Item")
Made = TypeVar("Made")

_CHUNK_NODES = 60_000
_LEAST_CHUNK = 8
_DRAWN_AHEAD = 4
_METIS_WORKERS = 8


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
    on_gpu = resolve_device(device).type == "cuda"
    if on_gpu and any(method_of(cell).bag_counts() for cell in experiment.cells):
        start_workers(_METIS_WORKERS)  # while data sets are read
    keys = {key_of(cell, data_dir): cell for cell in experiment.cells}
    missing = [cell for key, cell in keys.items() if not store.has(key)]
    done = len(keys) - len(missing)
    progress("already finished", done, len(keys))
    chunks = _chunks(missing, data_dir, on_gpu=on_gpu)
    for results in _finished_chunks(chunks, data_dir, device, jobs, memory):
        for cell, result in results:
            store.put(key_of(cell, data_dir), result)
            done += 1
            progress(describe(cell), done, len(keys))


Result = tuple[Cell, dict[str, Any]]


def _chunks(cells: Sequence[Cell], data_dir: Path | None, *, on_gpu: bool) -> list[list[Cell]]:
    """Cells that are worth training together; on a processor not more, so that processes have something to share.

    Cells of one draw of features share a network's inputs, so no chunk has a part of them if it can have all. A GPU
    trains whatever methods have one learner at once.
    """
    groups: dict[Hashable, dict[Hashable, list[Cell]]] = {}
    for cell in cells:
        learner = type(method_of(cell)) if on_gpu else cell.method
        draws = groups.setdefault((cell.dataset, cell.original_columns, learner), {})
        draws.setdefault((cell.method, cell.seed, cell.epsilon_x), []).append(cell)
    chunks: list[list[Cell]] = []
    for group in groups.values():
        first = next(iter(group.values()))[0]
        size = len(cells) if on_gpu else max(_LEAST_CHUNK, _CHUNK_NODES // _nodes(first, data_dir))
        chunks += _packed(group.values(), size)
    return _small_graphs_first(chunks, data_dir) if on_gpu else chunks


def _small_graphs_first(chunks: Sequence[list[Cell]], data_dir: Path | None) -> list[list[Cell]]:
    """METIS cuts the large ones meanwhile. The smallest is last: nothing is got ready any more while it is trained."""
    sizes = [_nodes(chunk[0], data_dir) for chunk in chunks]
    ranked = sorted(zip(sizes, chunks, strict=True), key=lambda each: (each[0] == min(sizes), each[0]))
    return [chunk for _, chunk in ranked]


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
        yield from _one_after_another(chunks, data_dir, device, memory)
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
    (((_, result),),) = _one_after_another([[cell]], data_dir, device, DEFAULT_MEMORY)
    return result


def _one_after_another(
    chunks: Sequence[Sequence[Cell]], data_dir: Path | None, device: str, memory: int
) -> Iterator[Iterable[Result]]:
    """Each chunk's fits as they finish; while a GPU trains, the fits after them are got ready."""
    ahead = 1 if resolve_device(device).type == "cuda" else 0
    if ahead:
        _foresee(chunks, data_dir, device)
    under_way: deque[Callable[[], list[Fit]]] = deque()
    draw = partial(_drawn, data_dir=data_dir, device=device)
    try:
        for runs, private in _made_ahead(draw, chunks) if ahead else map(draw, chunks):
            for finish in start_cells(runs, private, memory=memory // (1 + ahead)):
                under_way.append(finish)
                if len(under_way) > ahead:
                    yield _results(under_way.popleft(), device)
    except Exception:  # a mistake in what comes after does not cost what was trained before
        yield from (_results(finish, device) for finish in under_way)
        raise
    yield from (_results(finish, device) for finish in under_way)


def _drawn(
    chunk: Sequence[Cell], data_dir: Path | None, device: str
) -> tuple[dict[FitTask[Method], Cell], PrivateGraph]:
    private = load_data(chunk[0].dataset, data_dir, chunk[0].original_columns)
    return draw_runs(chunk, private, device), private


def _foresee(chunks: Sequence[Sequence[Cell]], data_dir: Path | None, device: str) -> None:
    """Have processes make the bags of all graphs beside everything else."""
    counts: dict[PrivateGraph, set[int]] = {}
    for cell in itertools.chain.from_iterable(chunks):
        private = load_data(cell.dataset, data_dir, cell.original_columns)
        counts.setdefault(private, set()).update(method_of(cell).bag_counts())
    for private, wanted in counts.items():
        operators_of(private.graph, resolve_device(device)).begin_clusters(wanted)


def _made_ahead(make: Callable[[Item], Made], items: Iterable[Item]) -> Iterator[Made]:
    """`make` of each item, of the next few in a thread while one is in use."""
    thread, waiting = ThreadPoolExecutor(1), deque[Future[Made]]()
    try:
        for item in items:
            waiting.append(thread.submit(make, item))
            if len(waiting) > _DRAWN_AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        thread.shutdown(cancel_futures=True)


def _results(finish: Callable[[], list[Fit]], device: str) -> Iterator[Result]:
    for fit in finish():
        yield fit.cell, _summary(fit, device)


def _run_chunk_in_process(chunk: Sequence[Cell], data_dir: Path | None, device: str, memory: int) -> list[Result]:
    return list(itertools.chain.from_iterable(_one_after_another([chunk], data_dir, device, memory)))


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
