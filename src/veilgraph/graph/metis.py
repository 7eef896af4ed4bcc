"""METIS: partitions of a graph into parts of about equal size with few edges between them.

METIS holds Python's global lock while it works, so threads cannot share the work: worker processes do. A worker takes
longer to start than METIS takes for a small graph, so workers are kept for the next graph until they are idle for a
minute.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import import_module
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import MissingExtraError

try:
    import pymetis

    loky = import_module("loky")  # has no annotations
except ImportError as missing:
    raise MissingExtraError(str(missing.name), "server") from None

Result = TypeVar("Result")

MIN_PARALLEL_NEIGHBOURS = 2**15
"""Number of neighbours (twice the edges) below which METIS takes less time than a worker takes to start."""

_MAX_WORKERS = 8
_IDLE_TIMEOUT = 60  # seconds

_forked = threading.Event()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked.set)


@dataclass(frozen=True)
class PartitionRequest:
    """Settings of one partition.

    Attributes:
        num_parts: number of parts.
        recursive: recursive bisection, whose part numbers follow the tree; otherwise k-way partitioning.
        seed: seed of METIS, which decides between about equally good partitions.
    """

    num_parts: int
    recursive: bool
    seed: int


def metis_partitions(
    starts: NDArray[np.int32],
    neighbours: NDArray[np.int32],
    requests: Sequence[PartitionRequest],
    weights: NDArray[np.int32] | None = None,
) -> list[NDArray[np.int64]]:
    """Return the part of each node, `[nodes]`, for every request.

    Args:
        starts: `[nodes + 1]`, where each node's neighbours start.
        neighbours: `[2 edges]`, neighbours of node 0, node 1 and so on.
        requests: settings of the partitions.
        weights: `[2 edges]`, weights of the edges to these neighbours; default: all are alike.

    >>> path = np.array([0, 1, 3, 5, 6], dtype=np.int32), np.array([1, 0, 2, 1, 3, 2], dtype=np.int32)
    >>> [parts] = metis_partitions(*path, [PartitionRequest(2, recursive=True, seed=0)])
    >>> bool(parts[0] == parts[1] != parts[2] == parts[3])
    True
    """
    graph = pymetis.CSRAdjacency(starts, neighbours)
    results = [
        pymetis.part_graph(
            each.num_parts, graph, eweights=weights, recursive=each.recursive, options=pymetis.Options(seed=each.seed)
        )
        for each in requests
    ]
    return [np.asarray(result.vertex_part, dtype=np.int64) for result in results]


def start_metis_partitions(
    starts: NDArray[np.int32],
    neighbours: NDArray[np.int32],
    requests: Sequence[PartitionRequest],
    weights: NDArray[np.int32] | None = None,
    *,
    workers: int | None = None,
    min_neighbours: int = MIN_PARALLEL_NEIGHBOURS,
) -> Callable[[], list[NDArray[np.int64]]]:
    """Start `metis_partitions` in worker processes; the returned function waits for the result.

    Args:
        starts: `[nodes + 1]`, where each node's neighbours start.
        neighbours: `[2 edges]`, neighbours of node 0, node 1 and so on.
        requests: settings of the partitions.
        weights: `[2 edges]`, weights of the edges; default: all are alike.
        workers: number of shares of the work; one is done in this process. Default: a worker for each request.
        min_neighbours: graphs with fewer neighbours are partitioned in this process, where workers are given.
    """
    shares = min(workers or len(requests), len(requests))
    if workers is not None and (shares <= 1 or len(neighbours) < min_neighbours):
        return partial(metis_partitions, starts, neighbours, requests, weights)
    pending = [submit(metis_partitions, starts, neighbours, requests[each::shares], weights) for each in range(shares)]

    def result() -> list[NDArray[np.int64]]:
        found = [share() for share in pending]
        return [found[number % shares][number // shares] for number in range(len(requests))]

    return result


def start_workers() -> None:
    """Start the worker processes now, so that they are ready when they are needed."""
    submit(os.getpid)


def submit(function: Callable[..., Result], *arguments: object) -> Callable[[], Result]:
    """Call a function in a worker process; the returned function waits for the result.

    If workers cannot be started, or if one ends at work, this process calls the function instead. So does a process
    that was forked from another: it cannot share its parent's workers, and loky cannot start others in it.
    """
    if _forked.is_set():
        return lambda: function(*arguments)
    try:
        executor = _executor()
        future = executor.submit(function, *arguments)
    except (ImportError, OSError, RuntimeError):  # no process, thread or semaphore could be created
        _executor.cache_clear()
        return lambda: function(*arguments)

    def result() -> Result:
        try:
            return future.result()
        except BrokenProcessPool:
            _forget(executor)
            return function(*arguments)

    return result


@lru_cache(maxsize=1)
def _executor() -> Executor:
    workers = min(os.cpu_count() or 1, _MAX_WORKERS)
    executor: Executor = loky.ProcessPoolExecutor(workers, timeout=_IDLE_TIMEOUT, initializer=_prepare_worker)
    return executor


def _forget(broken: Executor) -> None:
    """Have the next call start new workers; only once for each executor that broke."""
    if _executor() is broken:
        _executor.cache_clear()


def _prepare_worker() -> None:
    """Have Ctrl-C end a worker at once and without a traceback, and have it end with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_exit_without, args=(os.getppid(),), daemon=True).start()


def _exit_without(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def weighted_partition(
    edges: NDArray[np.int64], weights: NDArray[np.int64], parts: int, *, recursive: bool = False, seed: int = 0
) -> NDArray[np.int64]:
    """Partition a small graph with weights by METIS; return the part of each node, `[nodes]`.

    Args:
        edges: weights of edges, `[nodes, nodes]`, symmetric; the diagonal is ignored.
        weights: weights of nodes, `[nodes]`.
        parts: number of parts.
        recursive: recursive bisection, whose part numbers follow the tree; otherwise METIS decides.
        seed: seed of METIS.

    >>> pairs = np.array([[0, 9, 0, 1], [9, 0, 1, 0], [0, 1, 0, 9], [1, 0, 9, 0]])
    >>> found = weighted_partition(pairs, np.ones(4, dtype=np.int64), 2)
    >>> bool(found[0] == found[1] and found[2] == found[3] and found[0] != found[2])
    True
    """
    joined = edges.copy()
    np.fill_diagonal(joined, 0)
    sources, targets = np.nonzero(joined)
    starts = np.searchsorted(sources, np.arange(len(joined) + 1))
    scale = max(1, int(joined.sum()) // 2**24, int(weights.sum()) // 2**24)  # METIS adds in 32 bits
    result = pymetis.part_graph(
        parts,
        pymetis.CSRAdjacency(starts, targets),
        vweights=np.maximum(weights // scale, 1),
        eweights=np.maximum(joined[sources, targets] // scale, 1),
        recursive=recursive or None,
        options=pymetis.Options(seed=seed),
    )
    return np.asarray(result.vertex_part, dtype=np.int64)
