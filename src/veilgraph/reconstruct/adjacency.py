"""The adjacency of a graph as tensors, on the device that computes with it.

A graph keeps its edges sorted, each once. Both directions of all edges in compressed rows follow from one stable sort
by the second end. On a GPU this takes a third of a second for a billion edges, and nothing of it passes through the
memory of the CPU.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from scipy.sparse import csr_array
from torch import Tensor
from torch.nn.functional import pad

from veilgraph.reconstruct.sparse import RowSums, csr_from_rows

BLOCK_ENTRIES = 2**27
"""Entries that are moved at once, so that their 64-bit places take little memory."""


class AdjacencyRows(NamedTuple):
    """Neighbour lists in compressed sparse rows (CSR), as `Graph.adjacency` has them.

    Attributes:
        starts: `[nodes + 1]`, where each node's list starts in `neighbours`.
        neighbours: `[2 edges]`, the lists of node 0, node 1 and so on, each sorted.
        weights: `[2 edges]`, weights of the edges to these neighbours; None where edges have none.
    """

    starts: Tensor
    neighbours: Tensor
    weights: Tensor | None = None

    @classmethod
    def of_arriving(cls, edges: Tensor, arriving: RowSums) -> AdjacencyRows:
        """Return the neighbours of every node: the nodes that its arriving edges leave.

        Args:
            edges: `[2, edges]`, sorted.
            arriving: `arriving_edges` of them.
        """
        leaving = edges.reshape(-1)
        neighbours = torch.empty_like(arriving.rows)
        for some, rows in zip(
            torch.split(neighbours, BLOCK_ENTRIES), torch.split(arriving.rows, BLOCK_ENTRIES), strict=True
        ):
            some.copy_(leaving.index_select(0, rows))
        return cls(arriving.starts, neighbours)

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.starts) - 1

    def with_self_loops(self) -> AdjacencyRows:
        """Return A + I: every node is a neighbour of itself.

        >>> path = AdjacencyRows(torch.tensor([0, 1, 3, 4]), torch.tensor([1, 0, 2, 1]))
        >>> path.with_self_loops().neighbours
        tensor([0, 1, 0, 1, 2, 1, 2])
        """
        nodes = torch.arange(self.num_nodes + 1, dtype=self.neighbours.dtype, device=self.starts.device)
        rows = torch.repeat_interleave(nodes[:-1], self.starts.diff(), output_size=len(self.neighbours))
        neighbours = self.neighbours.new_full((len(self.neighbours) + self.num_nodes,), -1)
        first = 0
        for some, row in zip(
            torch.split(self.neighbours, BLOCK_ENTRIES), torch.split(rows, BLOCK_ENTRIES), strict=True
        ):
            places = torch.arange(first, first := first + len(some), device=rows.device)
            neighbours[places.add_(row).add_(some > row)] = some
        # One place of each row is free, for the node itself.
        neighbours[neighbours < 0] = nodes[:-1]
        return AdjacencyRows(self.starts + nodes, neighbours)

    def scaled(self, *, rows: Tensor | None = None, columns: Tensor | None = None) -> Tensor:
        """Return the sparse matrix with entries r_u w_uv c_v; matrices of one adjacency share its index tensors.

        Args:
            rows: r, `[nodes]`; default: 1.
            columns: c, `[nodes]`; default: 1.
        """
        nodes = self.num_nodes
        weights = torch.ones(nodes, device=self.starts.device) if rows is None else rows.to(torch.float32)
        weights = torch.repeat_interleave(weights, self.starts.diff(), output_size=len(self.neighbours))
        if columns is not None:
            factors = columns.to(torch.float32)
            for some, names in zip(
                torch.split(weights, BLOCK_ENTRIES), torch.split(self.neighbours, BLOCK_ENTRIES), strict=True
            ):
                some.mul_(factors.index_select(0, names))
        if self.weights is not None:
            weights.mul_(self.weights)
        return csr_from_rows(self.starts, self.neighbours, weights, (nodes, nodes))


def arriving_edges(edges: Tensor, nodes: int) -> RowSums:
    """Return the sums over the directed edges that arrive at each node, in the order of `Graph.edge_index`.

    Args:
        edges: `[2, edges]`, each edge once with u < v, sorted.
        nodes: number of nodes.

    >>> arriving = arriving_edges(torch.tensor([[0, 1], [1, 2]]), 3)  # 0-1, 1-2
    >>> arriving.starts.tolist(), arriving.rows.tolist()
    ([0, 1, 3, 4], [2, 0, 3, 1])
    """
    sources, targets = edges
    count = edges.shape[1]
    index = torch.int32 if max(2 * count, nodes) < 2**31 else torch.int64
    leaving, entering = (pad(torch.bincount(ends, minlength=nodes).cumsum(0), (1, 0)) for ends in (sources, targets))
    order, rows = _order_by_target(targets, leaving, index), torch.empty(2 * count, dtype=index, device=edges.device)
    for first in range(0, count, BLOCK_ENTRIES):
        numbers = torch.arange(first, min(first + BLOCK_ENTRIES, count), device=edges.device)
        some = order[first : first + BLOCK_ENTRIES]
        rows[leaving.index_select(0, targets.index_select(0, some)).add_(numbers)] = some.to(index)
        before = entering[1:].index_select(0, sources[first : first + BLOCK_ENTRIES]).add_(numbers)
        rows[before] = numbers.add_(count).to(index)
    return RowSums((leaving + entering).to(index), rows)


def _order_by_target(targets: Tensor, leaving: Tensor, index: torch.dtype) -> Tensor:
    """Return the numbers of the edges in the order of their targets, those with one target in their own order."""
    if targets.device.type != "cpu":
        return torch.sort(targets, stable=True).indices
    # Edges are sorted by source: transposing the upper triangle is a counting sort, which is faster on a CPU.
    numbers = torch.arange(len(targets), dtype=index).numpy(), targets.to(index).numpy(), leaving.to(index).numpy()
    nodes = len(leaving) - 1
    return torch.from_numpy(csr_array(numbers, shape=(nodes, nodes)).T.tocsr().data)
