"""Contextual stochastic block model: synthetic graphs whose edges and features depend on the class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.datasets.private_graph import PrivateGraph
from veilgraph.errors import GraphError
from veilgraph.graph import Graph
from veilgraph.privacy.schema import Column, FeatureSchema
from veilgraph.progress import tracked

_MAX_DOMAIN_SIZE = 2**16
_MAX_NODES = 40_000_000  # up to here 1 + 8 t < 2^53 for every pair number t, so its square root in floats is exact
_CHUNK_EDGES = 2**20
"""Number of edges that are computed at once; it limits memory and does not change the result."""

_NUMBER = (int, float, np.integer, np.floating)


def csbm(
    num_nodes: int = 1000,
    *,
    num_classes: int = 4,
    mean_degree: float = 10.0,
    homophily: float = 0.8,
    num_features: int | Sequence[int] = 32,
    feature_signal: float = 0.5,
    class_shares: Sequence[float] | None = None,
    seed: int = 0,
) -> PrivateGraph:
    """Draw a private graph from a contextual stochastic block model.

    With n nodes, mean degree D, homophily h, feature signal s and gamma_i values of feature i:

        label         y_v ~ class_shares, and every class has at least one node
        edges         E = round(n D / 2), of which K ~ Binomial(E, h) are within a class; each kind is a uniform
                      choice, without repetition, among all pairs of that kind
        features      P(x_vi = j | y_v = c) = s [j = preferred_ic] + (1 - s) / gamma_i,   preferred_ic ~ uniform

    The measured homophily K / E has mean h and standard error sqrt(h (1 - h) / E). A binary feature is 1 with
    probability 1/2 + s/2 or 1/2 - s/2. At s = 0 features are independent of the class; at s = 1 the class
    determines them.

    With classes of unequal size, all pairs within a class are equally likely, so nodes of large classes have more
    neighbours of their own class. A homophily below the sum of squared shares is lower than chance.

    Labels, edges and features are drawn from separate streams of one seed: changing `feature_signal` does not
    change the graph. Time and memory grow with the number of edges and of feature values.

    Args:
        num_nodes: n, at least `num_classes` and at most 40 million.
        num_classes: number of classes, 2 or more.
        mean_degree: D, above 0.
        homophily: h, the probability that an edge is within a class.
        num_features: number of binary features, 0 for a graph with labels alone; or gamma_i, 2 or more, for each.
        feature_signal: s, 0..1.
        class_shares: probability of each class, all above 0, with sum 1. Default: equal.
        seed: seed of all random draws.

    With E = 5000 the standard error of the homophily is sqrt(0.8 · 0.2 / 5000) = 0.006:

    >>> private = csbm(seed=0)
    >>> private
    PrivateGraph('csbm', Graph(1000 nodes, 5000 edges, 0 isolated), 32 features, <private>)
    >>> abs(private.homophily - 0.8) < 5 * 0.006
    True
    >>> csbm(homophily=1.2)
    Traceback (most recent call last):
    veilgraph.errors.GraphError: homophily is 1.2: give a number in 0..1
    """
    check_count("num_classes", num_classes, least=2, most=_MAX_NODES)
    check_count("num_nodes", num_nodes, least=num_classes, most=_MAX_NODES)
    domain_sizes = _checked_sizes(num_features)
    check_count("seed", seed, least=0)
    check_share("homophily", homophily)
    check_share("feature_signal", feature_signal)
    num_edges = checked_num_edges(num_nodes, mean_degree)
    shares = _checked_shares(class_shares, num_classes)

    label_stream, edge_stream, feature_stream = np.random.default_rng(seed).spawn(3)
    labels = _draw_labels(num_nodes, shares, label_stream)
    edges = _draw_edges(Blocks.of(labels, num_classes), num_edges, homophily, edge_stream)
    return PrivateGraph(
        name="csbm",
        graph=Graph.from_edges(edges, num_nodes),
        schema=(schema := csbm_schema(domain_sizes, num_classes)),
        features=draw_features(labels, schema, feature_signal, feature_stream),
        labels=labels,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Blocks:
    """Nodes sorted by class, with a number for every pair of nodes, so that pairs can be drawn by number.

    Attributes:
        order: node numbers sorted by class, [nodes].
        starts: start of each class in `order`, [classes].
        ends: end of each class in `order`, [classes].

    >>> blocks = Blocks.of(np.array([0, 1, 0, 0]), num_classes=2)
    >>> blocks.pairs_within(np.arange(blocks.num_within)).T.tolist()
    [[0, 2], [0, 3], [2, 3]]
    >>> blocks.pairs_between(np.arange(blocks.num_between)).T.tolist()
    [[0, 1], [2, 1], [3, 1]]
    """

    order: NDArray[np.int64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    @classmethod
    def of(cls, labels: NDArray[np.int64], num_classes: int) -> Blocks:
        """Sort the nodes by their classes 0..num_classes-1."""
        sizes = np.bincount(labels, minlength=num_classes)
        ends = np.cumsum(sizes)
        return cls(order=np.argsort(labels, kind="stable"), starts=ends - sizes, ends=ends)

    @property
    def num_within(self) -> int:
        """Number of pairs within a class: the sum of s (s - 1) / 2 over class sizes s."""
        return int(self._within_counts.sum())

    @property
    def num_between(self) -> int:
        """Number of pairs of different classes."""
        return int(self._between_counts.sum())

    @property
    def _within_counts(self) -> NDArray[np.int64]:
        sizes = self.ends - self.starts
        return sizes * (sizes - 1) // 2

    @property
    def _between_counts(self) -> NDArray[np.int64]:
        """Number of pairs of each class with the classes after it."""
        return (self.ends - self.starts) * (len(self.order) - self.ends)

    def pairs_within(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return pairs within a class by their numbers, [2, pairs].

        Pair t of a class is (i, j) with i < j and t = j (j - 1) / 2 + i, so j = floor((1 + sqrt(1 + 8 t)) / 2).
        """
        block, number = _locate(numbers, self._within_counts)
        high: NDArray[np.int64] = ((1 + np.sqrt(1 + 8.0 * number)) / 2).astype(np.int64)
        low = number - high * (high - 1) // 2
        places = np.stack([self.starts[block] + low, self.starts[block] + high])
        return self.order[places]

    def pairs_between(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return pairs of different classes by their numbers, [2, pairs].

        Pair t of a class is (i, j) in row-major order, with i in the class and j in a later class.
        """
        block, number = _locate(numbers, self._between_counts)
        row, column = np.divmod(number, len(self.order) - self.ends[block])
        places = np.stack([self.starts[block] + row, self.ends[block] + column])
        return self.order[places]


def _locate(numbers: NDArray[np.int64], counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the block that contains each running number, and the number within that block."""
    ends = np.cumsum(counts)
    block = np.searchsorted(ends, numbers, side="right")
    return block, numbers - (ends - counts)[block]


def _draw_labels(num_nodes: int, shares: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw independent labels; an empty class gets a random node of a class with at least two nodes."""
    labels = rng.choice(len(shares), size=num_nodes, p=shares)
    sizes = np.bincount(labels, minlength=len(shares))
    for absent in np.flatnonzero(sizes == 0):
        node = rng.choice(np.flatnonzero(sizes[labels] > 1))
        sizes[labels[node]] -= 1
        sizes[absent] = 1
        labels[node] = absent
    return labels


def _draw_edges(blocks: Blocks, num_edges: int, homophily: float, rng: np.random.Generator) -> NDArray[np.int64]:
    within = int(rng.binomial(num_edges, homophily))
    between = num_edges - within
    for kind, drawn, possible in (("within", within, blocks.num_within), ("between", between, blocks.num_between)):
        if drawn > possible:
            raise GraphError(
                f"mean_degree and homophily ask for {drawn} edges {kind} classes where {possible} are possible: "
                "lower mean_degree, change homophily or add nodes"
            )
    edges = np.empty((2, num_edges), dtype=np.int64)
    # One kind after the other: the numbers of all pairs of a kind are large, and are freed before the next draw.
    for kind, part, pairs, possible in (
        ("within", edges[:, :within], blocks.pairs_within, blocks.num_within),
        ("between", edges[:, within:], blocks.pairs_between, blocks.num_between),
    ):
        _fill(part, pairs, _draw_distinct(part.shape[1], possible, rng), f"edges {kind} classes")
    return edges


def _fill(
    edges: NDArray[np.int64],
    pairs: Callable[[NDArray[np.int64]], NDArray[np.int64]],
    numbers: NDArray[np.int64],
    what: str,
) -> None:
    """Convert the numbers of pairs to edges in chunks, because the conversion needs several arrays of that size."""
    for start in tracked(range(0, len(numbers), _CHUNK_EDGES), what):
        chunk = slice(start, start + _CHUNK_EDGES)
        edges[:, chunk] = pairs(numbers[chunk])


def _draw_distinct(count: int, population: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw `count` different numbers of 0..population-1; an empty population has none."""
    return rng.choice(max(population, 1), size=count, replace=False, shuffle=False)


def draw_features(
    labels: NDArray[np.int64], schema: FeatureSchema, signal: float, rng: np.random.Generator
) -> NDArray[Any]:
    """Draw feature codes [nodes, features]: the preferred value of the class with probability `signal`, else any value.

    Args:
        labels: class of each node, [nodes].
        schema: domains of the features.
        signal: s, the dependence of features on the class, 0..1.
        rng: source of randomness.
    """
    sizes = np.array(schema.domain_sizes, dtype=np.int64)
    codes = np.empty((len(labels), len(sizes)), dtype=schema.code_dtype)
    # One number for equal domains: numpy then draws other values than for a list of equal numbers.
    ends = int(sizes[0]) if len(np.unique(sizes)) == 1 else sizes[:, None]
    preferred = rng.integers(ends, size=(len(sizes), schema.num_classes), dtype=codes.dtype)
    for i, size in tracked(list(enumerate(sizes.tolist())), "features"):
        anything = rng.integers(size, size=len(labels), dtype=codes.dtype)
        codes[:, i] = np.where(rng.random(len(labels)) < signal, preferred[i, labels], anything)
    return codes


def csbm_schema(domain_sizes: Sequence[int], num_classes: int) -> FeatureSchema:
    """Return the schema of a contextual stochastic block model."""
    values = {size: tuple(map(str, range(size))) for size in set(domain_sizes)}
    return FeatureSchema(
        columns=tuple(Column(name=f"x{i}", values=values[size]) for i, size in enumerate(domain_sizes)),
        classes=tuple(f"class {c}" for c in range(num_classes)),
        note="Synthetic: a contextual stochastic block model.",
    )


def check_count(name: str, value: object, *, least: int, most: int | None = None) -> None:
    """Refuse a setting that is not a whole number in its range."""
    if not isinstance(value, (int, np.integer)) or value < least or (most is not None and value > most):
        wanted = f"{least} or more" if most is None else f"from {least} to {most}"
        raise GraphError(f"{name} is {value}: give a whole number, {wanted}")


def check_share(name: str, value: object) -> None:
    """Refuse a setting that is not a number in 0..1."""
    if not isinstance(value, _NUMBER) or not 0 <= value <= 1:
        raise GraphError(f"{name} is {value}: give a number in 0..1")


def checked_num_edges(num_nodes: int, mean_degree: float) -> int:
    """Return the number of edges, round(n D / 2); refuse a mean degree that these nodes cannot have."""
    if not isinstance(mean_degree, _NUMBER) or not 0 < mean_degree <= num_nodes - 1:
        raise GraphError(
            f"mean_degree is {mean_degree}: give a number above 0, at most {num_nodes - 1} for these nodes"
        )
    if (num_edges := round(num_nodes * mean_degree / 2)) < 1:
        raise GraphError(f"mean_degree is {mean_degree}: {num_nodes} nodes then have no edge; give at least 1 edge")
    return num_edges


def _checked_sizes(num_features: int | Sequence[int]) -> tuple[int, ...]:
    """Return the number of values of each feature; refuse what is none."""
    if not isinstance(num_features, Sequence):
        check_count("num_features", num_features, least=0)
        return (2,) * num_features
    for size in num_features:
        check_count("num_features", size, least=2, most=_MAX_DOMAIN_SIZE)
    return tuple(num_features)


def _checked_shares(class_shares: Sequence[float] | None, num_classes: int) -> NDArray[np.float64]:
    if class_shares is None:
        return np.full(num_classes, 1 / num_classes)
    try:
        shares = np.array(class_shares, dtype=np.float64)
    except (TypeError, ValueError):
        raise GraphError(f"class_shares is {class_shares}: give {num_classes} numbers") from None
    if shares.shape != (num_classes,):
        raise GraphError(f"class_shares has shape {shares.shape}: give one number for each of {num_classes} classes")
    if not (shares > 0).all() or not np.isclose(shares.sum(), 1):
        raise GraphError(f"class_shares is {shares.tolist()}: give numbers above 0 that sum to 1")
    shares /= shares.sum()
    return shares
