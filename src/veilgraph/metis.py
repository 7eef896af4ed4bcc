"""METIS, in this process or in several: it holds Python's lock while it works, so threads cannot share it."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import astuple, dataclass

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
    others = [_start(starts, neighbours, share) for share in shares[1:]]
    found = [_cut_here(starts, neighbours, shares[0])]
    for share, process in zip(shares[1:], others, strict=True):
        # Whatever kept another process from it, this one can do its work as well.
        output = b"" if process is None else process.communicate()[0]
        done = process is not None and process.returncode == 0
        found.append(list(np.load(io.BytesIO(output))) if done else _cut_here(starts, neighbours, share))
    return [found[number % workers][number // workers] for number in range(len(cuts))]


def _cut_here(starts: NDArray[np.int32], neighbours: NDArray[np.int32], cuts: Sequence[Cut]) -> list[NDArray[np.int64]]:
    graph = pymetis.CSRAdjacency(starts, neighbours)
    results = [
        pymetis.part_graph(each.parts, graph, recursive=each.recursive, options=pymetis.Options(seed=each.seed))
        for each in cuts
    ]
    return [np.asarray(result.vertex_part, dtype=np.int64) for result in results]


def _start(
    starts: NDArray[np.int32], neighbours: NDArray[np.int32], cuts: Sequence[Cut]
) -> subprocess.Popen[bytes] | None:
    """A process that reads the graph and writes the parts, both public; None where there can be none."""
    buffer = io.BytesIO()
    np.savez(buffer, starts=starts, neighbours=neighbours, cuts=np.array([astuple(each) for each in cuts]))
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "veilgraph.metis"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return None
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):  # it has ended, as its return code will say
            process.stdin.write(buffer.getvalue())
            process.stdin.close()
        process.stdin = None  # communicate() would close it once more
    return process


def main() -> None:
    """Cut the graph from standard input, write the parts to standard output."""
    task = np.load(io.BytesIO(sys.stdin.buffer.read()), allow_pickle=False)
    cuts = [Cut(int(parts), bool(recursive), int(seed)) for parts, recursive, seed in task["cuts"]]
    np.save(sys.stdout.buffer, np.stack(_cut_here(task["starts"], task["neighbours"], cuts)))


if __name__ == "__main__":
    main()
