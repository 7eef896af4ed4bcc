"""Matrices across: products want a row for each node, softmax and dense layers a row for each unit."""

from __future__ import annotations

from torch import Tensor


def copy_transposed(target: Tensor, source: Tensor) -> None:
    """Each matrix of a stack into its place; on a processor one by one, for torch is slow with stacks of them.

    >>> import torch
    >>> target = torch.empty(1, 2, 3)
    >>> copy_transposed(target, torch.arange(6.0).view(1, 3, 2))
    >>> target[0].tolist()
    [[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]]
    """
    if target.device.type != "cpu":
        target.copy_(source.mT)
        return
    for to, matrix in zip(target, source, strict=True):
        to.copy_(matrix.T)


def transposed(stack: Tensor) -> Tensor:
    """Every matrix of a stack, as a new one."""
    result = stack.new_empty(stack.shape[0], stack.shape[2], stack.shape[1])
    copy_transposed(result, stack)
    return result
