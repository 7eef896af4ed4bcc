"""METIS in several processes: it holds Python's lock while it works, so threads cannot share it.

A process takes longer to start than METIS to cut a small graph, so it stays for the next graph; for a minute, or until
this one ends.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from veilgraph.graph.metis import Cut, cut, receive_parts, send_task

_WORTH_A_PROCESS = 2**16
"""Directed edges: METIS cuts smaller graphs in less time than a process takes to start."""


def cut_together(
    starts: NDArray[np.int32], neighbours: NDArray[np.int32], cuts: Sequence[Cut], *, workers: int = 1
) -> list[NDArray[np.int64]]:
    """`cut` by so many processes, if the graph is worth it; this one, whose lock METIS would hold, only waits then."""
    workers = min(workers, len(cuts))
    if workers <= 1 or len(neighbours) < _WORTH_A_PROCESS:
        return cut(starts, neighbours, cuts)
    shares = [_threads().submit(_cut_elsewhere, starts, neighbours, cuts[each::workers]) for each in range(workers)]
    found = [share.result() for share in shares]
    return [found[number % workers][number // workers] for number in range(len(cuts))]


def cut_aside(
    graph: Callable[[], tuple[NDArray[np.int32], NDArray[np.int32]]], cuts: Sequence[Cut]
) -> Callable[[], list[NDArray[np.int64]]]:
    """Have other processes cut while this one goes on; what is handed back waits for them.

    Args:
        graph: makes what `cut` calls starts and neighbours, in a thread.
        cuts: that are wanted, each by whatever process is free.
    """
    made = _threads().submit(graph)

    def cut_one(each: Cut) -> list[NDArray[np.int64]]:
        return _cut_elsewhere(*made.result(), [each])

    under_way = [_threads().submit(cut_one, each) for each in cuts]
    return lambda: [part for future in under_way for part in future.result()]


def start_workers(count: int) -> None:
    """Have processes ready for `cut_aside` when it will be called; no more than there are cores."""
    while len(_idle) < min(count, os.cpu_count() or 1):
        try:
            _idle.append(_Worker())
        except OSError:
            return


class _Worker:
    """A process that cuts. What it reads and writes, a graph and its parts, is public."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "veilgraph.graph.metis"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    @property
    def lives(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def cut(
        self, starts: NDArray[np.int32], neighbours: NDArray[np.int32], cuts: Sequence[Cut]
    ) -> list[NDArray[np.int64]]:
        """What it finds; an OSError if it ends before."""
        if self._process.stdin is None or self._process.stdout is None:
            raise BrokenPipeError("the process was started without pipes")
        send_task(self._process.stdin, starts, neighbours, cuts)
        return receive_parts(self._process.stdout)

    def end(self) -> None:
        """Let it go."""
        self._process.kill()
        self._process.communicate()


_idle: deque[_Worker] = deque()


def _cut_elsewhere(
    starts: NDArray[np.int32], neighbours: NDArray[np.int32], cuts: Sequence[Cut]
) -> list[NDArray[np.int64]]:
    """Whatever keeps another process from it, this one can do its work as well."""
    try:
        worker = _taken() or _Worker()
    except OSError:
        return cut(starts, neighbours, cuts)
    try:
        found = worker.cut(starts, neighbours, cuts)
    except OSError:
        worker.end()
        return cut(starts, neighbours, cuts)
    _idle.append(worker)
    return found


def _taken() -> _Worker | None:
    """One that has nothing to do."""
    while _idle:
        worker = _idle.popleft()
        if worker.lives:
            return worker
        worker.end()
    return None


@lru_cache(maxsize=1)
def _threads() -> ThreadPoolExecutor:
    """That wait for the processes."""
    return ThreadPoolExecutor((os.cpu_count() or 1) + 1, thread_name_prefix="metis")


def _end_all() -> None:
    while _idle:
        _idle.popleft().end()


def _forget() -> None:
    """A copy of this process must not talk to the processes of the original."""
    _idle.clear()
    _threads.cache_clear()


atexit.register(_end_all)
if hasattr(os, "register_at_fork"):  # where processes can be copied
    os.register_at_fork(after_in_child=_forget)
