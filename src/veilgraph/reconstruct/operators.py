"""Matrices of a public graph, computed on first use and kept for all fits."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.distributed.communicator import LOCAL, Communicator, HaloCommunicator, LocalCommunicator
from veilgraph.distributed.exchange import ALONE, current_exchange
from veilgraph.distributed.graph_rows import Halo, rows_of_part, whole_rows
from veilgraph.errors import ReconstructionError
from veilgraph.graph import Graph
from veilgraph.graph.canonical_order import entry_weights
from veilgraph.graph.graph import Holding
from veilgraph.graph.partition import ExtendedPart, GraphPart
from veilgraph.graph.shards import ShardGraph
from veilgraph.reconstruct.adjacency import AdjacencyRows, arriving_edges
from veilgraph.reconstruct.decompositions import CountedDecompositions, Decompositions
from veilgraph.reconstruct.propagation import NeighbourhoodMean
from veilgraph.reconstruct.sparse import RowSums, SparseProduct, select_rows


class GraphOperators:
    """Matrices of one graph, on one device.

    Args:
        graph: the public graph.
        device: device of the matrices.

    Attributes:
        communicator: collective operations over the processes that share the graph.
    """

    def __init__(self, graph: Graph, device: torch.device | str = "cpu") -> None:
        self.graph, self.device = graph, torch.device(device)
        self.communicator: Communicator = LOCAL

    @property
    def num_nodes(self) -> int:
        """Number of nodes of the whole graph."""
        return self.graph.num_nodes

    @property
    def num_edges(self) -> int:
        """Number of edges of the whole graph."""
        return self.graph.num_edges

    @property
    def message_graph(self) -> Graph:
        """Graph along whose edges this process computes messages: all edges of its nodes."""
        return self.graph

    @property
    def counted_edges(self) -> Tensor | None:
        """Edges of `message_graph` that this process counts `[edges]`, so that all count once; None for all."""
        return None

    @cached_property
    def degree_counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Degrees that occur in the whole graph, sorted, and how many nodes have each."""
        return np.unique(self.graph.degrees, return_counts=True)

    @property
    def counters(self) -> NDArray[np.int64]:
        """Numbers of this process's nodes from which random draws are computed, `[nodes]`: keys, or ranks of keys."""
        counted = self.communicator.counted_nodes
        return self.graph.keys.view(np.int64) if counted is None else counted.cpu().numpy()

    @cached_property
    def num_joined(self) -> int:
        """Number of nodes of the whole graph that have neighbours: others hear nothing and say nothing on the graph."""
        degrees, counts = self.degree_counts
        return int(counts[degrees > 0].sum())

    @cached_property
    def mean(self) -> NeighbourhoodMean:
        """D^-1 (A + I), D counting the node itself: mean over closed neighbourhoods."""
        return NeighbourhoodMean.of_rows(self.adjacency)

    @cached_property
    def neighbours(self) -> SparseProduct:
        """D^-1 A: mean over neighbours, zero for isolated nodes (GraphSAGE)."""
        shares = 1 / self._degrees.clamp(min=1)
        # A is symmetric, so the transpose has the same positions with other weights.
        return SparseProduct(self.adjacency.scaled(rows=shares), self.adjacency.scaled(columns=shares))

    def neighbour_sums(self) -> RowSums:
        """Return the sums over the neighbours of each node, weighted where edges have weights."""
        return RowSums(*self.adjacency)

    @cached_property
    def symmetric(self) -> SparseProduct:
        """D^-1/2 A D^-1/2: symmetric normalization without self loops."""
        return _symmetric(self.adjacency, self._degrees.where(self._degrees > 0, 1.0))

    @cached_property
    def closed_symmetric(self) -> SparseProduct:
        """D^-1/2 (A + I) D^-1/2, D counting the node itself: symmetric normalization with self loops (GCN)."""
        return _symmetric(self.adjacency.with_self_loops(), self._degrees + 1)

    @cached_property
    def edge_index(self) -> Tensor:
        """Both directions of every edge, `[2, 2 edges]`: the format of GNN layers."""
        return torch.from_numpy(self.graph.edge_index).to(self.device)

    @property
    def arriving_index(self) -> Tensor:
        """Directed edges that arrive at this process's nodes, `[2, arriving]`, by rows of a halo exchange."""
        return self.edge_index

    @cached_property
    def edges(self) -> Tensor:
        """One direction of every edge, `[2, edges]`; on a CPU it is the graph's own array."""
        edges = torch.from_numpy(self.graph.edges).to(self.device)
        return edges if self.device.type == "cpu" or self.graph.num_nodes >= 2**31 else edges.to(torch.int32)

    @cached_property
    def arriving(self) -> RowSums:
        """Sums over the directed edges that arrive at each node, in the order of `Graph.edge_index`."""
        return arriving_edges(self.edges, self.graph.num_nodes)

    @cached_property
    def adjacency(self) -> AdjacencyRows:
        """Neighbours of every node, as `Graph.adjacency` has them. A GPU makes them from the edges."""
        if (weights := entry_weights(self.graph)) is not None:
            parts = *self.graph.adjacency, weights.astype(np.float32)
            return AdjacencyRows(*(torch.from_numpy(part).to(self.device) for part in parts))
        if self.device.type == "cpu":
            return AdjacencyRows(*map(torch.from_numpy, self.graph.adjacency))
        return AdjacencyRows.of_arriving(self.edges, self.arriving)

    @property
    def _degrees(self) -> Tensor:
        """Sum of the weights of each node's edges in 64 bits, so that scales are rounded once, `[nodes]`.

        Neighbours in the halo of a part have more of them than the part knows.
        """
        if isinstance(self.graph, ExtendedPart) or self.adjacency.weights is not None:
            return torch.from_numpy(self.graph.strengths).to(self.device).double()
        return self.adjacency.starts.diff().double()

    @cached_property
    def decompositions(self) -> Decompositions:
        """Clusterings, bisections and eigenvectors of the whole graph."""
        return Decompositions(self)


def _symmetric(adjacency: AdjacencyRows, degrees: Tensor) -> SparseProduct:
    scale = degrees.rsqrt()
    return SparseProduct.of(adjacency.scaled(rows=scale, columns=scale), symmetric=True)


class ShardOperators(GraphOperators):
    """Matrices of a whole graph that was read from shards.

    Clusters are found by label propagation and masks are drawn from counters, as with several processes.

    Args:
        graph: the graph of all shards.
        device: device of the matrices.
    """

    def __init__(self, graph: ShardGraph, device: torch.device | str = "cpu") -> None:
        super().__init__(graph, device)
        self.communicator = LocalCommunicator(torch.from_numpy(graph.counted_nodes).to(self.device))

    @cached_property
    def decompositions(self) -> Decompositions:
        """Decompositions that several processes would find too."""
        rows, nowhere = whole_rows(self.graph), np.empty(0, dtype=np.int64)
        halo = Halo.of(ALONE, rows.numbers, nowhere, nowhere)
        return CountedDecompositions(self, lambda: (rows, halo))


class PartOperators(GraphOperators):
    """Rows of a graph's matrices for one part of a partition; products exchange halo rows with the other parts.

    A is symmetric, so a matrix and its transpose have entries in the same positions: forward and backward passes need
    the same halo.

    Args:
        part: part of the graph that this process holds.
        device: device of the matrices.
    """

    def __init__(self, part: GraphPart, device: torch.device | str = "cpu") -> None:
        super().__init__(part, device)
        self.communicator = HaloCommunicator(part, self.device)
        self._part = part

    @property
    def num_nodes(self) -> int:
        """Number of nodes of the whole graph."""
        return self._part.num_global_nodes

    @property
    def num_edges(self) -> int:
        """Number of edges of the whole graph."""
        return self._part.num_global_edges

    @property
    def message_graph(self) -> Graph:
        """The part with its halo: the message to a neighbour elsewhere is computed here and there."""
        return self._part.extended

    @cached_property
    def counted_edges(self) -> Tensor:
        """Edges whose lower end is a node of this part, `[edges]`."""
        own = np.zeros(self._part.extended.num_nodes, dtype=np.bool_)
        own[self._part.own_rows] = True
        return torch.from_numpy(own[self._part.extended.edges[0]]).to(self.device)

    @cached_property
    def degree_counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Degrees that occur in the whole graph, sorted, and how many nodes have each."""
        values, counts = super().degree_counts
        gathered = current_exchange().gather(np.stack([values, counts], axis=1))
        values, places = np.unique(gathered[:, 0], return_inverse=True)
        return values, np.bincount(places, weights=gathered[:, 1]).astype(np.int64)

    @cached_property
    def edges(self) -> Tensor:
        """One direction of every edge with an end in the part, `[2, edges]`, by positions in the extended part."""
        return torch.from_numpy(self._part.extended.edges).to(self.device)

    @cached_property
    def arriving(self) -> RowSums:
        """Sums over the directed edges that arrive at each node of the part."""
        sums = self._extended.arriving.select(torch.from_numpy(self._part.own_rows))
        return RowSums(sums.starts.to(self.device), sums.rows.to(self.device))

    def neighbour_sums(self) -> RowSums:
        """Return the sums over the neighbours of each node of the part, by rows of a halo exchange."""
        starts, neighbours = (torch.from_numpy(each) for each in self._part.extended.adjacency)
        sums = RowSums(starts, neighbours).select(torch.from_numpy(self._part.own_rows))
        return RowSums(sums.starts.to(self.device), sums.rows.to(self.device))

    @cached_property
    def decompositions(self) -> Decompositions:
        """Decompositions that all processes find together."""
        return CountedDecompositions(self, lambda: rows_of_part(self._part, current_exchange()), self._part.clusters)

    @cached_property
    def mean(self) -> NeighbourhoodMean:
        """D^-1 (A + I)."""
        return NeighbourhoodMean(self._rows(self._extended.mean.matrix), self.communicator)

    @cached_property
    def neighbours(self) -> SparseProduct:
        """D^-1 A."""
        return self._part_of(self._extended.neighbours)

    @cached_property
    def symmetric(self) -> SparseProduct:
        """D^-1/2 A D^-1/2."""
        return self._part_of(self._extended.symmetric)

    @cached_property
    def closed_symmetric(self) -> SparseProduct:
        """D^-1/2 (A + I) D^-1/2."""
        return self._part_of(self._extended.closed_symmetric)

    @property
    def edge_index(self) -> Tensor:
        """Not available: raises a `ReconstructionError`."""
        raise ReconstructionError("a backbone of your own needs the whole graph: train it in one process")

    @property
    def arriving_index(self) -> Tensor:
        """Directed edges from the part and its halo to the part's nodes, `[2, arriving]`."""
        ends, own = self._part.extended.edge_index, np.zeros(self._part.extended.num_nodes, dtype=np.bool_)
        own[self._part.own_rows] = True
        return torch.from_numpy(ends[:, own[ends[1]]]).to(self.device)

    @property
    def _extended(self) -> GraphOperators:
        """Operators of the extended part; not kept, because only the part's rows of its matrices are needed."""
        return GraphOperators(self._part.extended)

    def _part_of(self, product: SparseProduct) -> SparseProduct:
        matrix = self._rows(product.matrix)
        symmetric = product.transposed is product.matrix
        return SparseProduct(matrix, matrix if symmetric else self._rows(product.transposed), self.communicator)

    def _rows(self, matrix: Tensor) -> Tensor:
        return select_rows(matrix, torch.from_numpy(self._part.own_rows)).to(self.device)


_OPERATORS: dict[Holding, Callable[[Any, torch.device], GraphOperators]] = {
    Holding.WHOLE: GraphOperators,
    Holding.SHARDS: ShardOperators,
    Holding.PART: PartOperators,
}


@lru_cache(maxsize=8)
def operators_of(graph: Graph, device: torch.device) -> GraphOperators:
    """Return the operators of a graph, by how it says that this process holds it; cached for the next fit."""
    return _OPERATORS[graph.holding](graph, device)
