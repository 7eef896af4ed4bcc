"""Who holds the rest of a graph: nobody, or the other processes that it is spread over.

Everything that reads a whole graph is a product with one of its matrices or a sum over its nodes. Both ask here, so
that the same algorithm runs on a graph in one process and on the part that one of several processes holds.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, distributed

from veilgraph.distributed.autograd import applied
from veilgraph.distributed.process_group import talking
from veilgraph.graph.partition import GraphPart


class Alone:
    """All nodes are in this process.

    >>> ALONE.total(torch.tensor([3.0]))
    tensor([3.])
    """

    def whole(self, nodes: int) -> int:
        """How many nodes the graph has, of which so many are here."""
        return nodes

    def planned(self, nodes: int) -> int:
        """What to plan blocks of work by, so that all processes take the same number of steps."""
        return nodes

    def most(self, number: int) -> int:
        """The largest of the processes' numbers."""
        return number

    def total(self, sums: Tensor) -> Tensor:
        """Sums over the nodes that are here as sums over all nodes; gradients flow back to the nodes that are here."""
        return sums

    def reached(self, rows: Tensor) -> Tensor:
        """Rows of the nodes that are here, with those of all their neighbours, as the columns of a matrix want them."""
        return rows

    def here(self, columns: Tensor) -> Tensor:
        """Of columns for all nodes, those of the nodes that are here."""
        return columns


ALONE = Alone()


class Peers(Alone):
    """Each process holds a part.

    What a product needs of the others' nodes is sent by those who hold them: rows at the boundary, once for each
    product and each process that has a neighbour of theirs. Rows arrive in the places that the whole graph's order
    gives them, so that a product adds in the same order as in one process.

    Args:
        part: that this process holds.
        device: where it computes.
    """

    def __init__(self, part: GraphPart, device: torch.device) -> None:
        self._part = part
        self._sent, self._places, self._arrivals, self._numbers = (
            torch.from_numpy(index).to(device) for index in (part.sent, part.places, part.arrivals, part.numbers)
        )

    def whole(self, nodes: int) -> int:
        """How many nodes the graph has."""
        return self._part.whole

    def planned(self, nodes: int) -> int:
        """The rows that the largest part reaches."""
        return self._part.largest

    def most(self, number: int) -> int:
        """The largest of the processes' numbers."""
        numbers = torch.tensor(number)
        with talking():
            distributed.all_reduce(numbers, distributed.ReduceOp.MAX)
        return int(numbers)

    def total(self, sums: Tensor) -> Tensor:
        """The sum over processes.

        Every process computes the same from it, one objective and not one each: so the gradient goes back as it is.
        """
        total: Tensor = applied(_Total, sums)
        return total

    def reached(self, rows: Tensor) -> Tensor:
        """Exchange rows at the boundary."""
        part = self._part
        received = rows.new_empty(len(self._arrivals), rows.shape[1])
        with talking():
            distributed.all_to_all_single(received, rows[self._sent], list(part.receive_counts), list(part.send_counts))
        reached = rows.new_empty(part.around.num_nodes, rows.shape[1])
        reached[self._places], reached[self._arrivals] = rows, received
        return reached

    def here(self, columns: Tensor) -> Tensor:
        """The columns of this part's nodes."""
        return columns.index_select(-1, self._numbers)


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, sums: Tensor) -> Tensor:
        total = sums.contiguous().clone()
        with talking():
            distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0]
