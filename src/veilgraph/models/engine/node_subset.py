"""At which nodes logits are asked for: the loss of training nodes has no use for those of others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.reconstruct.operators import GraphOperators


@dataclass(frozen=True, eq=False)
class Asked:
    """The nodes whose logits a loss or a score will see, of replicas that are trained together.

    Attributes:
        nodes: in increasing order; None for all.

    >>> asked = Asked(torch.tensor([0, 2]))
    >>> asked.pick(torch.tensor([1.0, 2.0, 3.0])), asked.places(torch.tensor([2]))
    (tensor([1., 3.]), tensor([1]))
    >>> asked.spread(torch.tensor([[1.0, 3.0]]), nodes=3)
    tensor([[1., 0., 3.]])
    """

    nodes: Tensor | None

    def pick(self, values: Tensor) -> Tensor:
        """Of values [..., nodes] those that are asked for."""
        return values if self.nodes is None else values.index_select(-1, self.nodes)

    def spread(self, picked: Tensor, nodes: int) -> Tensor:
        """Of so many nodes all, [rows, nodes], from those that were picked; zero elsewhere."""
        if self.nodes is None:
            return picked
        return picked.new_zeros(len(picked), nodes).scatter_(1, self.nodes.expand_as(picked), picked)

    def places(self, nodes: Tensor) -> Tensor:
        """Where values of some nodes are among those that were picked."""
        return nodes if self.nodes is None else torch.searchsorted(self.nodes, nodes)

    def count(self, nodes: int) -> int:
        """How many are asked for, of so many."""
        return nodes if self.nodes is None else len(self.nodes)


EVERYWHERE = Asked(None)


def asked_by(wanted: Sequence[NDArray[np.bool_]] | NDArray[np.bool_], operators: GraphOperators) -> Asked:
    """What any of the replicas wants.

    Where the graph is spread over processes, neighbours elsewhere may ask for any; and on a GPU many runs are trained
    at once, which together ask for all.
    """
    if operators.device.type != "cpu" or not operators.communicator.is_local:
        return EVERYWHERE
    return Asked(torch.from_numpy(np.flatnonzero(np.logical_or.reduce(wanted))))
