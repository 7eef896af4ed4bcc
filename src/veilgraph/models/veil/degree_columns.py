"""Columns by which the bias of a class may depend on the degree of a node."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.graph import Graph

_NO_SPREAD = 1e-6


def degree_columns(graph: Graph) -> Tensor:
    r"""Return the columns 1, z and a quadratic in z [nodes, 3], with z the standardised rank of a node's degree.

    .. math:: z_v = \frac{r_v - \bar r}{\sigma_r}, \qquad q_v \propto z_v^2 - 1 - z_v \overline{z^3}

    r is the rank among all nodes, the mean of ranks where degrees are equal. Unlike the degree itself, it gives a hub
    or an isolated node no more influence than others have. The quadratic is uncorrelated with z. Both have a mean
    square of 1, and are 0 where all degrees are equal.

    >>> degree_columns(Graph.from_edges([[0, 1, 2], [1, 2, 0]], num_nodes=3))[0]
    tensor([1., 0., 0.])
    """
    _, places, counts = np.unique(graph.degrees, return_inverse=True, return_counts=True)
    return columns_of_ranks(degree_ranks(counts)[places])


def degree_ranks(counts: NDArray[np.int64]) -> Tensor:
    """Return the mean rank of the nodes of each degree, given how many nodes have it.

    >>> degree_ranks(np.array([2, 1])).tolist()
    [1.0, 2.5]
    """
    return torch.from_numpy(counts.cumsum() - counts / 2)


def columns_of_ranks(ranks: Tensor, counts: Tensor | None = None) -> Tensor:
    """Return the columns of `degree_columns`, [ranks, 3].

    Args:
        ranks: Ranks of nodes, or of different degrees.
        counts: How many nodes have each rank; default: one.
    """

    def mean(values: Tensor) -> Tensor:
        return values.mean() if counts is None else (values * counts).sum() / counts.sum()

    def standardised(values: Tensor) -> Tensor:
        scale = float(mean(values.square()).sqrt())
        return values / scale if scale > _NO_SPREAD else torch.zeros_like(values)

    z = standardised(ranks - mean(ranks))
    quadratic = standardised(z.square() - mean(z.square()) - mean(z**3) * z)
    return torch.stack([torch.ones_like(z), z, quadratic], dim=1).float()
