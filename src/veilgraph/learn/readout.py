"""The second layer of many replicas, at the nodes where it is asked for."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from veilgraph.learn.asked import Asked
from veilgraph.learn.transposition import transposed
from veilgraph.reconstruct.propagation import SparseProduct, product_of_each, repeated_product, rows_of


class Readout:
    r"""Logits :math:`P Z_1 + Z_2`, from what `HiddenLayer` gives of all nodes.

    Args:
        product: P, of which only the rows that are asked for take part.
        asked: for which nodes.
    """

    def __init__(self, product: SparseProduct, asked: Asked) -> None:
        self._product, self._sets = product, asked.sets
        self._rows = [rows_of(product.matrix, nodes) for nodes in asked.sets or ()]
        self._size = asked.size(product.matrix.shape[0])

    def __call__(self, propagated: Tensor, *own: Tensor) -> Tensor:
        """[inputs, replicas of an input * classes, nodes], zero where an input is asked for fewer than others.

        Args:
            propagated: Z_1, [inputs, nodes, replicas of an input * classes].
            own: Z_2, where there is one.
        """
        logits: Tensor = _Read.apply(self, propagated, *own)  # type: ignore[no-untyped-call]
        return logits

    def forward(self, propagated: Tensor, *own: Tensor) -> Tensor:
        """The logits."""
        inputs, _, columns = propagated.shape
        if self._sets is None:
            everywhere = product_of_each(self._product.matrix, propagated, self._product.peers)
            return transposed(sum(own, everywhere))
        logits = propagated.new_zeros(inputs, columns, self._size)
        for number, (rows, nodes) in enumerate(zip(self._rows, self._sets, strict=True)):
            found = sum((each[number, nodes] for each in own), repeated_product(rows, propagated[number], 1))
            logits[number, :, : len(nodes)].copy_(found.T)
        return logits

    def backward(self, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """Of Z_1, and of Z_2: the gradient itself where there is one, zero elsewhere."""
        if self._sets is None:
            spread = transposed(gradient)
        else:
            spread = gradient.new_zeros(gradient.shape[0], self._product.matrix.shape[0], gradient.shape[1])
            for number, nodes in enumerate(self._sets):
                spread[number].index_copy_(0, nodes, gradient[number, :, : len(nodes)].T.contiguous())
        return product_of_each(self._product.transposed, spread, self._product.peers), spread


class _Read(torch.autograd.Function):
    """The layer for torch's automatic differentiation."""

    @staticmethod
    def forward(ctx: Any, readout: Readout, propagated: Tensor, *own: Tensor) -> Tensor:
        ctx.readout, ctx.ways = readout, 1 + len(own)
        return readout.forward(propagated, *own)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return None, *ctx.readout.backward(gradients[0])[: ctx.ways]
