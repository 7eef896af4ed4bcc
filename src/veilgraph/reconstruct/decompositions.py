"""Clusterings, bisections and eigenvectors of a public graph, each computed once and kept for all fits."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.distributed.bisections import bisect_rows, row_bisection_plan
from veilgraph.distributed.communicator import Communicator
from veilgraph.distributed.graph_rows import GraphRows, Halo
from veilgraph.distributed.label_propagation import partition_rows
from veilgraph.graph import Graph
from veilgraph.graph.clustering import (
    BISECTION_SPACE,
    BISECTION_VECTORS,
    MAX_METIS_EDGES,
    Bisections,
    bisection_plan,
    clusterings,
    start_bisections,
    start_clusterings,
)
from veilgraph.graph.spectrum import MAX_RESTARTED_EDGES, leading_eigenvectors
from veilgraph.reconstruct.lanczos import lanczos_eigenvectors
from veilgraph.reconstruct.sparse import RowSums
from veilgraph.reconstruct.spectral_bisections import spectral_bisections

_MAX_KEPT_BYTES = 2**28
"""Eigenvectors up to this size are kept for the next fit."""


class Operators(Protocol):
    """What decompositions ask of the operators of a graph; see `GraphOperators`."""

    graph: Graph
    device: torch.device
    communicator: Communicator

    @property
    def num_nodes(self) -> int:
        """Number of nodes of the whole graph."""

    @property
    def num_joined(self) -> int:
        """Number of nodes of the whole graph that have neighbours."""

    @property
    def num_edges(self) -> int:
        """Number of edges of the whole graph."""

    def neighbour_sums(self) -> RowSums:
        """Return the sums over the neighbours of each node."""


class Decompositions:
    """Clusterings, bisections and eigenvectors of one graph.

    Args:
        operators: operators of the graph.
    """

    def __init__(self, operators: Operators) -> None:
        self._operators = operators
        self._clusters: dict[int, NDArray[np.int64]] = {}
        self._pending_clusters: tuple[list[int], Callable[[], list[NDArray[np.int64]]]] | None = None
        self._bisections: Callable[[], Bisections] | None = None
        self._spectral_bisections: Bisections | None = None
        self._bisecting = threading.RLock()
        self._eigenvectors: dict[tuple[int, bool], Tensor] = {}
        self._decomposing = threading.Lock()

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
        found = clusterings(self._operators.graph, missing, workers=workers, max_metis_edges=max_metis_edges)
        self._clusters |= dict(zip(missing, found, strict=True))

    def start_clusters(self, counts: Iterable[int]) -> None:
        """Start clusterings in worker processes; the next call of `clusters` waits for them."""
        if self._pending_clusters is None and (missing := sorted(set(counts) - set(self._clusters))):
            self._pending_clusters = missing, start_clusterings(self._operators.graph, missing)

    def start_bisections(self, *, workers: int = 1) -> None:
        """Start `clustering.bisections` of the graph in worker processes; `bisections` waits for them.

        Those of a graph that is too large for METIS need its eigenvectors, and are not started.
        """
        graph = self._operators.graph
        if graph.num_edges > MAX_METIS_EDGES:
            return
        with self._bisecting:
            self._started(graph, workers)

    def bisections(self, *, max_metis_edges: int = MAX_METIS_EDGES) -> Bisections:
        """Return `clustering.bisections` of the graph, computed once.

        Args:
            max_metis_edges: graphs of more edges are bisected by their leading eigenvectors.
        """
        if self._operators.num_edges > max_metis_edges:
            with self._bisecting:  # several threads may ask at the same time
                if self._spectral_bisections is None:
                    vectors = self.eigenvectors(BISECTION_SPACE)
                    return self._spectral_bisections or self._bisect(vectors, max_metis_edges)
                return self._spectral_bisections
        return self._small_bisections()

    def _small_bisections(self) -> Bisections:
        """Return the bisections of a graph that is small enough for METIS."""
        with self._bisecting:
            found = self._started(self._operators.graph, workers=1)()
            self._bisections = lambda: found
        return found

    def _started(self, graph: Graph, workers: int) -> Callable[[], Bisections]:
        """Return what waits for the bisections; they are started if they are not yet."""
        if self._bisections is None:
            self._bisections = start_bisections(graph, bisection_plan(graph)[1], workers=workers)
        return self._bisections

    def _bisection_plan(self, max_metis_edges: int) -> tuple[int, int]:
        """Return the depth and the number of the trees of bisections by eigenvectors."""
        return bisection_plan(self._operators, max_edges=max_metis_edges)

    def _bisect(self, vectors: Tensor, max_metis_edges: int = MAX_METIS_EDGES) -> Bisections:
        """Bisect the graph by its eigenvectors, and keep the result."""
        depth, trees = self._bisection_plan(max_metis_edges)
        leading = vectors[:, :BISECTION_VECTORS]
        codes = spectral_bisections(leading, depth, trees, self._operators.communicator)
        self._spectral_bisections = Bisections(np.array([depth]), codes)
        return self._spectral_bisections

    def eigenvectors(self, count: int, *, regularised: bool = True) -> Tensor:
        """Return `spectrum.leading_eigenvectors` of the graph `[nodes, count]`, or of this process's nodes.

        They have the norm sqrt(nodes with neighbours), so that entries have a mean square of 1. Fewer are the first
        columns. They are computed once for each choice, except on a graph of which they would take much memory until
        the next fit.
        """
        with self._decomposing:  # several threads may ask at the same time
            if (known := self._eigenvectors.get((count, regularised))) is not None:
                return known
            vectors = self._leading_eigenvectors(count, regularised).mul_(math.sqrt(self._operators.num_joined))
            # By the size of the whole graph, so that all processes decide alike.
            if 4 * self._operators.num_nodes * count <= _MAX_KEPT_BYTES:
                self._eigenvectors[count, regularised] = vectors
            elif regularised and count == BISECTION_SPACE and self._operators.num_edges > MAX_METIS_EDGES:
                self._bisect(vectors)  # while the vectors are there
        return vectors

    def _leading_eigenvectors(self, count: int, regularised: bool) -> Tensor:
        if self._operators.num_edges > MAX_RESTARTED_EDGES:
            return self._lanczos(count, regularised)
        return torch.from_numpy(leading_eigenvectors(self._operators.graph, count, regularised=regularised)).to(
            self._operators.device
        )

    def _lanczos(self, count: int, regularised: bool) -> Tensor:
        sums, exchange = self._operators.neighbour_sums(), self._operators.communicator.exchange_halo
        degrees = torch.from_numpy(self._operators.graph.strengths).to(self._operators.device)
        return lanczos_eigenvectors(
            lambda column: sums(exchange(column)), degrees, self._operators.communicator, count, regularised=regularised
        )


class CountedDecompositions(Decompositions):
    """Decompositions that do not depend on the number of processes that hold the graph.

    They come from rows of the adjacency, which may be spread over processes, and from counters of nodes.

    Args:
        operators: operators of the graph, or of the part that this process holds.
        rows_and_halo: returns the neighbours of this process's nodes, and the exchange with the others.
        clusters: clusterings that are known already, by their number of clusters.
    """

    def __init__(
        self,
        operators: Operators,
        rows_and_halo: Callable[[], tuple[GraphRows, Halo]],
        clusters: Mapping[int, NDArray[np.int64]] | None = None,
    ) -> None:
        super().__init__(operators)
        self._rows_and_halo = rows_and_halo
        self._row_bisections: Bisections | None = None
        self._clusters |= clusters or {}

    def prepare_clusters(
        self, counts: Iterable[int], *, workers: int = 1, max_metis_edges: int = MAX_METIS_EDGES
    ) -> None:
        """Compute clusterings that are not known yet by label propagation; the arguments about METIS are not used.

        A large graph on a GPU is clustered by its eigenvectors: the parts of one tree of bisections, in their order.
        """
        missing = sorted(set(counts) - set(self._clusters))
        if missing and self._operators.device.type != "cpu" and self._operators.num_edges > MAX_METIS_EDGES:
            found = self.bisections()
            leaves, (depth,) = found.trees[0].astype(np.int64), found.depths
            self._clusters |= {count: leaves * count >> depth for count in missing}
        elif missing:
            rows, halo = self._rows_and_halo()
            self._clusters |= {count: partition_rows(rows, halo, count) for count in missing}

    def start_clusters(self, counts: Iterable[int]) -> None:
        """Do nothing: `clusters` computes them."""

    def start_bisections(self, *, workers: int = 1) -> None:
        """Do nothing: `bisections` computes them."""

    def _small_bisections(self) -> Bisections:
        """Return `bisect_rows` of the graph, computed once."""
        with self._bisecting:
            if self._row_bisections is None:
                depth, trees = self._bisection_plan(MAX_METIS_EDGES)
                self._row_bisections = Bisections(np.array([depth]), bisect_rows(*self._rows_and_halo(), depth, trees))
        return self._row_bisections

    def _bisection_plan(self, max_metis_edges: int) -> tuple[int, int]:
        """Return the depth and the number of the trees of bisections."""
        return row_bisection_plan(self._operators, max_edges=max_metis_edges)

    def _leading_eigenvectors(self, count: int, regularised: bool) -> Tensor:
        return self._lanczos(count, regularised)
