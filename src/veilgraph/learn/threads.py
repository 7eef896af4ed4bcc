"""How many threads a fit is worth, and what they do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

_WORTH_SHARING = 10_000

Item = TypeVar("Item")
Result = TypeVar("Result")


@contextmanager
def threads_for(nodes: int) -> Iterator[None]:
    """One thread on a small graph, whose operations take less time than threads need to meet.

    On a machine that does something else as well, threads that wait for each other make small fits ten times slower.

    >>> with threads_for(500):
    ...     torch.get_num_threads()
    1
    """
    with at_most(1 if nodes < _WORTH_SHARING else torch.get_num_threads()):
        yield


@contextmanager
def at_most(threads: int) -> Iterator[None]:
    """No operation of torch on more threads than this."""
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(min(before, threads))
        yield
    finally:
        torch.set_num_threads(before)


def in_threads(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """The function of every item, as many at a time as torch has threads, each with one thread to itself.

    Threads that share an operation meet after each; these meet once. Within the function there is one thread, so it
    may call this again.

    >>> in_threads(abs, [1, -2])
    [1, 2]
    """
    if (workers := min(torch.get_num_threads(), len(items))) <= 1:
        return [function(item) for item in items]
    with at_most(1), ThreadPoolExecutor(workers) as pool:
        return list(pool.map(function, items))
