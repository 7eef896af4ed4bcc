"""Relations: graphs of their own that weights, directions and kinds of links make of one public graph."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.graph.graph import Graph
from veilgraph.graph.links import Links

MAX_KINDS = 4
"""Kinds of links that are a relation of their own, the most frequent first."""

_PAIRS, _PAIRS_PER_LINK = 2**22, 8
"""Pairs that shared ends may make, in all or of a link on average: hubs, whose pairs say least, are left out beyond."""

_PARTNERS, _LEAST_PARTNERS, _ALL_PARTNERS = 2, 8, 2**20
"""Partners of a person that are kept, the strongest: twice the mean degree, or 8, or 2^20 shared among all people."""

_DIGITS = 9
"""Digits by which strengths are compared, so that the order of a sum decides nothing."""


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightedGraph(Graph):
    """A graph whose edges have weights.

    Attributes:
        weights: `[edges]`, with a mean of 1.
    """

    weights: NDArray[np.float64] = field(repr=False)

    @property
    def edge_weights(self) -> NDArray[np.float64]:
        """Weights of the edges, `[edges]`."""
        return self.weights

    @cached_property
    def strengths(self) -> NDArray[np.float64]:
        """Sum of the weights of each node's edges, `[nodes]`."""
        sums = np.bincount(self.edges.ravel(), weights=np.tile(self.weights, 2), minlength=self.num_nodes)
        return sums.astype(np.float64, copy=False)


@lru_cache(maxsize=4)
def relations(graph: Graph) -> dict[str, Graph]:
    r"""Return the relations of a graph by name; none if all its links are alike. All of them have the graph's nodes.

    - "weights": all edges, with the sums of their links' weights;
    - "kind X": the links of one kind, for the most frequent kinds;
    - "same targets" and "same sources": people who link to the same others, and people to whom the same others link.
      In a graph of citations these are bibliographic coupling (Kessler 1963) and co-citation (Small 1973),

    .. math:: A D_{in}^{-1} A^T, \qquad A^T D_{out}^{-1} A

    Classes that link in one direction only are as much alike in these as friends are in an ordinary graph. On a large
    graph each person keeps the strongest pairs alone, about twice as many as links.

    >>> path = Graph.from_edges([[0, 1, 3], [2, 2, 2]], 4, directed=True)  # three people link to person 2
    >>> {name: relation.edges.tolist() for name, relation in relations(path).items()}
    {'same targets': [[0, 0, 1], [1, 3, 3]]}
    """
    links, found = graph.links, dict[str, Graph]()
    if links is None:
        return found
    if links.has_weights:
        found["weights"] = _relation(graph, links.ends, links.weights)
    if links.has_kinds:
        counts = np.bincount(links.kinds, minlength=len(links.kind_names))
        for kind in np.argsort(-counts, kind="stable")[:MAX_KINDS]:
            inside = links.kinds == kind
            found[f"kind {links.kind_names[kind]}"] = _relation(graph, links.ends[:, inside], links.weights[inside])
    if links.has_directions:
        for name, reverse in (("same targets", False), ("same sources", True)):
            if (coupled := _coupled(graph, links, reverse=reverse)) is not None:
                found[name] = coupled
    return found


def _relation(graph: Graph, ends: NDArray[np.int64], weights: NDArray[np.float64]) -> Graph:
    """Return the graph of some links; weights of links between the same nodes are added up."""
    keys, places = np.unique(ends.min(axis=0) * graph.num_nodes + ends.max(axis=0), return_inverse=True)
    edges = np.stack(np.divmod(keys, graph.num_nodes))
    parts: dict[str, Any] = {"num_nodes": graph.num_nodes, "edges": edges, "node_ids": graph.node_ids}
    if (weights == weights[:1]).all():
        return Graph(**parts)
    sums = np.bincount(places.reshape(-1), weights=weights)
    return WeightedGraph(**parts, weights=sums / sums.mean())


def _coupled(graph: Graph, links: Links, *, reverse: bool) -> Graph | None:
    """Return the graph of the pairs that link to the same nodes, or with `reverse` of those that the same link to."""
    from scipy.sparse import csr_array

    (sources, targets), weights = links.arcs
    if reverse:
        sources, targets = targets, sources
    shape = graph.num_nodes, graph.num_nodes
    matrix = csr_array((weights, (sources, targets)), shape=shape)
    matrix.sum_duplicates()
    degrees = np.bincount(matrix.indices, minlength=graph.num_nodes)
    order = np.argsort(degrees, kind="stable")
    affordable = np.cumsum(degrees[order].astype(np.float64) ** 2) <= max(_PAIRS, _PAIRS_PER_LINK * matrix.nnz)
    kept = order[affordable & (degrees[order] > 1)]
    ends = matrix[:, np.sort(kept)]
    both = (ends @ (ends / ends.sum(axis=0)).T).tocoo()
    chosen = both.row != both.col
    rows, columns, strengths = both.row[chosen], both.col[chosen], both.data[chosen]
    if not len(rows):
        return None
    order = np.lexsort((graph.keys[columns], -strengths.round(_DIGITS), rows))
    ranks = np.arange(len(order)) - np.searchsorted(rows[order], rows[order])
    mean_degree = 2 * graph.num_edges // graph.num_nodes
    order = order[ranks < max(_LEAST_PARTNERS, _PARTNERS * mean_degree, _ALL_PARTNERS // graph.num_nodes)]
    pairs = np.stack([rows[order], columns[order]]).astype(np.int64)
    _, once = np.unique(pairs.min(axis=0) * graph.num_nodes + pairs.max(axis=0), return_index=True)
    return _relation(graph, pairs[:, once], strengths[order[once]])
