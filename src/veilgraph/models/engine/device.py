"""Devices and CPU threads for computations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import torch

from veilgraph.errors import RunError
from veilgraph.progress import tracked

Item = TypeVar("Item")
Result = TypeVar("Result")

_SMALL_GRAPH_NODES = 10_000
"""Operations on smaller graphs take less time than the synchronization of threads."""

_workers: ContextVar[int] = ContextVar("workers", default=1)


def resolve_device(name: str) -> torch.device:
    """Return the device with a name; "auto" is a GPU if there is one, else the CPU.

    >>> resolve_device("cpu")
    device(type='cpu')
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name not in ("cpu", "cuda"):
        raise RunError(f"device is '{name}': choose auto, cpu or cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise RunError("device is 'cuda', but there is no usable GPU here: use --device cpu or auto")
    return torch.device(name)


@contextmanager
def torch_threads_for(nodes: int) -> Iterator[None]:
    """Limit torch to one thread on a small graph.

    On a busy machine, threads that wait for each other make small fits ten times slower.

    >>> with torch_threads_for(500):
    ...     torch.get_num_threads()
    1
    """
    with _max_torch_threads(1 if nodes < _SMALL_GRAPH_NODES else torch.get_num_threads()):
        yield


@contextmanager
def thread_workers(device: torch.device) -> Iterator[None]:
    """Give the CPU threads to `map_in_threads` instead of to torch operations; with a GPU, use one thread.

    Threads inside one operation synchronize at its end, and wait on a busy machine. Threads with separate computations
    synchronize once, when all of them are finished.
    """
    threads = max(_workers.get(), torch.get_num_threads())
    token = _workers.set(threads if device.type == "cpu" else 1)
    try:
        with _max_torch_threads(1):
            yield
    finally:
        _workers.reset(token)


def map_in_threads(function: Callable[[Item], Result], items: Sequence[Item], what: str) -> list[Result]:
    """Apply a function to every item: in several threads within `thread_workers`, but not in nested calls.

    Args:
        function: the function.
        items: its arguments.
        what: name of the work in messages about the progress of long work.

    >>> map_in_threads(abs, [1, -2], "numbers")
    [1, 2]
    """
    if (workers := min(_workers.get(), len(items))) <= 1:
        return [function(item) for item in tracked(items, what)]
    # A new thread has its own context, with one worker, and its own limit of torch threads, which must be set.
    with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        return [result for _, result in zip(tracked(items, what), pool.map(function, items), strict=True)]


@contextmanager
def _max_torch_threads(threads: int) -> Iterator[None]:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(min(before, threads))
        yield
    finally:
        torch.set_num_threads(before)
