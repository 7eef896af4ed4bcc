"""How many threads a fit is worth."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

_WORTH_SHARING = 10_000


@contextmanager
def threads_for(nodes: int) -> Iterator[None]:
    """One thread on a small graph, whose operations take less time than threads need to meet.

    On a machine that does something else as well, threads that wait for each other make small fits ten times slower.

    >>> with threads_for(500):
    ...     torch.get_num_threads()
    1
    """
    before = torch.get_num_threads()
    try:
        if nodes < _WORTH_SHARING:
            torch.set_num_threads(1)
        yield
    finally:
        torch.set_num_threads(before)
