"""METIS, in this process or in several: it holds Python's lock while it works, so threads cannot share it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import astuple, dataclass
from typing import IO

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import MissingExtraError

try:
    import pymetis
except ImportError:
    raise MissingExtraError("pymetis", "server") from None

_WORTH_A_PROCESS = 2**16
"""Directed edges: METIS cuts smaller graphs in less time than a process takes to start."""


@dataclass(frozen=True)
class Cut:
    """One way to cut a graph.

    Attributes:
        parts: how many.
        recursive: into halves, halves of these, and so on, whose numbers then follow the tree; else all at once.
        seed: that decides between about equally good ones.
    """

    parts: int
    recursive: bool
    seed: int


def cut(
    starts: NDArray[np.int32], neighbours: NDArray[np.int32], cuts: Sequence[Cut], *, workers: int = 1
) -> list[NDArray[np.int64]]:
    """The part of each node, for every cut.

    Args:
        starts: where each node's neighbours begin.
        neighbours: of all nodes, one after the other.
        cuts: that are wanted.
        workers: processes that may work at the same time, this one among them.

    >>> path = np.array([0, 1, 3, 5, 6], dtype=np.int32), np.array([1, 0, 2, 1, 3, 2], dtype=np.int32)
    >>> [parts] = cut(*path, [Cut(2, recursive=True, seed=0)])
    >>> parts[0] == parts[1] != parts[2] == parts[3]
    np.True_
    """
    workers = min(workers, len(cuts)) if len(neighbours) >= _WORTH_A_PROCESS else 1
    shares = [cuts[number::workers] for number in range(workers)]
    others = [cut_aside(starts, neighbours, share) for share in shares[1:]]
    found = [_cut_here(starts, neighbours, shares[0]), *(finished() for finished in others)]
    return [found[number % workers][number // workers] for number in range(len(cuts))]


def cut_aside(
    starts: NDArray[np.int32], neighbours: NDArray[np.int32], cuts: Sequence[Cut]
) -> Callable[[], list[NDArray[np.int64]]]:
    """Have another process cut while this one goes on; what is handed back waits for it.

    The graph and its parts, both public, go through files that have no name: through a pipe, one process would wait for
    the other to start.
    """
    try:
        process, output = _started(starts, neighbours, cuts)
    except OSError:
        return lambda: _cut_here(starts, neighbours, cuts)

    def finished() -> list[NDArray[np.int64]]:
        # Whatever kept the other process from it, this one can do its work as well.
        with output:
            if process.wait() != 0:
                return _cut_here(starts, neighbours, cuts)
            output.seek(0)
            return list(np.load(output, allow_pickle=False))

    return finished


def _started(
    starts: NDArray[np.int32], neighbours: NDArray[np.int32], cuts: Sequence[Cut]
) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
    with ExitStack() as unless_started, tempfile.TemporaryFile() as task:
        output = unless_started.enter_context(tempfile.TemporaryFile())
        np.savez(task, starts=starts, neighbours=neighbours, cuts=np.array([astuple(each) for each in cuts]))
        task.seek(0)
        process = subprocess.Popen(
            [sys.executable, "-m", "veilgraph.metis"], stdin=task, stdout=output, stderr=subprocess.DEVNULL
        )
        unless_started.pop_all()
    return process, output


def _cut_here(starts: NDArray[np.int32], neighbours: NDArray[np.int32], cuts: Sequence[Cut]) -> list[NDArray[np.int64]]:
    graph = pymetis.CSRAdjacency(starts, neighbours)
    results = [
        pymetis.part_graph(each.parts, graph, recursive=each.recursive, options=pymetis.Options(seed=each.seed))
        for each in cuts
    ]
    return [np.asarray(result.vertex_part, dtype=np.int64) for result in results]


def main() -> None:
    """Cut the graph from standard input, write the parts to standard output."""
    task = np.load(sys.stdin.buffer, allow_pickle=False)
    cuts = [Cut(int(parts), bool(recursive), int(seed)) for parts, recursive, seed in task["cuts"]]
    np.save(sys.stdout.buffer, np.stack(_cut_here(task["starts"], task["neighbours"], cuts)))


if __name__ == "__main__":
    main()
