"""Progress of work that has parts."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Told what is done, how much of it, and of how much."""

_PERCENT = 100


def part(progress: Progress, number: int, parts: int) -> Progress:
    """The progress of one of several parts, in hundredths of each.

    >>> part(lambda what, done, total: print(what, done, "of", total), 1, 2)("second half", 3, 4)
    second half 175 of 200
    """
    return lambda what, done, total: progress(
        what, _PERCENT * number + _PERCENT * done // max(total, 1), _PERCENT * parts
    )
