"""Draws in fresh processes: noise from a fixed seed is the same in all.

Run as a program, this module draws reports of the source that it reads from standard input, with the randomness of the
operating system.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Sequence
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
    for whole reports and for each column, by Fisher's exact test. A column that is the same in both, and in a third one
    with other records, says where a report stands, such as the number of its line: it is left out.
    """
    records = np.arange(_COMPARED) % source.num_records
    numbers = np.concatenate([records, np.repeat(records[: _COMPARED // 2], 2)])
    drawn = _draw_each(source, [numbers, numbers, (numbers + 1) % source.num_records])
    if drawn is None:
        return None
    first, second, of_others = drawn
    of_the_place = (first == second).all(axis=0) & (first == of_others).all(axis=0)
    aligned = (first[:_COMPARED] == second[:_COMPARED])[:, ~of_the_place]
    rest = np.vstack([first[_COMPARED:], second[_COMPARED:]])
    within = (rest[::2] == rest[1::2])[:, ~of_the_place]
    tested = [(aligned.all(axis=1), within.all(axis=1)), *zip(aligned.T, within.T, strict=True)]
    p_values = [_more_often(int(one.sum()), int(other.sum()), _COMPARED) for one, other in tested]
    return min(1.0, min(p_values) * (1 + len(of_the_place)))


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


def _draw_each(source: Source, asked: Sequence[NDArray[np.int64]]) -> list[NDArray[Any]] | None:
    """Return the columns of the reports that processes draw, each of records of its own."""
    if source.starts_processes:
        return [source.draw(numbers, rng=OSRandom()).columns for numbers in asked]
    try:
        texts = [pickle.dumps((source, numbers)) for numbers in asked]
    except (pickle.PicklingError, AttributeError, TypeError):  # a function without a name, or an open file
        return None
    command = [sys.executable, "-m", __name__]
    running = [
        subprocess.Popen(  # noqa: S603 - this module
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        for _ in asked
    ]
    try:
        answers = [process.communicate(text, timeout=_SECONDS)[0] for process, text in zip(running, texts, strict=True)]
    except subprocess.TimeoutExpired:
        return None
    finally:
        for process in running:
            process.kill()
    if any(process.returncode for process in running):
        return None
    return [pickle.loads(answer) for answer in answers]  # noqa: S301 - of this module's own processes


def _main() -> None:
    answer = sys.stdout.buffer
    sys.stdout = sys.stderr  # what a mechanism prints is no part of the answer
    source, numbers = pickle.load(sys.stdin.buffer)  # noqa: S301 - of the process that started this one
    pickle.dump(source.made_again().draw(numbers, rng=OSRandom()).columns, answer)


if __name__ == "__main__":
    _main()
