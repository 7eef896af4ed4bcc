"""Progress on standard error: a bar for a person, a line now and then for a log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

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
