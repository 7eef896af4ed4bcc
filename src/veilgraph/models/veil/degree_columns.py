"""Columns by which the bias of a class may depend on the degree of a node."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.reconstruct.operators import GraphOperators

_NO_SPREAD = 1e-6


def degree_columns(operators: GraphOperators) -> Tensor:
    r"""Return the columns 1, z and a quadratic in z [nodes, 3], with z the standardised rank of a node's degree.

    .. math:: z_v = \frac{r_v - \bar r}{\sigma_r}, \qquad q_v \propto z_v^2 - 1 - z_v \overline{z^3}

    r is the rank among all nodes that have neighbours, the mean of ranks where degrees are equal, and 0 for isolated
    nodes. Unlike the degree itself, it gives a hub no more influence than others have. The quadratic is uncorrelated
    with z. Both have a mean square of 1 over nodes with neighbours, and are 0 where all degrees are equal.

    >>> from veilgraph.graph import Graph
    >>> degree_columns(GraphOperators(Graph.from_edges([[0, 1, 2], [1, 2, 0]], num_nodes=3)))[0]
    tensor([1., 0., 0.])
    """
    degrees, counts = operators.degree_counts
    table = _columns_of_ranks(*(torch.from_numpy(each) for each in _ranks(np.where(degrees > 0, counts, 0))))
    places = np.searchsorted(degrees, operators.graph.degrees)
    return table[torch.from_numpy(places)].to(operators.device)


def _ranks(counts: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the mean rank of the nodes of each degree, given how many nodes have it, and these numbers.

    >>> _ranks(np.array([2, 1]))[0].tolist()
    [1.0, 2.5]
    """
    return counts.cumsum() - counts / 2, counts


def _columns_of_ranks(ranks: Tensor, counts: Tensor) -> Tensor:
    """Return the columns of `degree_columns`, [ranks, 3], given how many nodes have each rank."""

    def mean(values: Tensor) -> Tensor:
        return (values * counts).sum() / counts.sum()

    def standardised(values: Tensor) -> Tensor:
        scale = float(mean(values.square()).sqrt())
        return values / scale if scale > _NO_SPREAD else torch.zeros_like(values)

    z = standardised(ranks - mean(ranks))
    quadratic = standardised(z.square() - mean(z.square()) - mean(z**3) * z)
    return torch.stack([torch.ones_like(z), z, quadratic], dim=1).float()
