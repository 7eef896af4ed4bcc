r"""K-hop means over closed neighbourhoods: the operation that all reconstructions share.

One hop replaces each node's row by the mean over the node and its neighbours, :math:`\lambda \leftarrow W\lambda` with
:math:`W = D^{-1}(A + I)`. The columns of all features and values are propagated by one sparse product.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from veilgraph.distributed.communicator import LOCAL, Communicator
from veilgraph.errors import ReconstructionError
from veilgraph.graph import Graph
from veilgraph.graph.graph import GraphSize
from veilgraph.reconstruct.adjacency import AdjacencyRows
from veilgraph.reconstruct.sparse import repeated_product

_PROBES = 64


@dataclass(frozen=True, eq=False)
class NeighbourhoodMean:
    """The matrix W of one graph, on one device.

    Attributes:
        matrix: W, sparse `[nodes, nodes]`.
        communicator: collective operations over the processes that share the graph.

    >>> path = NeighbourhoodMean.of(Graph.from_edges([[0, 1], [1, 2]], num_nodes=3))
    >>> path.propagate(torch.tensor([[1.0], [0.0], [0.0]]), hops=1).flatten()
    tensor([0.5000, 0.3333, 0.0000])
    """

    matrix: Tensor
    communicator: Communicator = LOCAL

    @classmethod
    def of(cls, graph: Graph, device: torch.device | str = "cpu") -> NeighbourhoodMean:
        """Build W; isolated nodes keep their own row."""
        return cls.of_rows(AdjacencyRows(*(torch.from_numpy(each).to(device) for each in graph.adjacency)))

    @classmethod
    def of_rows(cls, adjacency: AdjacencyRows) -> NeighbourhoodMean:
        """Build W from the neighbours of every node."""
        shares = 1 / (1 + adjacency.starts.diff().double())
        return cls(adjacency.with_self_loops().scaled(rows=shares))

    @property
    def num_nodes(self) -> int:
        """Number of nodes, n."""
        return int(self.matrix.shape[0])

    @property
    def device(self) -> torch.device:
        """Device of the matrix."""
        return self.matrix.device

    def propagate(self, columns: Tensor, hops: int, *, max_columns: int | None = None) -> Tensor:
        """Return W^K @ columns, `[nodes, columns]`.

        Args:
            columns: `[nodes, columns]`.
            hops: K.
            max_columns: number of columns that are propagated at once; default: `block_width`.
        """
        return repeated_product(self.matrix, columns, hops, communicator=self.communicator, max_columns=max_columns)

    def effective_sample_size(
        self, reporting: Tensor, hops: int, *, seed: int = 0, max_exact_nodes: int = 2048
    ) -> Tensor:
        r"""Return the effective sample size of each node's K-hop mean, (sum w)^2 / sum w^2, `[nodes]`.

        It is the number of equally weighted reports with the same variance. Neighbourhoods overlap, so it is not the
        degree. The sum of squared weights is the diagonal of W^K (W^K)^T. It is exact on small graphs. On large ones
        it is estimated with random signs z, :math:`E[(W^K z)_v^2] = \sum_u w_{vu}^2`, to within 18% (one standard
        deviation, 64 probes).

        Args:
            reporting: `[nodes]`, nodes that have a report; the others have no weight.
            hops: K.
            seed: seed of the random signs.
            max_exact_nodes: graphs of more nodes use the estimate.
        """
        if not self.communicator.is_local:
            raise ReconstructionError("sample sizes need the whole graph: ask for them in one process")
        mask = reporting.to(self.matrix.dtype).unsqueeze(1)
        mass = self.propagate(mask, hops)
        if hops == 0:
            return mask.squeeze(1)
        if self.num_nodes <= max_exact_nodes:
            squares = self.propagate(torch.diag(mask.squeeze(1)), hops).square().sum(1, keepdim=True)
        else:
            generator = torch.Generator().manual_seed(seed)
            signs = torch.randint(2, (self.num_nodes, _PROBES), generator=generator).mul_(2).sub_(1)
            signs = signs.to(self.device, self.matrix.dtype)
            squares = self.propagate(signs * mask, hops).square().mean(1, keepdim=True)
        sizes = mass.square() / squares.clamp(min=torch.finfo(squares.dtype).tiny)
        # A weighted mean of n reports is worth at least one report and at most n.
        return torch.where(mass > 0, sizes.clamp(1, max(1.0, float(mask.sum()))), 0.0).squeeze(1)


def default_hops(graph: GraphSize) -> int:
    """Return the default number of hops, ln n / ln(1 + mean degree), rounded up.

    After this number of hops a neighbourhood would cover the graph if it kept branching. With more hops all means are
    about equal; with fewer they are local. It depends on the public graph only.

    >>> default_hops(Graph.from_edges([[0, 1, 2], [1, 2, 3]], num_nodes=4))  # ln 4 / ln 2.5
    2
    """
    mean_degree = 2 * graph.num_edges / graph.num_nodes
    return max(1, math.ceil(math.log(graph.num_nodes) / math.log1p(mean_degree)))
