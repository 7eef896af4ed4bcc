"""Helpers that several commands share: printing, missing extras, amounts of memory, and progress."""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as ProgressBar

from veilgraph.errors import MissingExtraError, RunError
from veilgraph.privacy.plain_text import escape
from veilgraph.progress import Progress

_BYTES = {
    "": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}
# Lines of progress that a task writes to a log.
_LOG_LINES = 10


def echo(*lines: str, err: bool = False) -> None:
    """Print lines. What could move the cursor, hide text or reorder it is escaped, also in names and messages."""
    for line in lines:
        typer.echo(escape(line), err=err)


def echo_json(document: object) -> None:
    """Print JSON, which is printable ASCII wherever its texts come from."""
    typer.echo(json.dumps(document, indent=2))


def check_new(path: Path | None, option: str = "--out") -> None:
    """Refuse to replace a file that an option names."""
    if path is not None and path.exists():
        raise RunError(f"{path} exists: choose another {option}")


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Turn a failing import inside the context into an error that names the extra to install."""
    try:
        yield
    except MissingExtraError:
        raise
    except ImportError as error:
        raise MissingExtraError(error.name or "a library", extra) from error


def parse_bytes(text: str) -> int:
    """Parse an amount of memory.

    >>> parse_bytes("8GiB") == 8 * 2**30, parse_bytes("500 MB") == 500_000_000
    (True, True)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]i?B|)\s*", text, re.IGNORECASE)
    size = float(match[1]) * _BYTES[match[2].upper()] if match else 0
    forgotten = match is not None and not match[2] and size < 1000  # 8 stands for 8GiB, not for 8 bytes
    if forgotten or not 1 <= size < math.inf:
        raise RunError(f"memory is '{text}': write a number and a unit, such as 8GiB or 500MB")
    return int(size)


@contextmanager
def show_progress(task: str) -> Iterator[Progress]:
    """Show the progress of a task, and messages of the library, on standard error.

    Yields:
        A callback for the progress. It draws a bar on a terminal, and writes ten lines otherwise.
    """
    console = Console(stderr=True)
    with _print_log_messages(console, task):
        if not console.is_terminal:
            yield _progress_lines(console, task)
            return
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        with ProgressBar(*columns, console=console, transient=True) as bar:
            row = bar.add_task(task, total=None)
            yield lambda what, done, total: bar.update(
                row, description=escape(f"{task}: {what}"), completed=done, total=total
            )


@contextmanager
def _print_log_messages(console: Console, task: str) -> Iterator[None]:
    """Print messages of the logger "veilgraph" while the context is active."""
    logger, handler = logging.getLogger("veilgraph"), _ConsoleHandler(console, task)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


class _ConsoleHandler(logging.Handler):
    """Prints log records on a console, after the name of the task."""

    def __init__(self, console: Console, task: str) -> None:
        super().__init__()
        self._console, self._task = console, task

    def emit(self, record: logging.LogRecord) -> None:
        _print_line(self._console, self._task, record.getMessage())


def _progress_lines(console: Console, task: str) -> Progress:
    last = -1

    def update(what: str, done: int, total: int) -> None:
        nonlocal last
        if (line := done * _LOG_LINES // max(total, 1)) > last:
            last = line
            _print_line(console, task, f"{what} ({done} of {total})")

    return update


def _print_line(console: Console, task: str, message: str) -> None:
    console.print(escape(f"{task}: {message}"), highlight=False, markup=False, soft_wrap=True)


def confirm_withdrawal(node: str) -> None:
    """Raise an error unless the person at the terminal confirms that a node withdraws."""
    question = (
        f"Nothing of node {node} is stored from then on, in any round or wave, and it is not reminded. "
        "This cannot be undone. Withdraw?"
    )
    try:
        confirmed = typer.confirm(question, err=True)
    except typer.Abort:  # the end of the input, too
        confirmed = False
    if not confirmed:
        raise RunError("nothing was withdrawn: answer y to withdraw, or give --yes in a script")
