"""Commands that need more than the contract say so in one sentence."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from veilgraph.errors import MissingExtraError, RunError


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Import inside: a library that is not installed becomes the name of the extra that brings it."""
    try:
        yield
    except MissingExtraError:
        raise
    except ImportError as error:
        raise MissingExtraError(error.name or "a library", extra) from error


_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12} | {
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}


def parse_bytes(text: str) -> int:
    """The number of bytes.

    >>> parse_bytes("8GiB") == 8 * 2**30, parse_bytes("500 MB") == 500_000_000
    (True, True)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]i?B|)\s*", text, re.IGNORECASE)
    size = float(match[1]) * _UNITS[match[2].upper()] if match else 0
    if not 1 <= size < math.inf:
        raise RunError(f"memory is '{text}': write a number and a unit, such as 8GiB or 500MB")
    return int(size)


_LOG_STEPS = 10


@contextmanager
def show_progress(task: str) -> Iterator[Callable[[str, int, int], None]]:
    """Yield a function to call with what is being done, how much is done, and how much there is."""
    console = Console(stderr=True)
    with _library_lines(console, task):
        if not console.is_terminal:
            yield _log_lines(console, task)
            return
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        with Progress(*columns, console=console, transient=True) as bar:
            row = bar.add_task(task, total=None)
            yield lambda what, done, total: bar.update(row, description=f"{task}: {what}", completed=done, total=total)


class _Lines(logging.Handler):
    """Prints what the library tells of choices that it made and of long work."""

    def __init__(self, console: Console, task: str) -> None:
        super().__init__()
        self._console, self._task = console, task

    def emit(self, record: logging.LogRecord) -> None:
        self._console.print(f"{self._task}: {record.getMessage()}", highlight=False, markup=False, soft_wrap=True)


@contextmanager
def _library_lines(console: Console, task: str) -> Iterator[None]:
    logger, lines = logging.getLogger("veilgraph"), _Lines(console, task)
    level = logger.level
    logger.addHandler(lines)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(lines)
        logger.setLevel(level)


def _log_lines(console: Console, task: str) -> Callable[[str, int, int], None]:
    last = -1

    def update(what: str, done: int, total: int) -> None:
        nonlocal last
        if (step := done * _LOG_STEPS // max(total, 1)) > last:
            last = step
            console.print(f"{task}: {what} ({done} of {total})", highlight=False, markup=False, soft_wrap=True)

    return update
