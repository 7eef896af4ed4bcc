r"""Polynomial filters of a graph: :math:`\sum_k w_k S^k X`, the propagations of LPGNN, UPGNet and PrivGE alike."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from veilgraph.errors import FitError
from veilgraph.reconstruct.sparse import SparseProduct


def graph_filter(product: SparseProduct, values: Tensor, weights: Sequence[float]) -> Tensor:
    r"""Return :math:`\sum_k w_k S^k X`, [nodes, columns].

    Args:
        product: the product with S.
        values: X, [nodes, columns].
        weights: w_0, w_1, ..., one for each power of S.

    >>> import torch
    >>> from veilgraph.graph import Graph
    >>> from veilgraph.reconstruct.operators import GraphOperators
    >>> path = GraphOperators(Graph.from_edges([[0], [1]], num_nodes=2))  # S swaps the two nodes
    >>> graph_filter(path.symmetric, torch.tensor([[1.0], [0.0]]), [0.5, 0.25, 0.25]).flatten()
    tensor([0.7500, 0.2500])
    """
    propagated, total = values, values * weights[0]
    for weight in weights[1:]:
        propagated = product(propagated, 1)
        if weight:
            total.add_(propagated, alpha=weight)
    return total


def last_power(hops: int) -> list[float]:
    """Return the weights of S^K alone: KProp, the aggregation of LPGNN.

    >>> last_power(2)
    [0.0, 0.0, 1.0]
    """
    return [0.0] * _checked(hops) + [1.0]


def mean_of_powers(hops: int) -> list[float]:
    """Return the weights of the mean of S, S^2, ..., S^K: the high-order aggregator of UPGNet; K = 0 changes nothing.

    >>> mean_of_powers(4)
    [0.0, 0.25, 0.25, 0.25, 0.25]
    """
    return [0.0] + [1 / hops] * hops if _checked(hops) else [1.0]


def truncated_pagerank(hops: int, restart: float) -> list[float]:
    r"""Return the weights of K steps of personalised PageRank, :math:`Z \leftarrow (1 - a) S Z + a X` from Z = X.

    They are a (1 - a)^k for k < K and (1 - a)^K for the last power; a = 0 leaves the last power alone.

    >>> truncated_pagerank(2, 0.5)
    [0.5, 0.25, 0.25]
    """
    if not 0 <= restart <= 1:
        raise FitError(f"restart is {restart}: it is a probability")
    return [restart * (1 - restart) ** power for power in range(_checked(hops))] + [(1 - restart) ** hops]


def _checked(hops: int) -> int:
    if hops < 0:
        raise FitError(f"feature_hops is {hops}: it must be 0 or more")
    return hops
