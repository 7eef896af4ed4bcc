"""The second layer of many replicas, at the nodes where it is asked for."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from veilgraph.distributed.autograd import applied
from veilgraph.models.engine.node_subset import Asked
from veilgraph.reconstruct.propagation import SparseProduct, columns_of, repeated_product, rows_of


class Readout:
    r"""Logits :math:`(P Z_1)^T + Z_2` of some nodes, from what `HiddenLayer` gives of all.

    Args:
        product: P, of which only the rows that are asked for take part.
        asked: for which nodes.
    """

    def __init__(self, product: SparseProduct, asked: Asked) -> None:
        self._product, self._asked = product, asked

    def __call__(self, propagated: Tensor, *own: Tensor) -> Tensor:
        """[replicas * classes, nodes].

        Args:
            propagated: Z_1, [nodes, replicas * classes].
            own: Z_2, [replicas * classes, nodes], where the convolution has one.
        """
        logits: Tensor = applied(_Read, self, propagated, *own)
        return logits

    def forward(self, propagated: Tensor, *own: Tensor) -> Tensor:
        """The logits."""
        found = repeated_product(self._rows, propagated, 1, communicator=self._product.communicator).T.contiguous()
        for each in own:
            found += self._asked.pick(each)
        return found

    def backward(self, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """Of Z_1, and of Z_2: the gradient itself, zero where nothing was asked for."""
        rows = gradient.T.contiguous()
        of_propagated = repeated_product(self._columns, rows, 1, communicator=self._product.communicator)
        return of_propagated, self._asked.spread(gradient, len(of_propagated))

    @cached_property
    def _rows(self) -> Tensor:
        matrix, nodes = self._product.matrix, self._asked.nodes
        return matrix if nodes is None else rows_of(matrix, nodes)

    @cached_property
    def _columns(self) -> Tensor:
        """The transpose of these rows; a pass without a gradient has no use for it."""
        matrix, nodes = self._product.transposed, self._asked.nodes
        return matrix if nodes is None else columns_of(matrix, nodes)


def across(rows: Tensor) -> Tensor:
    """A row for each node instead of a column, or the other way round; its gradient is laid out as it is."""
    columns: Tensor = applied(_Across, rows)
    return columns


def reordered(values: Tensor, order: Tensor, places: Tensor) -> Tensor:
    """Values in another order, where each has its place.

    >>> reordered(torch.tensor([5, 6, 7]), torch.tensor([2, 0, 1]), places=torch.tensor([1, 2, 0]))
    tensor([7, 5, 6])
    """
    found: Tensor = applied(_Reordered, values, order, places)
    return found


class _Across(torch.autograd.Function):
    """torch would leave the gradient lying across, and be slow with it from there on."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        return rows.T.contiguous()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0].T.contiguous()


class _Reordered(torch.autograd.Function):
    """torch would add the gradient up, since an order might name a place twice."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, order: Tensor, places: Tensor) -> Tensor:
        ctx.places = places
        return values.index_select(0, order)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return gradients[0].index_select(0, ctx.places), None, None


class _Read(torch.autograd.Function):
    """The layer for torch's automatic differentiation."""

    @staticmethod
    def forward(ctx: Any, readout: Readout, propagated: Tensor, *own: Tensor) -> Tensor:
        ctx.readout, ctx.ways = readout, 1 + len(own)
        return readout.forward(propagated, *own)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return None, *ctx.readout.backward(gradients[0])[: ctx.ways]
