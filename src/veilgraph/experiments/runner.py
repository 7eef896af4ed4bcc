"""Runs the cells of an experiment that have no result yet, in chunks, in one process or several."""

from __future__ import annotations

import itertools
import multiprocessing
import platform
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch

import veilgraph
from veilgraph.datasets import PrivateGraph
from veilgraph.errors import RunError
from veilgraph.experiments.cells import (
    DatasetLoader,
    DataSource,
    Fit,
    PendingCells,
    check_features,
    draw_tasks,
    key_of,
    method_of,
    start_cells,
)
from veilgraph.experiments.grid import Cell, Experiment
from veilgraph.experiments.results import ResultStore
from veilgraph.graph.metis import start_workers
from veilgraph.models.base import DEFAULT_MEMORY, FitTask, Method
from veilgraph.models.engine.device import resolve_device
from veilgraph.models.plugins import import_files, imported_files
from veilgraph.models.registry import find_method
from veilgraph.privacy.accounting import Released
from veilgraph.privacy.epsilon import json_epsilon
from veilgraph.progress import Progress, no_progress
from veilgraph.reconstruct.operators import operators_of

_CHUNK_NODES = 60_000
_MIN_CHUNK_CELLS = 8


def plan_chunks(
    cells: Sequence[Cell], data: DataSource, *, on_gpu: bool, chunk_nodes: int = _CHUNK_NODES
) -> list[list[Cell]]:
    """Divide cells into chunks that are worth training together, in the order in which to train them.

    All cells of a chunk have one data set, and one method on a CPU or one class of methods on a GPU. Cells of one
    draw of features share the inputs of a network, so a draw is divided only if it is larger than a chunk. A cell with
    waves of answers is a chunk of its own: to draw its reports is most of its work.

    Args:
        cells: cells to fit.
        data: returns the data of a cell.
        on_gpu: make chunks as large as possible. On a CPU they stay small, so that several processes get work.
        chunk_nodes: nodes of all graphs of a chunk together, on a CPU. A chunk has at least 8 cells all the same.
    """
    groups: dict[Hashable, dict[Hashable, list[Cell]]] = {}
    for cell in cells:
        learner = type(method_of(cell)) if on_gpu else cell.method
        draws = groups.setdefault((cell.dataset, cell.original_columns, learner, cell.neighbours), {})
        draws.setdefault((cell.method, cell.seed, cell.epsilon_x), []).append(cell)
    chunks: list[list[Cell]] = []
    for group in groups.values():
        first = next(iter(group.values()))[0]
        size = len(cells) if on_gpu else max(_MIN_CHUNK_CELLS, chunk_nodes // num_nodes(first, data))
        chunks += pack_draws(group.values(), 1 if first.edge_knowledge.draws_alone else size)
    return _small_graphs_first(chunks, data) if on_gpu else chunks


def pack_draws(draws: Iterable[Sequence[Cell]], size: int) -> Iterator[list[Cell]]:
    """Fill chunks of at most `size` cells with draws, in order; divide only a draw that is larger than a chunk."""
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


def num_nodes(cell: Cell, data: DataSource) -> int:
    """Return the number of nodes of a cell's graph."""
    return data(cell).graph.num_nodes


def _small_graphs_first(chunks: Sequence[list[Cell]], data: DataSource) -> list[list[Cell]]:
    """Sort chunks by graph size, but move the smallest graph to the end.

    METIS clusters the large graphs while the small ones are trained. Nothing is prepared during the last chunk, so
    that should be a short one.
    """
    sizes = [num_nodes(chunk[0], data) for chunk in chunks]
    ranked = sorted(zip(sizes, chunks, strict=True), key=lambda each: (each[0] == min(sizes), each[0]))
    return [chunk for _, chunk in ranked]


Item = TypeVar("Item")
Made = TypeVar("Made")
Result = tuple[Cell, dict[str, Any]]
OnFit = Callable[[Fit], Mapping[str, Any]]
"""Called with each finished fit; the entries that it returns are stored with the cell's result."""


def no_details(fit: Fit) -> Mapping[str, Any]:
    """Add nothing to the stored result."""
    return {}


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What the fits of an experiment may use.

    Attributes:
        device: "auto", "cpu" or "cuda".
        jobs: number of processes.
        memory: limit for fits in flight of all processes together, in bytes.
        pipelined: prepare the next fits while the current ones are trained; default: on a GPU only.
    """

    device: str = "auto"
    jobs: int = 1
    memory: int = DEFAULT_MEMORY
    pipelined: bool | None = None

    def __post_init__(self) -> None:
        if self.jobs < 1:
            raise RunError(f"jobs is {self.jobs}: give at least 1 process")

    @property
    def prepares_ahead(self) -> bool:
        """Whether the next fits are prepared while the current ones are trained."""
        return resolve_device(self.device).type == "cuda" if self.pipelined is None else self.pipelined


USUAL = Resources()
"""One process, on a GPU if there is one."""


def run_experiment(
    experiment: Experiment,
    store: ResultStore,
    *,
    data: DataSource | None = None,
    resources: Resources = USUAL,
    on_fit: OnFit = no_details,
    progress: Progress = no_progress,
) -> None:
    """Run all cells without a result. Results are stored as they finish: stopping loses only fits in flight.

    Args:
        experiment: the cells.
        store: where results are kept.
        data: returns the data of a cell; default: data sets of the catalogue by name.
        resources: device, processes and memory. With several processes, `data` and `on_fit` are pickled.
        on_fit: called with each finished fit before its result is stored, in the process that trained it.
        progress: called with the cell, the number of finished cells, and the number of all cells.
    """
    data = DatasetLoader() if data is None else data
    if resources.prepares_ahead and any(method_of(cell).bag_counts() for cell in experiment.cells):
        start_workers()  # they start while data sets are read
    for cell in experiment.cells:
        check_features(cell, data)
    keys = {key_of(cell, data): cell for cell in experiment.cells}
    missing = [cell for key, cell in keys.items() if not store.has(key)]
    done = len(keys) - len(missing)
    progress("already finished", done, len(keys))
    trainer = _ChunkTrainer(data=data, resources=resources, on_fit=on_fit)
    chunks = plan_chunks(missing, data, on_gpu=resources.prepares_ahead)
    for results in trainer.results(chunks) if resources.jobs == 1 else _in_processes(trainer, chunks):
        for cell, result in results:
            store.put(key_of(cell, data), result)
            done += 1
            progress(describe(cell), done, len(keys))


def run_cell(cell: Cell, *, data: DataSource | None = None, device: str = "auto") -> dict[str, Any]:
    """Fit one cell and return its result, as a store keeps it."""
    data = DatasetLoader() if data is None else data
    trainer = _ChunkTrainer(data=data, resources=Resources(device=device, pipelined=False), on_fit=no_details)
    ((_, result),) = trainer.train([cell])
    return result


def describe(cell: Cell) -> str:
    """Return a short description of a cell for people."""
    budget = ", ".join(
        f"{name} {value:g}"
        for name, value in (
            ("epsilon_x", cell.epsilon_x),
            ("epsilon_y", cell.epsilon_y),
            ("edge epsilon", cell.edge_epsilon),
        )
        if value is not None
    )
    words = (
        cell.dataset,
        cell.method,
        cell.variant,
        cell.edge_knowledge.title,
        budget or "not private",
        f"seed {cell.seed}",
    )
    return ", ".join(word for word in words if word)


def prefetched(make: Callable[[Item], Made], items: Iterable[Item], *, ahead: int = 4) -> Iterator[Made]:
    """Yield `make(item)` of each item in order; a thread makes the next `ahead` of them meanwhile.

    >>> list(prefetched(abs, [-1, -2, 3]))
    [1, 2, 3]
    """
    thread, waiting = ThreadPoolExecutor(1), deque[Future[Made]]()
    try:
        for item in items:
            waiting.append(thread.submit(make, item))
            if len(waiting) > ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        thread.shutdown(cancel_futures=True)


@dataclass(frozen=True, kw_only=True)
class _ChunkTrainer:
    """Trains chunks of cells in this process; the arguments are as in `run_experiment`."""

    data: DataSource
    resources: Resources
    on_fit: OnFit

    def results(self, chunks: Sequence[Sequence[Cell]]) -> Iterator[Iterable[Result]]:
        """Yield the results of each batch of fits. If pipelined, the next batch is started before one is awaited."""
        ahead = 1 if self.resources.prepares_ahead else 0
        if ahead:
            self._begin_clusterings(chunks)
        started: deque[PendingCells] = deque()
        try:
            for tasks, private in prefetched(self._draw, chunks) if ahead else map(self._draw, chunks):
                for pending in start_cells(
                    tasks, private, memory=self.resources.memory // self.resources.jobs // (1 + ahead)
                ):
                    started.append(pending)
                    if len(started) > ahead:
                        yield self._finish(started.popleft())
        except Exception:  # an error in a later chunk does not discard fits that were started before it
            yield from map(self._finish, started)
            raise
        yield from map(self._finish, started)

    def train(self, chunk: Sequence[Cell]) -> list[Result]:
        """Return the results of one chunk."""
        return list(itertools.chain.from_iterable(self.results([chunk])))

    def _draw(self, chunk: Sequence[Cell]) -> tuple[dict[FitTask[Method], Cell], PrivateGraph]:
        private = self.data(chunk[0])
        return draw_tasks(chunk, private, self.resources.device), private

    def _begin_clusterings(self, chunks: Sequence[Sequence[Cell]]) -> None:
        """Start to compute the clusterings of all graphs in worker processes."""
        counts: dict[PrivateGraph, set[int]] = {}
        for cell in itertools.chain.from_iterable(chunks):
            counts.setdefault(self.data(cell), set()).update(method_of(cell).bag_counts())
        for private, wanted in counts.items():
            operators_of(private.graph, resolve_device(self.resources.device)).decompositions.start_clusters(wanted)

    def _finish(self, pending: PendingCells) -> Iterator[Result]:
        """Yield results one by one: each is stored before the next one is made."""
        for fit in pending.result():
            yield fit.cell, {**self.on_fit(fit), **_summary(fit, self.resources.device)}


def _summary(fit: Fit, device: str) -> dict[str, Any]:
    """Return the result of a fit as every store keeps it."""
    cell, epsilon_y = fit.cell, fit.cell.epsilon_y
    guarantee = cell.edge_knowledge.guarantee(fit.perturbed, cell.edge_epsilon or 0.0)
    if not find_method(cell.method).uses_features:  # a collection for this method asks for no features
        guarantee = guarantee.about(Released.LABEL, Released.LISTS)
    return {
        "cell": asdict(cell) | {"epsilon_y": None if epsilon_y is None else json_epsilon(epsilon_y)},
        "accuracy": fit.accuracy,
        "epsilon_user_level": json_epsilon(guarantee.total_user_level),
        "guarantee": guarantee.as_dict() | {"attribute_level": None},
        "seconds": fit.seconds,
        "trained_together": fit.trained_together,
        "versions": {
            "veilgraph": veilgraph.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() and device != "cpu" else "cpu",
    }


def _in_processes(trainer: _ChunkTrainer, chunks: Sequence[Sequence[Cell]]) -> Iterator[list[Result]]:
    """Yield the results of chunks that worker processes train, as they finish."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        min(trainer.resources.jobs, len(chunks)) or 1,
        mp_context=context,
        initializer=_start_worker,
        initargs=(imported_files(),),
    ) as pool:
        # Largest graphs first, so that no process is alone with one at the end.
        largest_first = sorted(chunks, key=lambda chunk: -num_nodes(chunk[0], trainer.data))
        running = {pool.submit(trainer.train, chunk) for chunk in largest_first}
        try:
            while running:
                finished, running = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    yield _result(future)
        finally:
            for future in running:
                future.cancel()


def _start_worker(plugins: Sequence[Path]) -> None:
    """Prepare a worker process: it knows what this one registered from files."""
    torch.set_num_threads(1)  # threads of several processes would compete for the cores
    import_files(plugins)


def _result(future: Future[list[Result]]) -> list[Result]:
    try:
        return future.result()
    except BrokenProcessPool:
        raise RunError(
            "a process was killed, most likely for want of memory; finished fits are kept: run again with fewer jobs"
        ) from None
