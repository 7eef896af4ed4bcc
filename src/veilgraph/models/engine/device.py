"""Where to compute."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import torch

from veilgraph.errors import RunError


def resolve_device(name: str) -> torch.device:
    """The device called `name`; "auto" is the GPU where there is one.

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


_WORTH_SHARING = 10_000

Item = TypeVar("Item")
Result = TypeVar("Result")


_workers: ContextVar[int] = ContextVar("workers", default=1)


@contextmanager
def threads_for(nodes: int) -> Iterator[None]:
    """One thread on a small graph, whose operations take less time than threads need to meet.

    On a machine that does something else as well, threads that wait for each other make small fits ten times slower.

    >>> with threads_for(500):
    ...     torch.get_num_threads()
    1
    """
    with _at_most(1 if nodes < _WORTH_SHARING else torch.get_num_threads()):
        yield


@contextmanager
def side_by_side(device: torch.device) -> Iterator[None]:
    """Threads for `in_threads` instead of for the operations of torch; one where a GPU computes.

    Threads that share an operation meet at its end, and wait where the machine does something else as well. Threads
    with computations of their own meet when these are done.
    """
    threads = max(_workers.get(), torch.get_num_threads())
    token = _workers.set(threads if device.type == "cpu" else 1)
    try:
        with _at_most(1):
            yield
    finally:
        _workers.reset(token)


def in_threads(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """The function of every item: several at a time within `side_by_side`, but not within the function again.

    >>> in_threads(abs, [1, -2])
    [1, 2]
    """
    if (workers := min(_workers.get(), len(items))) <= 1:
        return [function(item) for item in items]
    # A new thread has a context of its own, with one worker, and has to be told how many threads its products may use.
    with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        return list(pool.map(function, items))


@contextmanager
def _at_most(threads: int) -> Iterator[None]:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(min(before, threads))
        yield
    finally:
        torch.set_num_threads(before)
