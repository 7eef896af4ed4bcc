"""The output layer of many replicas, for a subset of the nodes.

`output_formula` states the same computation in ordinary torch operations.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from veilgraph.models.engine.node_subset import NodeSubset
from veilgraph.reconstruct.sparse import SparseProduct, apply_function, repeated_product, select_columns, select_rows


def output_formula(matrix: Tensor, aggregated: Tensor, *own: Tensor) -> Tensor:
    r"""Compute :math:`(P Z_1)^T + Z_2` of all nodes, [replicas * classes, nodes], in ordinary torch operations.

    Args:
        matrix: P, [nodes, nodes].
        aggregated: Z_1, [nodes, replicas * classes].
        own: Z_2, [replicas * classes, nodes], if the convolution has such a term.
    """
    return sum(own, (matrix @ aggregated).T)


class OutputLayer:
    r"""Logits :math:`(P Z_1)^T + Z_2` of a node subset, from what `HiddenLayer` computes for all nodes.

    It equals `output_formula` at the selected nodes, but multiplies with the selected rows of P only.

    Args:
        product: P.
        nodes: the nodes of the logits.
    """

    def __init__(self, product: SparseProduct, nodes: NodeSubset) -> None:
        self._product, self.nodes, self.communicator = product, nodes, product.communicator

    def __call__(self, aggregated: Tensor, *own: Tensor) -> Tensor:
        """Return logits [replicas * classes, selected].

        Args:
            aggregated: Z_1, [nodes, replicas * classes].
            own: Z_2, [replicas * classes, nodes], if the convolution has such a term.
        """
        logits: Tensor = apply_function(_OutputFunction, self, aggregated, *own)
        return logits

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


class _OutputFunction(torch.autograd.Function):
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
        return None, of_aggregated, layer.nodes.scatter(gradient, len(of_aggregated))


def transposed(values: Tensor) -> Tensor:
    """Return a contiguous transpose of a matrix. Its gradient is contiguous too, which plain `.T` does not ensure."""
    columns: Tensor = apply_function(_TransposeFunction, values)
    return columns


def permuted(values: Tensor, order: Tensor, inverse: Tensor) -> Tensor:
    """Return rows in another order. The gradient uses the inverse order and needs no scatter-add.

    >>> permuted(torch.tensor([5, 6, 7]), torch.tensor([2, 0, 1]), inverse=torch.tensor([1, 2, 0]))
    tensor([7, 5, 6])
    """
    rows: Tensor = apply_function(_PermuteFunction, values, order, inverse)
    return rows


class _TransposeFunction(torch.autograd.Function):
    """A contiguous transpose in both directions: later operations on a strided gradient would be slow."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        return values.T.contiguous()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0].T.contiguous()


class _PermuteFunction(torch.autograd.Function):
    """A permutation of rows: torch would add gradients up, because an index could occur twice."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, order: Tensor, inverse: Tensor) -> Tensor:
        ctx.inverse = inverse
        return values.index_select(0, order)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return gradients[0].index_select(0, ctx.inverse), None, None
