"""The second layer of many replicas, at the nodes where it is asked for."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from veilgraph.learn.asked import Asked
from veilgraph.reconstruct.by_hand import applied
from veilgraph.reconstruct.propagation import SparseProduct, repeated_product, rows_of


class Readout:
    r"""Logits :math:`(P Z_1 + Z_2)^T` of some nodes, from what `HiddenLayer` gives of all.

    Args:
        product: P, of which only the rows that are asked for take part.
        asked: for which nodes.
    """

    def __init__(self, product: SparseProduct, asked: Asked) -> None:
        self._product, self.asked = product, asked
        self._rows = product.matrix if asked.nodes is None else rows_of(product.matrix, asked.nodes)

    def __call__(self, propagated: Tensor, *own: Tensor) -> Tensor:
        """[replicas * classes, nodes].

        Args:
            propagated: Z_1, [nodes, replicas * classes].
            own: Z_2, where the convolution has one.
        """
        logits: Tensor = applied(_Read, self, propagated, *own)
        return logits

    def forward(self, propagated: Tensor, *own: Tensor) -> Tensor:
        """The logits."""
        found = repeated_product(self._rows, propagated, 1, peers=self._product.peers)
        for each in own:
            found += each if self.asked.nodes is None else each[self.asked.nodes]
        return found.T.contiguous()

    def backward(self, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """Of Z_1, and of Z_2: the gradient itself, zero where nothing was asked for."""
        spread = gradient.T.contiguous()
        if self.asked.nodes is not None:
            nodes, columns = self._product.matrix.shape[0], spread.shape[1]
            spread = spread.new_zeros(nodes, columns).index_copy_(0, self.asked.nodes, spread)
        return repeated_product(self._product.transposed, spread, 1, peers=self._product.peers), spread


def across(rows: Tensor) -> Tensor:
    """A row for each node instead of a column, or the other way round; its gradient is laid out as it is."""
    columns: Tensor = applied(_Across, rows)
    return columns


class _Across(torch.autograd.Function):
    """torch would leave the gradient lying across, and be slow with it from there on."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        return rows.T.contiguous()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0].T.contiguous()


class _Read(torch.autograd.Function):
    """The layer for torch's automatic differentiation."""

    @staticmethod
    def forward(ctx: Any, readout: Readout, propagated: Tensor, *own: Tensor) -> Tensor:
        ctx.readout, ctx.ways = readout, 1 + len(own)
        return readout.forward(propagated, *own)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return None, *ctx.readout.backward(gradients[0])[: ctx.ways]
