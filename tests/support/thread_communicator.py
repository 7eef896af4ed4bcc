"""Processes that share a graph, as threads of one process: sums are exchanged through memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch
from torch import Tensor

from veilgraph.distributed.communicator import Communicator

Result = TypeVar("Result")


class ThreadCommunicator(Communicator):
    """Communicator of one thread.

    Args:
        rank: number of the thread.
        meeting: where all threads meet.
        slots: what each thread brings, by its number.
        numbers: numbers of its nodes.
        nodes: number of nodes of the whole graph.
    """

    is_local = False
    counted_nodes: Tensor

    def __init__(self, rank: int, meeting: threading.Barrier, slots: list[Any], numbers: Tensor, nodes: int) -> None:
        self.rank, self._meeting, self._slots, self._nodes = rank, meeting, slots, nodes
        self.is_first, self.counted_nodes = rank == 0, numbers

    def share(self, value: Any) -> list[Any]:
        """Return the values of all threads."""
        self._slots[self.rank] = value
        self._meeting.wait()
        found = list(self._slots)
        self._meeting.wait()
        return found

    def global_nodes(self, local_nodes: int) -> int:
        """Return the number of nodes of the whole graph."""
        return self._nodes

    def max_extended_rows(self, local_nodes: int) -> int:
        """Return the number of nodes of the whole graph."""
        return self._nodes

    def maximum(self, numbers: Tensor) -> Tensor:
        """Return the maximum of each number over threads."""
        return torch.stack(self.share(numbers)).amax(0)

    def all_reduce_sum(self, sums: Tensor) -> Tensor:
        """Add a tensor up over threads, the last first."""
        return torch.stack(self.share(sums.clone())[::-1]).sum(0)

    def exchange_halo(self, rows: Tensor) -> Tensor:
        """Return the rows of all nodes, [nodes of the whole graph, columns]."""
        found = rows.new_empty(self._nodes, rows.shape[1])
        for numbers, values in self.share((self.counted_nodes, rows)):
            found[numbers] = values
        return found

    def own_rows(self, extended: Tensor) -> Tensor:
        """Return the rows of this thread's nodes."""
        return extended[self.counted_nodes]

    def return_halo(self, extended: Tensor) -> Tensor:
        """Add rows up over threads, and return those of this thread's nodes."""
        return self.own_rows(self.all_reduce_sum(extended))

    def gather_rows(self, rows: Tensor, nodes: Tensor) -> Tensor:
        """Return the rows of some nodes of all threads, in the order of the whole graph."""
        shared = self.share((self.counted_nodes[nodes], rows))
        order = torch.cat([numbers for numbers, _ in shared]).argsort()
        return torch.cat([values for _, values in shared])[order]


def in_threads(part_of: Tensor, function: Callable[[ThreadCommunicator], Result]) -> list[Result]:
    """Call a function in a thread for each part, at the same time.

    Args:
        part_of: part of each node, `[nodes]`.
        function: takes the communicator of a part.
    """
    parts = int(part_of.max()) + 1
    meeting, slots = threading.Barrier(parts, timeout=60), [None] * parts
    communicators = [
        ThreadCommunicator(rank, meeting, slots, (part_of == rank).nonzero().squeeze(1), len(part_of))
        for rank in range(parts)
    ]
    with ThreadPoolExecutor(parts) as pool:
        return list(pool.map(function, communicators))
