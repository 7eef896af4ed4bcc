"""Matrices and clusterings of a public graph, computed on first use and kept for all fits."""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.distributed.bisections import bisect_rows, row_bisection_plan
from veilgraph.distributed.communicator import LOCAL, Communicator, HaloCommunicator, LocalCommunicator
from veilgraph.distributed.exchange import ALONE, current_exchange
from veilgraph.distributed.graph_rows import GraphRows, Halo, rows_of_part, whole_rows
from veilgraph.distributed.label_propagation import partition_rows
from veilgraph.errors import ReconstructionError
from veilgraph.graph import Graph
from veilgraph.graph.clustering import (
    BISECTION_SPACE,
    BISECTION_VECTORS,
    MAX_METIS_EDGES,
    bisection_plan,
    clusterings,
    start_bisections,
    start_clusterings,
)
from veilgraph.graph.graph import Holding
from veilgraph.graph.partition import ExtendedPart, GraphPart
from veilgraph.graph.shards import ShardGraph
from veilgraph.graph.spectrum import MAX_RESTARTED_EDGES, leading_eigenvectors
from veilgraph.reconstruct.adjacency import AdjacencyRows, arriving_edges
from veilgraph.reconstruct.lanczos import lanczos_eigenvectors
from veilgraph.reconstruct.propagation import NeighbourhoodMean
from veilgraph.reconstruct.sparse import RowSums, SparseProduct, select_rows
from veilgraph.reconstruct.spectral_bisections import spectral_bisections

_MAX_KEPT_BYTES = 2**28
"""Eigenvectors up to this size are kept for the next fit."""

_BLOCK_WIDTH = 16
"""Columns of eigenvectors that are propagated at once."""


class GraphOperators:
    """Matrices and clusterings of one graph, on one device.

    Args:
        graph: the public graph.
        device: device of the matrices.

    Attributes:
        communicator: collective operations over the processes that share the graph.
    """

    def __init__(self, graph: Graph, device: torch.device | str = "cpu") -> None:
        self.graph, self.device = graph, torch.device(device)
        self.communicator: Communicator = LOCAL
        self._clusters: dict[int, NDArray[np.int64]] = {}
        self._pending_clusters: tuple[list[int], Callable[[], list[NDArray[np.int64]]]] | None = None
        self._bisections: dict[tuple[int, int], Callable[[], Sequence[NDArray[np.signedinteger[Any]]]]] = {}
        self._spectral_bisections: dict[tuple[int, int], list[NDArray[np.int32]]] = {}
        self._bisecting = threading.RLock()
        self._eigenvectors: dict[tuple[int, bool], Tensor] = {}
        self._decomposing = threading.Lock()

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

    def neighbour_means(self, columns: Tensor) -> Tensor:
        """Return D^-1 A @ columns, zero for isolated nodes, without a matrix of its own; columns are contiguous."""
        sums = self._neighbour_sums()
        degrees = sums.starts.diff().clamp(min=1).unsqueeze(1)
        means = columns.new_empty(columns.shape[1], columns.shape[0]).T
        for block, out in zip(torch.split(columns, _BLOCK_WIDTH, 1), torch.split(means, _BLOCK_WIDTH, 1), strict=True):
            out.copy_(sums(self.communicator.exchange_halo(block.contiguous())).div_(degrees))
        return means

    def _neighbour_sums(self) -> RowSums:
        """Return the sums over the neighbours of each node."""
        return RowSums(*self.adjacency)

    @cached_property
    def symmetric(self) -> SparseProduct:
        """D^-1/2 A D^-1/2: symmetric normalization without self loops."""
        return self._symmetric(self.adjacency, self._degrees.clamp(min=1))

    @cached_property
    def closed_symmetric(self) -> SparseProduct:
        """D^-1/2 (A + I) D^-1/2, D counting the node itself: symmetric normalization with self loops (GCN)."""
        return self._symmetric(self.adjacency.with_self_loops(), self._degrees + 1)

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
        if self.device.type == "cpu":
            return AdjacencyRows(*map(torch.from_numpy, self.graph.adjacency))
        return AdjacencyRows.of_arriving(self.edges, self.arriving)

    @property
    def _degrees(self) -> Tensor:
        """Number of neighbours of each node in 64 bits, so that scales are rounded once, `[nodes]`.

        Neighbours in the halo of a part have more of them than the part knows.
        """
        if isinstance(self.graph, ExtendedPart):
            return torch.from_numpy(self.graph.degrees).to(self.device).double()
        return self.adjacency.starts.diff().double()

    def clusters(self, num_clusters: int) -> NDArray[np.int64]:
        """Return the cluster of each node, `[nodes]`, computed once for each number of clusters."""
        self.prepare_clusters([num_clusters])
        return self._clusters[num_clusters]

    def prepare_clusters(
        self, counts: Iterable[int], *, workers: int = 1, max_metis_edges: int = MAX_METIS_EDGES
    ) -> None:
        """Compute clusterings that are not known yet.

        Args:
            counts: numbers of clusters.
            workers: maximum number of worker processes.
            max_metis_edges: graphs of more edges are clustered by `stream_partition`.
        """
        if self._pending_clusters is not None:
            counts_started, result = self._pending_clusters
            self._clusters |= dict(zip(counts_started, result(), strict=True))
            self._pending_clusters = None
        missing = sorted(set(counts) - set(self._clusters))
        found = clusterings(self.graph, missing, workers=workers, max_metis_edges=max_metis_edges)
        self._clusters |= dict(zip(missing, found, strict=True))

    def start_clusters(self, counts: Iterable[int]) -> None:
        """Start clusterings in worker processes; the next call of `clusters` waits for them."""
        if self._pending_clusters is None and (missing := sorted(set(counts) - set(self._clusters))):
            self._pending_clusters = missing, start_clusterings(self.graph, missing)

    def bisection_plan(self, *, max_metis_edges: int = MAX_METIS_EDGES) -> tuple[int, int]:
        """Return the depth and the number of the trees of `bisections`."""
        return bisection_plan(self.graph, max_edges=max_metis_edges)

    def start_bisections(self, depth: int, trees: int, *, workers: int = 1) -> None:
        """Start `clustering.bisections` of the graph in worker processes; `bisections` waits for them.

        Those of a graph that is too large for METIS need its eigenvectors, and are not started.
        """
        if self.graph.num_edges > MAX_METIS_EDGES:
            return
        with self._bisecting:
            if (depth, trees) not in self._bisections:
                self._bisections[depth, trees] = start_bisections(self.graph, depth, trees, workers=workers)

    def bisections(
        self, depth: int, trees: int, *, max_metis_edges: int = MAX_METIS_EDGES
    ) -> Sequence[NDArray[np.signedinteger[Any]]]:
        """Return `clustering.bisections` of the graph, computed once for each depth and number of trees.

        Args:
            depth: number of levels.
            trees: number of trees.
            max_metis_edges: graphs of more edges are bisected by their leading eigenvectors.
        """
        if self.num_edges > max_metis_edges:
            with self._bisecting:  # several threads may ask at the same time
                if (depth, trees) not in self._spectral_bisections:
                    vectors = self.eigenvectors(BISECTION_SPACE)
                    if (depth, trees) not in self._spectral_bisections:
                        self._bisect(vectors, depth, trees)
            return self._spectral_bisections[depth, trees]
        return self._small_bisections(depth, trees)

    def _small_bisections(self, depth: int, trees: int) -> Sequence[NDArray[np.signedinteger[Any]]]:
        """Return the bisections of a graph that is small enough for METIS."""
        with self._bisecting:
            self.start_bisections(depth, trees)
            codes = self._bisections[depth, trees]()
            self._bisections[depth, trees] = lambda: codes
        return codes

    def _bisect(self, vectors: Tensor, depth: int, trees: int) -> None:
        leading = vectors[:, :BISECTION_VECTORS]
        self._spectral_bisections[depth, trees] = spectral_bisections(leading, depth, trees, self.communicator)

    def eigenvectors(self, count: int, *, regularised: bool = True) -> Tensor:
        """Return `spectrum.leading_eigenvectors` of the graph `[nodes, count]`, or of this process's nodes.

        They have the norm sqrt(nodes), so that entries have a mean square of 1. Fewer are the first columns. They are
        computed once for each choice, except on a graph of which they would take much memory until the next fit.
        """
        with self._decomposing:  # several threads may ask at the same time
            if (known := self._eigenvectors.get((count, regularised))) is not None:
                return known
            vectors = self._leading_eigenvectors(count, regularised).mul_(math.sqrt(self.num_nodes))
            # By the size of the whole graph, so that all processes decide alike.
            if 4 * self.num_nodes * count <= _MAX_KEPT_BYTES:
                self._eigenvectors[count, regularised] = vectors
            elif regularised and count == BISECTION_SPACE and self.num_edges > MAX_METIS_EDGES:
                self._bisect(vectors, *self.bisection_plan())  # while the vectors are there
        return vectors

    def _leading_eigenvectors(self, count: int, regularised: bool) -> Tensor:
        if self.num_edges > MAX_RESTARTED_EDGES:
            return self._lanczos(count, regularised)
        return torch.from_numpy(leading_eigenvectors(self.graph, count, regularised=regularised)).to(self.device)

    def _lanczos(self, count: int, regularised: bool) -> Tensor:
        sums, exchange = self._neighbour_sums(), self.communicator.exchange_halo
        degrees = torch.from_numpy(self.graph.degrees).to(self.device)
        return lanczos_eigenvectors(
            lambda column: sums(exchange(column)), degrees, self.communicator, count, regularised=regularised
        )

    def _symmetric(self, adjacency: AdjacencyRows, degrees: Tensor) -> SparseProduct:
        scale = degrees.rsqrt()
        return SparseProduct.of(adjacency.scaled(rows=scale, columns=scale), symmetric=True)


class CountedOperators(GraphOperators, ABC):
    """Operators whose clusterings and eigenvectors do not depend on the number of processes that hold the graph.

    They come from rows of the adjacency, which may be spread over processes, and from counters of nodes.
    """

    @abstractmethod
    def _counted_rows(self) -> tuple[GraphRows, Halo]:
        """Return the neighbours of this process's nodes, and the exchange with the others."""

    def bisection_plan(self, *, max_metis_edges: int = MAX_METIS_EDGES) -> tuple[int, int]:
        """Return the depth and the number of the trees of `bisections`."""
        return row_bisection_plan(self, max_edges=max_metis_edges)

    def start_bisections(self, depth: int, trees: int, *, workers: int = 1) -> None:
        """Do nothing: `bisections` computes them."""

    def _small_bisections(self, depth: int, trees: int) -> Sequence[NDArray[np.signedinteger[Any]]]:
        """Return `bisect_rows` of the graph, computed once."""
        with self._bisecting:
            if (depth, trees) not in self._bisections:
                codes = bisect_rows(*self._counted_rows(), depth, trees)
                self._bisections[depth, trees] = lambda: codes
        return self._bisections[depth, trees]()

    def _leading_eigenvectors(self, count: int, regularised: bool) -> Tensor:
        return self._lanczos(count, regularised)


class ShardOperators(CountedOperators):
    """Matrices and clusterings of a whole graph that was read from shards.

    Clusters are found by label propagation and masks are drawn from counters, as with several processes.

    Args:
        graph: the graph of all shards.
        device: device of the matrices.
    """

    def __init__(self, graph: ShardGraph, device: torch.device | str = "cpu") -> None:
        super().__init__(graph, device)
        self.communicator = LocalCommunicator(torch.from_numpy(graph.counted_nodes).to(self.device))

    def prepare_clusters(
        self, counts: Iterable[int], *, workers: int = 1, max_metis_edges: int = MAX_METIS_EDGES
    ) -> None:
        """Compute clusterings that are not known yet; the arguments about METIS are not used.

        A large graph on a GPU is clustered by its eigenvectors: the parts of one tree of bisections, in their order.
        """
        missing = sorted(set(counts) - set(self._clusters))
        if missing and self.device.type != "cpu" and self.num_edges > MAX_METIS_EDGES:
            depth, trees = self.bisection_plan()
            leaves = self.bisections(depth, trees)[0].astype(np.int64)
            self._clusters |= {count: leaves * count >> depth for count in missing}
        elif missing:
            rows, halo = self._counted_rows()
            self._clusters |= {count: partition_rows(rows, halo, count) for count in missing}

    def start_clusters(self, counts: Iterable[int]) -> None:
        """Do nothing: `clusters` computes them."""

    def _counted_rows(self) -> tuple[GraphRows, Halo]:
        rows, nowhere = whole_rows(self.graph), np.empty(0, dtype=np.int64)
        return rows, Halo.of(ALONE, rows.numbers, nowhere, nowhere)


class PartOperators(CountedOperators):
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
        self._clusters = dict(part.clusters)
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

    def _neighbour_sums(self) -> RowSums:
        starts, neighbours = (torch.from_numpy(each) for each in self._part.extended.adjacency)
        sums = RowSums(starts, neighbours).select(torch.from_numpy(self._part.own_rows))
        return RowSums(sums.starts.to(self.device), sums.rows.to(self.device))

    def _counted_rows(self) -> tuple[GraphRows, Halo]:
        return rows_of_part(self._part, current_exchange())

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
