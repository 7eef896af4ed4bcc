"""Progress of work in several parts."""

from __future__ import annotations

from veilgraph.progress import Progress

_PERCENT = 100


def part(progress: Progress, number: int, parts: int) -> Progress:
    """Return the progress of one part of a whole, in hundredths of a part.

    >>> part(lambda what, done, total: print(what, done, "of", total), 1, 2)("second half", 3, 4)
    second half 175 of 200
    """
    return lambda what, done, total: progress(
        what, _PERCENT * number + _PERCENT * done // max(total, 1), _PERCENT * parts
    )
