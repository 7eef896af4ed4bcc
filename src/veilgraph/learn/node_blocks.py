"""A function of weights, computed for one block of nodes after another, with the gradient of the whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

BlockFunction = Callable[[Tensor, slice], tuple[Tensor, ...]]
"""From weights and some nodes to arrays whose last dimension are these nodes."""


def in_node_blocks(function: BlockFunction, weights: Tensor, nodes: int, block: int) -> tuple[Tensor, ...]:
    """`function` for all nodes, without what it makes on the way for more than one block of them.

    The backward pass makes it once more, block by block (Chen et al. 2016). A single block is computed directly.

    Args:
        function: the last of its results is differentiable, the others are not.
        weights: what to differentiate by.
        nodes: how many.
        block: how many at a time.

    >>> weights = torch.tensor([2.0], requires_grad=True)
    >>> inputs = torch.tensor([1.0, 10.0, 100.0])
    >>> (products,) = in_node_blocks(lambda weights, part: (weights * inputs[part],), weights, nodes=3, block=2)
    >>> products.sum().backward()
    >>> products.tolist(), weights.grad.tolist()
    ([2.0, 20.0, 200.0], [111.0])
    """
    if block >= nodes:
        return function(weights, slice(0, nodes))
    blocks = [slice(start, min(start + block, nodes)) for start in range(0, nodes, block)]
    results: tuple[Tensor, ...] = _InBlocks.apply(weights, function, blocks)  # type: ignore[no-untyped-call]
    return results


class _InBlocks(torch.autograd.Function):
    """torch.utils.checkpoint would do, but loads torch's compiler, which takes longer than most fits."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, function: BlockFunction, blocks: list[slice]) -> tuple[Tensor, ...]:
        ctx.weights, ctx.function, ctx.blocks = weights, function, blocks
        results: tuple[Tensor, ...] = ()
        for block in blocks:
            parts = function(weights, block)
            results = results or tuple(part.new_empty(*part.shape[:-1], blocks[-1].stop) for part in parts)
            for result, part in zip(results, parts, strict=True):
                result[..., block] = part
        ctx.mark_non_differentiable(*results[:-1])
        return results

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, None, None]:
        weights = ctx.weights.detach().requires_grad_()
        for block in ctx.blocks:
            with torch.enable_grad():
                part = ctx.function(weights, block)[-1]
            part.backward(gradients[-1][..., block])
        return weights.grad, None, None
