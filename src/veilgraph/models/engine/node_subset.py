"""The nodes whose logits a loss or a score reads; other nodes need no output layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.reconstruct.operators import GraphOperators


@dataclass(frozen=True, eq=False)
class NodeSubset:
    """A subset of the nodes, shared by all replicas that are trained together.

    Attributes:
        nodes: node indices in increasing order; None for all nodes.

    >>> subset = NodeSubset(torch.tensor([0, 2]))
    >>> subset.select(torch.tensor([1.0, 2.0, 3.0])), subset.positions(torch.tensor([2]))
    (tensor([1., 3.]), tensor([1]))
    >>> subset.scatter(torch.tensor([[1.0, 3.0]]), num_nodes=3)
    tensor([[1., 0., 3.]])
    """

    nodes: Tensor | None

    def select(self, values: Tensor) -> Tensor:
        """Select the values of the subset from values [..., nodes]."""
        return values if self.nodes is None else values.index_select(-1, self.nodes)

    def scatter(self, selected: Tensor, num_nodes: int) -> Tensor:
        """Scatter values of the subset, [rows, selected], into a zero tensor of all nodes, [rows, nodes]."""
        if self.nodes is None:
            return selected
        return selected.new_zeros(len(selected), num_nodes).scatter_(1, self.nodes.expand_as(selected), selected)

    def positions(self, nodes: Tensor) -> Tensor:
        """Return the positions of some nodes of the subset within the subset."""
        return nodes if self.nodes is None else torch.searchsorted(self.nodes, nodes)

    def size(self, num_nodes: int) -> int:
        """Return the number of nodes in the subset, for a graph of `num_nodes` nodes."""
        return num_nodes if self.nodes is None else len(self.nodes)


ALL_NODES = NodeSubset(None)


def needed_nodes(masks: Sequence[NDArray[np.bool_]] | NDArray[np.bool_], operators: GraphOperators) -> NodeSubset:
    """Return the nodes that at least one replica needs.

    These are all nodes in two cases: for a part of a graph, because other processes may need any node, and on a GPU,
    because the many replicas of a batch together need nearly all.

    Args:
        masks: needed nodes of each replica, [replicas, nodes].
        operators: matrices of the graph.
    """
    if operators.device.type != "cpu" or not operators.communicator.is_local:
        return ALL_NODES
    return NodeSubset(torch.from_numpy(np.flatnonzero(np.logical_or.reduce(masks))))
