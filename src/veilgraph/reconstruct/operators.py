"""What a method needs of the public graph, made once and only if it is used."""

from __future__ import annotations

from functools import cached_property, lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.graph import Graph
from veilgraph.reconstruct.clusters import cluster
from veilgraph.reconstruct.propagation import NeighbourhoodMean, SparseProduct, sparse_csr


class GraphOperators:
    """Matrices and bags of one graph, on one device.

    Args:
        graph: the public graph.
        device: where the matrices live.
    """

    def __init__(self, graph: Graph, device: torch.device | str = "cpu") -> None:
        self.graph, self.device = graph, torch.device(device)
        self._clusters: dict[int, NDArray[np.int64]] = {}

    @cached_property
    def mean(self) -> NeighbourhoodMean:
        """D^-1 (A + I), D counting the node itself: means over closed neighbourhoods."""
        return NeighbourhoodMean.of(self.graph, self.device)

    @cached_property
    def neighbours(self) -> SparseProduct:
        """D^-1 A: means over neighbours, zero where there are none (GraphSAGE)."""
        rows, columns = torch.from_numpy(self.graph.edge_index)
        weights = 1.0 / torch.from_numpy(self.graph.degrees).clamp(min=1)
        return SparseProduct.of(self._matrix(rows, columns, weights[rows]))

    @cached_property
    def symmetric(self) -> SparseProduct:
        """D^-1/2 A D^-1/2, without self loops."""
        rows, columns = torch.from_numpy(self.graph.edge_index)
        scale = torch.from_numpy(self.graph.degrees).clamp(min=1).to(torch.float32).rsqrt()
        return SparseProduct.of(self._matrix(rows, columns, scale[rows] * scale[columns]), symmetric=True)

    @cached_property
    def closed_symmetric(self) -> SparseProduct:
        """D^-1/2 (A + I) D^-1/2, D counting the node itself (GCN)."""
        loops = torch.arange(self.graph.num_nodes).expand(2, -1)
        rows, columns = torch.cat([torch.from_numpy(self.graph.edge_index), loops], dim=1)
        scale = torch.from_numpy(self.graph.degrees).add(1).to(torch.float32).rsqrt()
        return SparseProduct.of(self._matrix(rows, columns, scale[rows] * scale[columns]), symmetric=True)

    @cached_property
    def edge_index(self) -> Tensor:
        """Both directions of every edge, as GNN layers want them."""
        return torch.from_numpy(self.graph.edge_index).to(self.device)

    def clusters(self, num_clusters: int) -> NDArray[np.int64]:
        """The cluster of each node, computed once for each number of clusters."""
        if num_clusters not in self._clusters:
            self._clusters[num_clusters] = cluster(self.graph, num_clusters)
        return self._clusters[num_clusters]

    def _matrix(self, rows: Tensor, columns: Tensor, weights: Tensor) -> Tensor:
        size = (self.graph.num_nodes, self.graph.num_nodes)
        return sparse_csr(rows, columns, weights.to(torch.float32), size).to(self.device)


@lru_cache(maxsize=2)
def operators_of(graph: Graph, device: torch.device) -> GraphOperators:
    """The operators of a graph, kept for the next fit on it."""
    return GraphOperators(graph, device)
