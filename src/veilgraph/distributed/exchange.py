"""Exchanges of arrays between the processes of a run, by the number of the process that needs each row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import distributed

from veilgraph.distributed.process_group import communication

Number = TypeVar("Number", bound=np.generic)


def current_exchange() -> Exchange:
    """Return the exchange of the processes of this run; `ALONE` if there is one process."""
    if not distributed.is_initialized():
        return ALONE
    return Exchange(rank=distributed.get_rank(), world_size=distributed.get_world_size())


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """Collective operations on numpy arrays. All processes call each of them in the same order.

    Attributes:
        rank: rank of this process.
        world_size: number of processes; with one process nothing is sent.

    >>> Exchange(rank=0, world_size=1).send(np.array([7, 8]), np.array([0, 0]))
    (array([7, 8]), array([2]))
    """

    rank: int
    world_size: int

    def send(self, rows: NDArray[Number], to: NDArray[np.int64]) -> tuple[NDArray[Number], NDArray[np.int64]]:
        """Send each row to a process, and return the rows that arrive here.

        Args:
            rows: `[rows, ...]`; type and trailing shape are the same in all processes.
            to: rank that gets each row, `[rows]`.

        Returns:
            The rows, first from rank 0 and each in the order of its sender, and how many came from each rank.
        """
        if self.world_size == 1:
            return rows, np.array([len(rows)])
        order = np.argsort(to, kind="stable")
        counts = np.bincount(to, minlength=self.world_size)
        return self.send_sorted(rows[order], counts)

    def send_sorted(
        self, rows: NDArray[Number], counts: NDArray[np.int64]
    ) -> tuple[NDArray[Number], NDArray[np.int64]]:
        """Send rows that are sorted by their receivers; see `send`.

        Args:
            rows: `[rows, ...]`, those for rank 0 first.
            counts: number of rows for each rank.
        """
        if self.world_size == 1:
            return rows, counts
        arriving = self._all_to_all(counts.astype(np.int64), np.ones_like(counts), np.ones_like(counts))
        return self._all_to_all(rows, counts, arriving), arriving

    def ask(
        self, questions: NDArray[np.int64] | NDArray[np.uint64], of: NDArray[np.int64]
    ) -> tuple[NDArray[Any], _Answers]:
        """Send questions, and return those that arrived here with the function that sends the answers back.

        Args:
            questions: `[questions]`.
            of: rank that can answer each, `[questions]`.
        """
        order = np.argsort(of, kind="stable")
        counts = np.bincount(of, minlength=self.world_size)
        arrived, arriving = self.send_sorted(questions[order], counts)
        return arrived, _Answers(self, order, counts, arriving)

    def sum(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Add whole numbers up over processes."""
        return self._reduce(numbers.astype(np.int64), distributed.ReduceOp.SUM)

    def max(self, number: int) -> int:
        """Return the maximum of a number over processes."""
        return int(self._reduce(np.array([number]), distributed.ReduceOp.MAX)[0])

    def gather(self, rows: NDArray[Number]) -> NDArray[Number]:
        """Return the rows of all processes, first the rows of rank 0. Meant for a few rows."""
        everyone = np.repeat(np.arange(self.world_size), len(rows))
        return self.send(np.concatenate([rows] * self.world_size), everyone)[0]

    def _reduce(self, numbers: NDArray[Number], operation: Any) -> NDArray[Number]:
        if self.world_size == 1:
            return numbers
        total = torch.from_numpy(np.array(numbers))
        with communication():
            distributed.all_reduce(total, operation)
        return np.asarray(total.numpy())

    def _all_to_all(
        self, rows: NDArray[Number], leaving: NDArray[np.int64], arriving: NDArray[np.int64]
    ) -> NDArray[Number]:
        width = rows.dtype.itemsize * int(np.prod(rows.shape[1:], dtype=np.int64))
        received = np.empty((int(arriving.sum()), *rows.shape[1:]), dtype=rows.dtype)
        with communication():
            distributed.all_to_all_single(
                _as_bytes(received), _as_bytes(rows), (arriving * width).tolist(), (leaving * width).tolist()
            )
        return received


@dataclass(frozen=True)
class _Answers:
    """Sends answers to the processes that asked.

    Args:
        exchange: the exchange.
        order: order in which the questions were sent.
        asked: number of questions that went to each rank.
        arrived: number of questions that came from each rank.
    """

    exchange: Exchange
    order: NDArray[np.int64]
    asked: NDArray[np.int64]
    arrived: NDArray[np.int64]

    def __call__(self, answers: NDArray[Number]) -> NDArray[Number]:
        """Send one answer for each question that arrived, and return those to the own questions, in their order."""
        received, _ = self.exchange.send_sorted(answers, self.arrived)
        in_order = np.empty_like(received)
        in_order[self.order] = received
        return in_order


def _as_bytes(rows: NDArray[Any]) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(rows).reshape(-1).view(np.uint8))


ALONE = Exchange(rank=0, world_size=1)
"""The exchange of a process that shares its graph with no other."""
