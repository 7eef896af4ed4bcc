"""Progress of long work, in a notebook or a terminal, and for the logger "veilgraph". It holds no private value."""

from __future__ import annotations

import html
import importlib
import logging
import math
import shutil
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TextIO, TypeAlias, TypeVar

Step = TypeVar("Step")

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with a description of the work, the number of finished steps, and the number of all steps."""

_SILENT_SECONDS = 5.0
_REFRESH_SECONDS = 0.1
_BAR_WIDTH = 24

_logger = logging.getLogger("veilgraph")


Watch: TypeAlias = Callable[[str], AbstractContextManager[Progress]]
"""Surrounds long work: called with its name, it yields the function that takes its progress."""


def no_progress(description: str, done: int, total: int) -> None:
    """Ignore progress: the default of functions that take a `Progress`."""


@contextmanager
def unwatched(task: str) -> Iterator[Progress]:
    """Show nothing: the default of functions that take a `Watch`."""
    yield no_progress


@contextmanager
def show_progress(task: str, *, stream: TextIO | None = None) -> Iterator[Progress]:
    """Show the progress of long work where a person looks at it, in one place that is updated.

    In a notebook it is a bar below the cell, without widgets; in a terminal it is one line of standard error. A program
    whose output goes to a file or a pipe shows nothing.

    Args:
        task: name of the work.
        stream: stream of the line; default: standard error.

    >>> with show_progress("counting") as progress:
    ...     progress("numbers", 1, 2)
    """
    stream = sys.stderr if stream is None else stream
    if _in_notebook():
        display = _notebook_bar(task)
    elif stream.isatty():
        display = _terminal_line(task, stream)
    else:
        display = unwatched(task)
    with display as show:
        shown, latest = -math.inf, ("", 0, 0)

        def update(description: str, done: int, total: int) -> None:
            nonlocal shown, latest
            latest = description, done, total
            if (now := time.monotonic()) - shown >= _REFRESH_SECONDS:
                shown = now
                show(*latest)

        try:
            yield update
        finally:
            show(*latest)


@contextmanager
def _terminal_line(task: str, stream: TextIO) -> Iterator[Progress]:
    """Rewrite one line of a terminal, and end it when the work ends."""

    def show(description: str, done: int, total: int) -> None:
        filled = _BAR_WIDTH * done // max(total, 1)
        words = f"{task} {'#' * filled}{'.' * (_BAR_WIDTH - filled)} {done}/{total} {description}"
        printable = "".join(letter if letter.isprintable() else "?" for letter in words)
        stream.write(f"\r{printable[: shutil.get_terminal_size().columns - 1]}\x1b[K")
        stream.flush()

    try:
        yield show
    finally:
        stream.write("\n")


def _in_notebook() -> bool:
    """Return whether this is a kernel. IPython is not imported for the question: a kernel has imported it."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


@contextmanager
def _notebook_bar(task: str) -> Iterator[Progress]:
    """Update a bar below the cell of a notebook."""
    notebook: Any = importlib.import_module("IPython.display")

    def bar(description: str, done: int, total: int) -> object:
        words = html.escape(f"{task}: {done} of {total} {description}")
        return notebook.HTML(f'<progress value="{done}" max="{max(total, 1)}"></progress> {words}')

    handle = notebook.display(bar("", 0, 0), display_id=True)
    yield lambda description, done, total: handle.update(bar(description, done, total))


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
