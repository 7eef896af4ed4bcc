"""At which nodes logits are asked for: the loss of training nodes has no use for those of others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True, kw_only=True, eq=False)
class Asked:
    """The nodes whose logits a loss or a score will see, of replicas that are trained together.

    Attributes:
        sets: for each input of replicas, in increasing order; None for all nodes.
        sharing: how many replicas share an input.

    >>> asked = Asked.of([np.array([True, False, True]), np.array([False, False, True])], sharing=1)
    >>> asked.pick(torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    tensor([[1., 3.],
            [6., 0.]])
    """

    sets: tuple[Tensor, ...] | None
    sharing: int = 1

    @classmethod
    def of(cls, wanted: Sequence[NDArray[np.bool_]], *, sharing: int) -> Asked:
        """Those that any replica of an input wants."""
        inputs = range(0, len(wanted), sharing)
        masks = (np.logical_or.reduce(wanted[start : start + sharing]) for start in inputs)
        return cls(sets=tuple(torch.from_numpy(np.flatnonzero(mask)) for mask in masks), sharing=sharing)

    def size(self, nodes: int) -> int:
        """Of the largest set, in a graph of so many nodes."""
        return nodes if self.sets is None else max(map(len, self.sets))

    def pick(self, values: Tensor) -> Tensor:
        """Of values [replicas, ..., nodes] those that are asked for; zeros fill up a smaller set."""
        if self.sets is None:
            return values
        picked = values.new_zeros(*values.shape[:-1], self.size(values.shape[-1]))
        for number, nodes in enumerate(self.sets):
            replicas = slice(number * self.sharing, (number + 1) * self.sharing)
            picked[replicas, ..., : len(nodes)] = values[replicas][..., nodes]
        return picked

    def places(self, replica: int, nodes: Tensor) -> Tensor:
        """Where a replica's values of some nodes are among those that were picked."""
        return nodes if self.sets is None else torch.searchsorted(self.sets[replica // self.sharing], nodes)


EVERYWHERE = Asked(sets=None)
