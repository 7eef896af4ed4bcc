"""Worker threads for separate computations, in place of threads inside one torch operation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import torch

from veilgraph.progress import tracked

Item = TypeVar("Item")
Result = TypeVar("Result")

_workers: ContextVar[int] = ContextVar("workers", default=1)


@contextmanager
def thread_workers(device: torch.device) -> Iterator[None]:
    """Give the CPU threads to `map_in_threads` instead of to torch operations; with a GPU, use one thread.

    Threads inside one operation synchronize at its end, and wait on a busy machine. Threads with separate computations
    synchronize once, when all of them are finished.
    """
    threads = max(_workers.get(), torch.get_num_threads())
    token = _workers.set(threads if device.type == "cpu" else 1)
    try:
        with max_torch_threads(1):
            yield
    finally:
        _workers.reset(token)


def num_workers() -> int:
    """Return how many items `map_in_threads` computes at once here: 1 outside of `thread_workers`."""
    return _workers.get()


def map_in_threads(
    function: Callable[[Item], Result], items: Sequence[Item], what: str, *, at_once: int | None = None
) -> list[Result]:
    """Apply a function to every item: in several threads within `thread_workers`, but not in nested calls.

    Args:
        function: the function.
        items: its arguments.
        what: name of the work in messages about the progress of long work.
        at_once: largest number of items at once; default: one for each thread. With 1, this thread does the work, and
            nested calls have all threads.

    >>> map_in_threads(abs, [1, -2], "numbers")
    [1, 2]
    """
    if (workers := min(_workers.get(), len(items), at_once or len(items))) <= 1:
        return [function(item) for item in tracked(items, what)]
    # A new thread has its own context, with one worker, and its own limit of torch threads, which must be set.
    with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        return [result for _, result in zip(tracked(items, what), pool.map(function, items), strict=True)]


@contextmanager
def max_torch_threads(threads: int) -> Iterator[None]:
    """Limit the threads inside torch operations."""
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(min(before, threads))
        yield
    finally:
        torch.set_num_threads(before)
