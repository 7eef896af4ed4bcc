"""Draws in two fresh processes: noise from a fixed seed is the same in both.

Run as a program, this module draws reports of the source that it reads from standard input, with the randomness of the
operating system.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.privacy.auditing.sources import Source
from veilgraph.privacy.mechanisms.random_source import OSRandom

_COMPARED = 1024
_SECONDS = 120


def repeats_p_value(source: Source) -> float | None:
    """Return the chance that reports of two processes agree so often, corrected; None where none can be started.

    Reports of one record agree by chance, also within a process: with this the agreement of two processes is compared,
    for whole reports and for each column, by Fisher's exact test.
    """
    records = np.arange(_COMPARED) % source.num_records
    numbers = np.concatenate([records, np.repeat(records[: _COMPARED // 2], 2)])
    drawn = _draw_twice(source, numbers)
    if drawn is None:
        return None
    first, second = drawn
    aligned = first[:_COMPARED] == second[:_COMPARED]
    rest = np.vstack([first[_COMPARED:], second[_COMPARED:]])
    within = rest[::2] == rest[1::2]
    tested = [(aligned.all(axis=1), within.all(axis=1)), *zip(aligned.T, within.T, strict=True)]
    p_values = [_more_often(int(one.sum()), int(other.sum()), _COMPARED) for one, other in tested]
    return min(1.0, min(p_values) * len(p_values))


def _more_often(one: int, other: int, trials: int) -> float:
    """Return the one-sided p-value of Fisher's exact test that `one` of `trials` is more than `other` of as many.

    >>> round(_more_often(3, 0, 3), 6)
    0.05
    """
    from scipy.special import gammaln  # slow to import

    def log_choose(n: int, k: NDArray[np.int64] | int) -> Any:
        return gammaln(n + 1) - gammaln(np.asarray(k) + 1) - gammaln(n - np.asarray(k) + 1)

    agreeing = one + other
    counts = np.arange(one, min(trials, agreeing) + 1)
    terms = log_choose(trials, counts) + log_choose(trials, agreeing - counts) - log_choose(2 * trials, agreeing)
    return min(1.0, float(np.exp(terms).sum()))


def _draw_twice(source: Source, numbers: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Return the columns of reports that two processes draw of the same records."""
    if source.starts_processes:
        one, two = (source.draw(numbers, rng=OSRandom()).columns for _ in range(2))
        return one, two
    try:
        asked = pickle.dumps((source, numbers))
    except (pickle.PicklingError, AttributeError, TypeError):  # a function without a name, or an open file
        return None
    command = [sys.executable, "-m", __name__]
    running = [
        subprocess.Popen(  # noqa: S603 - this module
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        for _ in range(2)
    ]
    try:
        answers = [process.communicate(asked, timeout=_SECONDS)[0] for process in running]
    except subprocess.TimeoutExpired:
        return None
    finally:
        for process in running:
            process.kill()
    if any(process.returncode for process in running):
        return None
    one, two = (pickle.loads(answer) for answer in answers)  # noqa: S301 - of this module's own processes
    return one, two


def _main() -> None:
    source, numbers = pickle.load(sys.stdin.buffer)  # noqa: S301 - of the process that started this one
    pickle.dump(source.made_again().draw(numbers, rng=OSRandom()).columns, sys.stdout.buffer)


if __name__ == "__main__":
    _main()
