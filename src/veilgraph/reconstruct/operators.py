"""What a method needs of the public graph, made once and only if it is used."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from veilgraph.graph import Graph
from veilgraph.reconstruct.propagation import NeighbourhoodMean, sparse_csr


class GraphOperators:
    """Matrices of one graph on one device.

    Args:
        graph: the public graph.
        device: where the matrices live.
    """

    def __init__(self, graph: Graph, device: torch.device | str = "cpu") -> None:
        self.graph, self.device = graph, torch.device(device)

    @cached_property
    def mean(self) -> NeighbourhoodMean:
        """D^-1 (A + I): means over closed neighbourhoods."""
        return NeighbourhoodMean.of(self.graph, self.device)

    @cached_property
    def symmetric(self) -> Tensor:
        """D^-1/2 A D^-1/2, without self loops."""
        rows, columns = torch.from_numpy(self.graph.edge_index)
        scale = torch.from_numpy(self.graph.degrees).clamp(min=1).to(torch.float32).rsqrt()
        size = (self.graph.num_nodes, self.graph.num_nodes)
        return sparse_csr(rows, columns, scale[rows] * scale[columns], size).to(self.device)

    @cached_property
    def edge_index(self) -> Tensor:
        """Both directions of every edge, as GNN layers want them."""
        return torch.from_numpy(self.graph.edge_index).to(self.device)
