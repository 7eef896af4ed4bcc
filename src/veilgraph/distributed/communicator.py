"""Collective operations of a graph that is held by one process, or partitioned over several.

Every algorithm that reads a whole graph consists of products with its matrices and of sums over its nodes. Both go
through a communicator, so the same code runs on a whole graph and on one part of a partitioned graph.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch
from torch import Tensor, distributed

from veilgraph.distributed.exchange import current_exchange
from veilgraph.distributed.process_group import communication
from veilgraph.graph.partition import GraphPart


class Communicator(ABC):
    """Collective operations over the processes that share a graph.

    Attributes:
        is_local: whether this process holds the whole graph.
        is_first: whether this is the first process: it alone adds what a sum over processes has once.
        counted_nodes: numbers of this process's nodes, `[local nodes]`, if random draws come from counters of nodes;
            None if they come from streams, as on a graph that was not read from shards.
    """

    is_local: bool
    is_first: bool = True
    counted_nodes: Tensor | None = None

    @abstractmethod
    def global_nodes(self, local_nodes: int) -> int:
        """Return the number of nodes of the whole graph, given the number of nodes in this process."""

    @abstractmethod
    def max_extended_rows(self, local_nodes: int) -> int:
        """Return the number of rows of the largest part after a halo exchange.

        Blocks of work are planned with this number, so that all processes take equally many steps.
        """

    def all_reduce_max(self, number: int) -> int:
        """Return the maximum of a number over processes."""
        return int(self.maximum(torch.tensor(number)))

    @abstractmethod
    def maximum(self, numbers: Tensor) -> Tensor:
        """Return the maximum of each number of a tensor over processes."""

    @abstractmethod
    def all_reduce_sum(self, sums: Tensor) -> Tensor:
        """Add a tensor up over processes.

        All processes compute one common objective from the result, so backward passes the gradient on unchanged.
        """

    def norm(self, columns: Tensor) -> Tensor:
        """Return the Euclidean norm of all entries, over all processes."""
        here: Tensor = columns.norm()
        return here if self.is_local else self.all_reduce_sum(here.double().square()).sqrt().to(columns)

    def std(self, columns: Tensor) -> Tensor:
        """Return the standard deviation of all entries, over all processes, with n - 1 in the denominator."""
        if self.is_local:
            return columns.std()
        here = columns.double()
        count = self.all_reduce_sum(torch.tensor(columns.numel(), device=columns.device))
        distance = here - self.all_reduce_sum(here.sum()) / count
        return (self.all_reduce_sum(distance.square().sum()) / (count - 1)).sqrt().to(columns)

    @abstractmethod
    def exchange_halo(self, rows: Tensor) -> Tensor:
        """Return the rows of this part's nodes and of their neighbours in other parts.

        Args:
            rows: `[local nodes, columns]`.

        Returns:
            `[local and halo nodes, columns]`, in the order of the whole graph.
        """

    @abstractmethod
    def own_rows(self, extended: Tensor) -> Tensor:
        """Return the rows of this part's nodes among `[local and halo nodes, columns]`."""

    @abstractmethod
    def return_halo(self, extended: Tensor) -> Tensor:
        """Send rows of the halo to the processes that own them, and add them up there: the transposed exchange.

        Args:
            extended: `[local and halo nodes, columns]`, in the order of the whole graph.

        Returns:
            `[local nodes, columns]`.
        """

    @abstractmethod
    def gather_rows(self, rows: Tensor, nodes: Tensor) -> Tensor:
        """Return rows of some nodes of all processes, in the order of the whole graph. Meant for a few thousand rows.

        Args:
            rows: rows of nodes of this process, `[some, ...]`.
            nodes: which of its nodes they are `[some]`, in increasing order.
        """


class LocalCommunicator(Communicator):
    """Communicator of a process that holds the whole graph: nothing is exchanged.

    Args:
        counted_nodes: numbers of the nodes, if random draws come from counters of nodes.

    >>> LOCAL.all_reduce_sum(torch.tensor([3.0]))
    tensor([3.])
    """

    is_local = True

    def __init__(self, counted_nodes: Tensor | None = None) -> None:
        self.counted_nodes = counted_nodes

    def global_nodes(self, local_nodes: int) -> int:
        """Return `local_nodes`."""
        return local_nodes

    def max_extended_rows(self, local_nodes: int) -> int:
        """Return `local_nodes`."""
        return local_nodes

    def maximum(self, numbers: Tensor) -> Tensor:
        """Return `numbers`."""
        return numbers

    def all_reduce_sum(self, sums: Tensor) -> Tensor:
        """Return `sums`."""
        return sums

    def exchange_halo(self, rows: Tensor) -> Tensor:
        """Return `rows`."""
        return rows

    def own_rows(self, extended: Tensor) -> Tensor:
        """Return `extended`."""
        return extended

    def return_halo(self, extended: Tensor) -> Tensor:
        """Return `extended`."""
        return extended

    def gather_rows(self, rows: Tensor, nodes: Tensor) -> Tensor:
        """Return `rows`."""
        return rows


LOCAL = LocalCommunicator()


class HaloCommunicator(Communicator):
    """Communicator of a process that holds one part of a partitioned graph.

    Before a product, each process sends the rows of its boundary nodes to the processes that hold a neighbour. The
    received rows (the halo) keep the order of the whole graph. So a product adds its terms in the same order as in
    one process.

    Args:
        part: part of the graph that this process holds.
        device: device of the rows.
    """

    is_local = False

    def __init__(self, part: GraphPart, device: torch.device) -> None:
        self._part = part
        self.is_first = distributed.get_rank() == 0 if distributed.is_initialized() else True
        self._send_rows, self._own_rows, self._halo_rows, self._global_ids = (
            torch.from_numpy(index).to(device)
            for index in (part.send_rows, part.own_rows, part.halo_rows, part.global_ids)
        )
        self.counted_nodes = self._global_ids

    def global_nodes(self, local_nodes: int) -> int:
        """Return the number of nodes of the whole graph."""
        return self._part.num_global_nodes

    def max_extended_rows(self, local_nodes: int) -> int:
        """Return the size of the largest part, halo included."""
        return self._part.max_extended_nodes

    def maximum(self, numbers: Tensor) -> Tensor:
        """Return the maximum of each number over processes."""
        greatest = numbers.contiguous().clone()
        with communication():
            distributed.all_reduce(greatest, distributed.ReduceOp.MAX)
        return greatest

    def all_reduce_sum(self, sums: Tensor) -> Tensor:
        """Add a tensor up over processes; the gradient of the copy is the identity."""
        total = sums.contiguous().clone()
        with communication():
            distributed.all_reduce(total.detach())
        return total

    def exchange_halo(self, rows: Tensor) -> Tensor:
        """Exchange the rows of boundary nodes with the other processes."""
        part = self._part
        sent, received = rows[self._send_rows], rows.new_empty(part.halo_size, rows.shape[1])
        with communication():
            distributed.all_to_all_single(received, sent, list(part.receive_counts), list(part.send_counts))
        extended = rows.new_empty(part.extended.num_nodes, rows.shape[1])
        extended[self._own_rows], extended[self._halo_rows] = rows, received
        return extended

    def own_rows(self, extended: Tensor) -> Tensor:
        """Return the rows of this part's nodes."""
        return extended[self._own_rows]

    def return_halo(self, extended: Tensor) -> Tensor:
        """Exchange the rows of the halo with the processes that own them."""
        part = self._part
        sent, received = extended[self._halo_rows], extended.new_empty(len(self._send_rows), extended.shape[1])
        with communication():
            distributed.all_to_all_single(received, sent, list(part.send_counts), list(part.receive_counts))
        return extended[self._own_rows].index_add_(0, self._send_rows, received)

    def gather_rows(self, rows: Tensor, nodes: Tensor) -> Tensor:
        """Send the rows to all processes."""
        exchange = current_exchange()
        numbers = exchange.gather(self._global_ids[nodes].cpu().numpy())
        gathered = exchange.gather(rows.cpu().numpy())
        return torch.from_numpy(gathered[np.argsort(numbers)]).to(rows.device)
