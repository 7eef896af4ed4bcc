"""METIS: parts of a graph with few edges between them."""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import IO

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import MissingExtraError

try:
    import pymetis
except ImportError:
    raise MissingExtraError("pymetis", "server") from None

_PATIENCE = 60
"""Seconds that a process waits for more to do."""


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


def cut(starts: NDArray[np.int32], neighbours: NDArray[np.int32], cuts: Sequence[Cut]) -> list[NDArray[np.int64]]:
    """The part of each node, for every cut.

    Args:
        starts: where each node's neighbours begin.
        neighbours: of all nodes, one after the other.
        cuts: that are wanted.

    >>> path = np.array([0, 1, 3, 5, 6], dtype=np.int32), np.array([1, 0, 2, 1, 3, 2], dtype=np.int32)
    >>> [parts] = cut(*path, [Cut(2, recursive=True, seed=0)])
    >>> parts[0] == parts[1] != parts[2] == parts[3]
    np.True_
    """
    graph = pymetis.CSRAdjacency(starts, neighbours)
    results = [
        pymetis.part_graph(each.parts, graph, recursive=each.recursive, options=pymetis.Options(seed=each.seed))
        for each in cuts
    ]
    return [np.asarray(result.vertex_part, dtype=np.int64) for result in results]


def send_task(stream: IO[bytes], starts: NDArray[np.int32], neighbours: NDArray[np.int32], cuts: Sequence[Cut]) -> None:
    """Write down what another process is to cut."""
    _send(stream, starts=starts, neighbours=neighbours, cuts=np.array([astuple(each) for each in cuts]))


def receive_parts(stream: IO[bytes]) -> list[NDArray[np.int64]]:
    """Read what another process has cut; an OSError if it has ended instead."""
    return list(_receive(stream)["parts"])


def main() -> None:
    """Cut one graph after another from standard input, until there are no more or none comes for a while."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever gives the tasks is interrupted, and ends this process
    while True:
        _limit_wait(_PATIENCE)
        try:
            task = _receive(sys.stdin.buffer)
        except OSError:
            return
        _limit_wait(0)
        cuts = [Cut(int(parts), bool(recursive), int(seed)) for parts, recursive, seed in task["cuts"]]
        _send(sys.stdout.buffer, parts=np.stack(cut(task["starts"], task["neighbours"], cuts)))


def _limit_wait(seconds: int) -> None:
    if hasattr(signal, "alarm"):
        signal.alarm(seconds)  # ends the process


def _send(stream: IO[bytes], **arrays: NDArray[np.integer]) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    stream.write(len(buffer.getvalue()).to_bytes(8, "little") + buffer.getvalue())
    stream.flush()


def _receive(stream: IO[bytes]) -> dict[str, NDArray[np.int32]]:
    size = int.from_bytes(stream.read(8), "little")
    content = stream.read(size)
    if size == 0 or len(content) < size:
        raise BrokenPipeError("the other process has ended")
    return dict(np.load(io.BytesIO(content), allow_pickle=False))


if __name__ == "__main__":
    main()
