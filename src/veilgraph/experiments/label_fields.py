"""Plausible labels of a public graph, for simulations of a collection that has not taken place."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.sparse import csr_array, diags_array
from scipy.special import ive

from veilgraph.errors import RunError
from veilgraph.graph import Graph

DIFFUSION_TIMES = (1.0, 4.0, 16.0, 64.0, 256.0)
"""Times of diffusion: from fields that vary between neighbours to fields that vary between regions."""

VOTES = (0, 3, 10, 30)
"""Numbers of rounds in which nodes take the most frequent class of their neighbours: borders follow communities."""

_RAREST = 0.2
_SWEEPS = 2
_SHARE_DRAWS = 100
_MORE_ATTEMPTS = 9
_MAX_SHARE_ERROR = 0.25
_CHEBYSHEV_ERROR = 1e-8


@dataclass(frozen=True)
class _Kind:
    """How a field is made: its time of diffusion and the rounds of votes."""

    time: float
    votes: int


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelFields:
    r"""A prior distribution over the labels of a public graph.

    Each class has white noise that diffuses over the graph for a time t, and a node has the class whose noise is
    strongest there. This is the class of the largest of several Gaussian processes with the heat kernel

    .. math:: e^{-t (I - P)}, \qquad P = D^{-1} A

    Offsets of the classes give them the wanted shares. Rounds of votes let borders follow the graph's communities.
    Then some people take a class at random, people with few neighbours more often, until the labels have the wanted
    assortativity

    .. math:: r = \frac{h - c}{1 - c}

    with h the share of edges that join two people of one class, and c the probability that two random people have
    the same class. No label of a person is read.

    Args:
        graph: the public graph.
        num_classes: number of classes, below the number of nodes.
        seed: seed of the trial fields that find out which assortativity the graph allows.

    >>> ring = Graph.from_edges([range(200), [*range(1, 200), 0]], num_nodes=200)
    >>> fields, rng = LabelFields(graph=ring, num_classes=2), np.random.default_rng(0)
    >>> labels = fields.draw(rng, wanted=0.6)
    >>> 0.4 < assortativity(ring, labels) < 0.8
    True
    """

    graph: Graph
    num_classes: int
    seed: int = 0
    _reached: dict[_Kind, float] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not 2 <= self.num_classes < self.graph.num_nodes:
            raise RunError(
                f"there are {self.num_classes} classes and {self.graph.num_nodes} nodes: simulations need 2 classes or "
                "more, and more nodes than classes"
            )
        rng = np.random.default_rng(self.seed)
        reached = {}
        for time in DIFFUSION_TIMES:
            shares = self.draw_shares(rng)
            noise = divide(self._diffused_noise(time, rng), shares)
            for votes in VOTES:
                labels = self._vote(noise, votes, rng)
                if votes == 0 or self._has_shares(labels, shares):
                    reached[_Kind(time, votes)] = assortativity(self.graph, labels)
        object.__setattr__(self, "_reached", reached)

    @property
    def largest_assortativity(self) -> float:
        """Largest assortativity of the trial fields: about the largest that classes on this graph can have."""
        return max(0.0, *self._reached.values())

    def draw_shares(self, rng: np.random.Generator, *, homophily: float = 1.0) -> NDArray[np.float64]:
        """Draw shares of the classes, [classes]: all are equally likely, but none is below a fifth of an equal one.

        Args:
            rng: source of randomness.
            homophily: if it is known; shares for which chance alone gives more are drawn again, up to 100 times.
        """
        for _ in range(_SHARE_DRAWS):
            shares = rng.dirichlet(np.ones(self.num_classes)).clip(_RAREST / self.num_classes)
            shares /= shares.sum()
            if chance_homophily(shares) < homophily:
                break
        return np.asarray(shares)

    def draw(
        self,
        rng: np.random.Generator,
        *,
        wanted: float = 0.0,
        homophily: float | None = None,
        shares: NDArray[np.float64] | None = None,
    ) -> NDArray[np.int64]:
        """Draw labels [nodes] with about the wanted assortativity, or the largest below it that the graph allows.

        Args:
            rng: source of randomness.
            wanted: wanted assortativity.
            homophily: wanted share of edges within a class, instead of the assortativity.
            shares: shares of the classes, [classes]; default: `draw_shares`.
        """
        known = 1.0 if homophily is None else homophily
        shares = self.draw_shares(rng, homophily=known) if shares is None else shares
        if homophily is not None:
            wanted = above_chance(homophily, chance_homophily(shares))
        wanted = min(max(wanted, 0.0), self.largest_assortativity)
        kinds = [kind for kind, reached in self._reached.items() if reached >= wanted] or list(self._reached)
        labels, reached = self._field(kinds[rng.integers(len(kinds))], shares, known, rng)
        for _ in range(_MORE_ATTEMPTS):
            if reached >= wanted:
                break
            again = self._field(kinds[rng.integers(len(kinds))], shares, known, rng)
            labels, reached = max((labels, reached), again, key=lambda found: found[1])
        if homophily is not None:  # votes may have changed the shares
            wanted = above_chance(homophily, chance_homophily(np.bincount(labels) / len(labels)))
        kept = min(max(wanted / max(reached, 1e-9), 0.0), 1.0)
        follow = self._following(kept, exponent=rng.random())
        mixed = np.where(rng.random(len(labels)) < follow, labels, rng.permutation(labels))
        return mixed if (mixed != mixed[0]).any() else labels

    @cached_property
    def _adjacency(self) -> csr_array[Any, tuple[int, int]]:
        starts, neighbours = self.graph.adjacency
        nodes = self.graph.num_nodes
        return csr_array((np.ones(len(neighbours)), neighbours, starts), shape=(nodes, nodes))

    @cached_property
    def _walk(self) -> csr_array[Any, tuple[int, int]]:
        return csr_array(diags_array(1 / self.graph.degrees.clip(1)) @ self._adjacency)

    def _field(
        self, kind: _Kind, shares: NDArray[np.float64], homophily: float, rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], float]:
        """Draw the labels of a field [nodes], and return them with their assortativity.

        Votes that change the shares too much are left out, and votes for which chance alone gives the homophily.
        """
        labels = divide(self._diffused_noise(kind.time, rng), shares)
        after = self._vote(labels, kind.votes, rng)
        if self._has_shares(after, shares) and chance_homophily(np.bincount(after) / len(after)) < homophily:
            labels = after
        return labels, assortativity(self.graph, labels)

    def _vote(self, labels: NDArray[np.int64], rounds: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the labels [nodes] after rounds of votes; a node's own class counts half a neighbour."""
        classes = np.eye(self.num_classes)
        for _ in range(rounds):
            ties = 1e-3 * rng.random((self.graph.num_nodes, self.num_classes))
            labels = np.asarray((self._adjacency @ classes[labels] + 0.5 * classes[labels] + ties).argmax(axis=1))
        return labels

    def diffuse(self, values: NDArray[np.float64], time: float) -> NDArray[np.float64]:
        r"""Return the values [nodes, columns] after some time of diffusion, :math:`e^{-t (I - P)}` times them.

        The heat kernel is a Chebyshev series, :math:`e^{-t} [I_0(t) + 2 \sum_j I_j(t) T_j(P)]`, with modified Bessel
        functions I. About :math:`\sqrt{2 t \ln(1 / error)}` terms are enough.
        """
        previous, current = values, self._walk @ values
        total = ive(0, time) * previous
        for order in range(1, math.ceil(math.sqrt(-2 * time * math.log(_CHEBYSHEV_ERROR))) + 5):
            total += 2 * ive(order, time) * current
            previous, current = current, 2 * (self._walk @ current) - previous
        return np.asarray(total)

    def _diffused_noise(self, time: float, rng: np.random.Generator) -> NDArray[np.float64]:
        """Return standardized diffused noise, [nodes, classes].

        A trace of the noise stays: on a small graph everything else evens out in a long time.
        """
        white = rng.standard_normal((self.graph.num_nodes, self.num_classes))
        noise = self.diffuse(white, time) + 1e-9 * white
        noise -= noise.mean(axis=0)
        return np.asarray(noise / noise.std(axis=0).clip(1e-12))

    def _has_shares(self, labels: NDArray[np.int64], shares: NDArray[np.float64]) -> bool:
        """Return whether the votes left about the wanted shares, and at least half of each class."""
        found = np.bincount(labels, minlength=self.num_classes) / len(labels)
        return bool((found >= shares / 2).all() and np.abs(found - shares).sum() / 2 < _MAX_SHARE_ERROR)

    def _following(self, kept: float, *, exponent: float) -> NDArray[np.float64]:
        r"""Return the probability of each node to keep its class, :math:`1 - a d_v^{-\text{exponent}}` within 0..1.

        Two ends of an edge both keep their classes with probability `kept`, on average over edges.
        """
        weights = self.graph.degrees.clip(1).astype(np.float64) ** -exponent

        def follow(scale: float) -> NDArray[np.float64]:
            return np.asarray((1 - scale * weights).clip(0, 1))

        def excess(scale: float) -> float:
            probabilities = follow(scale)
            first, second = self.graph.edges
            return float((probabilities[first] * probabilities[second]).mean()) - kept

        # At twice the scale that stops the last node, rounding leaves no probability above zero.
        return follow(brentq(excess, 0.0, 2 / weights.min(), xtol=1e-6))


def divide(strengths: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the strongest class of each node [nodes], with offsets that give the classes their shares.

    Each class in turn is offset such that it has its share, in two sweeps: the shares are reached approximately.

    Args:
        strengths: of each class at each node, [nodes, classes].
        shares: wanted share of each class, [classes].

    >>> np.bincount(divide(np.random.default_rng(0).standard_normal((1000, 2)), np.array([0.8, 0.2]))).tolist()
    [800, 200]
    """
    nodes = len(strengths)
    counts = (shares * nodes).round().astype(np.int64).clip(1, nodes - 1)
    strengths = np.array(strengths)  # of every class, with its offset
    for each in list(range(len(shares))) * _SWEEPS:
        own = strengths[:, each].copy()
        strengths[:, each] = -np.inf
        lead = own - strengths.max(axis=1)
        strengths[:, each] = own - np.partition(lead, nodes - counts[each])[nodes - counts[each]] + 1e-12
    return np.asarray(strengths.argmax(axis=1))


def assortativity(graph: Graph, labels: NDArray[np.int64]) -> float:
    """Return r = (h - c) / (1 - c): 0 if edges join people at random, 1 if they join people of one class only.

    >>> assortativity(Graph.from_edges([[0, 2], [1, 3]], num_nodes=4), np.array([0, 0, 1, 1]))
    1.0
    """
    first, second = graph.edges
    chance = chance_homophily(np.bincount(labels) / len(labels))
    return above_chance(float((labels[first] == labels[second]).mean()), chance)


def above_chance(homophily: float, chance: float) -> float:
    """Return the assortativity r = (h - c) / (1 - c) of a homophily h, where chance alone gives c.

    >>> above_chance(0.75, 0.5)
    0.5
    """
    return (homophily - chance) / (1 - chance)


def chance_homophily(shares: NDArray[np.float64]) -> float:
    """Return c, the probability that two random people have the same class, from the shares of the classes."""
    return float(np.square(shares).sum())
