"""Progress and choices of long work, for the logger "veilgraph". Private values are never logged."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeAlias, TypeVar

Step = TypeVar("Step")

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with a description of the work, the number of finished steps, and the number of all steps."""

_SILENT_SECONDS = 5.0

_logger = logging.getLogger("veilgraph")


Watch: TypeAlias = Callable[[str], AbstractContextManager[Progress]]
"""Surrounds long work: called with its name, it yields the function that takes its progress."""


def no_progress(description: str, done: int, total: int) -> None:
    """Ignore progress: the default of functions that take a `Progress`."""


@contextmanager
def unwatched(task: str) -> Iterator[Progress]:
    """Show nothing: the default of functions that take a `Watch`."""
    yield no_progress


def say(message: str) -> None:
    """Log a choice that the library made."""
    _logger.info(message)


def tracked(steps: Collection[Step], what: str) -> Iterator[Step]:
    """Yield the steps and log every five seconds how many are done; shorter work is not logged.

    >>> list(tracked(range(3), "counting"))
    [0, 1, 2]
    """
    logged = time.monotonic()
    for done, step in enumerate(steps):
        if (now := time.monotonic()) - logged >= _SILENT_SECONDS:
            logged = now
            _logger.info("%s: %d of %d", what, done, len(steps))
        yield step
