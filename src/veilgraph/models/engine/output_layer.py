"""The output layer of many replicas, for the nodes whose logits a loss or a score reads; other nodes need none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.reconstruct.operators import GraphOperators
from veilgraph.reconstruct.sparse import FusedFunction, SparseProduct, repeated_product, select_columns, select_rows


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

    def scatter(self, selected: Tensor, num_nodes: int, out: Tensor | None = None) -> Tensor:
        """Scatter values of the subset, [rows, selected], into a zero tensor of all nodes, [rows, nodes].

        Args:
            selected: the values.
            num_nodes: number of all nodes.
            out: an earlier result of this shape, which is overwritten; None for a new tensor.
        """
        if self.nodes is None:
            return selected
        whole = selected.new_zeros(len(selected), num_nodes) if out is None else out
        return whole.scatter_(1, self.nodes.expand_as(selected), selected)

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


class OutputLayer:
    r"""Logits :math:`(P Z_1)^T + Z_2` of a node subset, from what `HiddenLayer` computes for all nodes.

    It multiplies with the selected rows of P only.

    Args:
        product: P.
        nodes: the nodes of the logits.
    """

    def __init__(self, product: SparseProduct, nodes: NodeSubset) -> None:
        self._product, self.nodes, self.communicator = product, nodes, product.communicator
        self._own_gradient: Tensor | None = None

    def __call__(self, aggregated: Tensor, *own: Tensor) -> Tensor:
        """Return logits [replicas * classes, selected].

        Args:
            aggregated: Z_1, [nodes, replicas * classes].
            own: Z_2, [replicas * classes, nodes], if the convolution has such a term.
        """
        logits: Tensor = _OutputFunction.apply(self, aggregated, *own)
        return logits

    def own_gradient(self, gradient: Tensor, num_nodes: int) -> Tensor:
        """Return the gradient of the own term, [rows, nodes], until the next call: its zeros are written once."""
        before = self._own_gradient
        fits = before is not None and before.shape == (len(gradient), num_nodes) and before.dtype == gradient.dtype
        self._own_gradient = self.nodes.scatter(gradient, num_nodes, before if fits else None)
        return self._own_gradient

    @cached_property
    def rows(self) -> Tensor:
        """Rows of P for the selected nodes."""
        matrix, nodes = self._product.matrix, self.nodes.nodes
        return matrix if nodes is None else select_rows(matrix, nodes)

    @cached_property
    def columns(self) -> Tensor:
        """The transpose of `rows`, which only a backward pass needs."""
        matrix, nodes = self._product.transposed, self.nodes.nodes
        return matrix if nodes is None else select_columns(matrix, nodes)


class _OutputFunction(FusedFunction):
    """The output layer with its gradient, which is one product with the transposed rows."""

    @staticmethod
    def forward(ctx: Any, layer: OutputLayer, aggregated: Tensor, *own: Tensor) -> Tensor:
        ctx.layer, ctx.has_own = layer, bool(own)
        logits = repeated_product(layer.rows, aggregated, 1, communicator=layer.communicator).T.contiguous()
        for term in own:
            logits += layer.nodes.select(term)
        return logits

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,), layer = gradients, ctx.layer
        rows = gradient.T.contiguous()
        of_aggregated = repeated_product(layer.columns, rows, 1, communicator=layer.communicator)
        if not ctx.has_own:
            return None, of_aggregated
        return None, of_aggregated, layer.own_gradient(gradient, len(of_aggregated))


def transposed(values: Tensor) -> Tensor:
    """Return a contiguous transpose of a matrix. Its gradient is contiguous too, which plain `.T` does not ensure."""
    columns: Tensor = _TransposeFunction.apply(values)
    return columns


def permuted(values: Tensor, order: Tensor, inverse: Tensor) -> Tensor:
    """Return rows in another order. The gradient uses the inverse order and needs no scatter-add.

    >>> permuted(torch.tensor([5, 6, 7]), torch.tensor([2, 0, 1]), inverse=torch.tensor([1, 2, 0]))
    tensor([7, 5, 6])
    """
    rows: Tensor = _PermuteFunction.apply(values, order, inverse)
    return rows


class _TransposeFunction(FusedFunction):
    """A contiguous transpose in both directions: later operations on a strided gradient would be slow."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        return values.T.contiguous()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0].T.contiguous()


class _PermuteFunction(FusedFunction):
    """A permutation of rows: torch would add gradients up, because an index could occur twice."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, order: Tensor, inverse: Tensor) -> Tensor:
        ctx.inverse = inverse
        return values.index_select(0, order)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return gradients[0].index_select(0, ctx.inverse), None, None
