"""The embedded default data set: a made-up country of voters who know each other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from veilgraph.datasets.private_graph import PrivateGraph
from veilgraph.graph import Graph
from veilgraph.privacy.schema import Column, FeatureSchema

PARTIES = ("Alder", "Birch", "Cedar", "Elm", "Fir", "Hazel", "Larch", "Maple", "Oak", "Rowan")
"""Made-up names of the classes, the largest party first."""
ANSWERS = ("agree", "neutral", "disagree")
"""Values of every feature."""

_NUM_PEOPLE, _NUM_PLACES, _NUM_STATEMENTS = 2_000, 40, 12
_MEAN_DEGREE = 8
_SAME_PLACE, _LOYALTY, _CONVICTION = 0.9, 0.9, 0.3
_SEED = 0


def voters() -> PrivateGraph:
    """Return 2,000 made-up people, whom they know, the party that they vote for, and 12 opinions.

    Everything is drawn from a fixed seed; there is no real person in it. Acquaintances vote alike because they live
    in the same place, not because of the party itself:

        place      one of 40, with shares from a Dirichlet distribution (concentration 2), 50 people on average
        party      shares s_c proportional to 1 / c, c = 1..10. Every place has a leading party, in these shares.
                   With probability 0.9 a person votes for the leading party of the place, otherwise by s.
        edges      8,000 pairs, both ends drawn by weights of a Pareto law (exponent 2.5, at most sqrt(n)). The second
                   end is from the same place with probability 0.9
        opinions   as in `csbm`: with probability 0.3 the answer that the party prefers, otherwise any of three

    Parameters were chosen once, from the ten public graphs that this project uses: their median mean degree is 8.6,
    their mean homophily 0.75. As in LastFM there are many classes of unequal size, half of the people have
    few acquaintances, and a few have nearly a hundred. Like the paper's German and Student graphs it is small. It shows
    how methods compare on such a graph; it predicts nothing about an election.

    >>> private = voters()
    >>> private
    PrivateGraph('voters', Graph(2000 nodes, 8000 edges, 9 isolated), 12 features, <private>)
    >>> f"mean degree {private.graph.degrees.mean():.1f}, at most {private.graph.degrees.max()}"
    'mean degree 8.0, at most 95'
    >>> f"homophily {private.homophily:.2f}"
    'homophily 0.76'
    """
    place_stream, party_stream, edge_stream, opinion_stream = np.random.default_rng(_SEED).spawn(4)
    place = _draw_places(place_stream)
    party = _draw_parties(place, party_stream)
    return PrivateGraph(
        name="voters",
        graph=Graph.from_edges(_draw_edges(place, edge_stream), _NUM_PEOPLE),
        schema=(schema := _schema()),
        features=_draw_opinions(party, opinion_stream).astype(schema.code_dtype),
        labels=party,
    )


def _schema() -> FeatureSchema:
    return FeatureSchema(
        columns=tuple(Column(name=f"statement {i + 1}", values=ANSWERS) for i in range(_NUM_STATEMENTS)),
        classes=PARTIES,
        note="Synthetic: nobody of this country exists.",
    )


def _draw_places(rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the place of each person, in ascending order, [people]."""
    shares = rng.dirichlet(np.full(_NUM_PLACES, 2.0))
    return np.sort(rng.choice(_NUM_PLACES, size=_NUM_PEOPLE, p=shares))


def _draw_parties(place: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the party of each person, [people]."""
    shares = 1 / np.arange(1, len(PARTIES) + 1)
    shares /= shares.sum()
    # Middles of equal parts of 0..1, read off the cumulated shares: every party leads in its share of places.
    middles = (np.arange(_NUM_PLACES) + 0.5) / _NUM_PLACES
    leading = rng.permutation(np.searchsorted(np.cumsum(shares), middles))
    anything = rng.choice(len(PARTIES), size=len(place), p=shares)
    return np.where(rng.random(len(place)) < _LOYALTY, leading[place], anything)


def _draw_edges(place: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the first 8,000 different pairs of a sequence of draws, [2, edges]."""
    people = len(place)
    weights = np.minimum((1 - rng.random(people)) ** (-1 / 1.5), np.sqrt(people))
    ends = np.cumsum(weights)
    starts = np.concatenate([[0.0], ends])[np.searchsorted(place, place)]
    stops = ends[np.searchsorted(place, place, side="right") - 1]
    draws = 4 * people * _MEAN_DEGREE // 2
    first = np.searchsorted(ends, rng.random(draws) * ends[-1])
    near = rng.random(draws) < _SAME_PLACE
    low, high = np.where(near, starts[first], 0.0), np.where(near, stops[first], ends[-1])
    second = np.searchsorted(ends, low + rng.random(draws) * (high - low))
    pairs = np.stack([np.minimum(first, second), np.maximum(first, second)])[:, first != second]
    _, places = np.unique(pairs, axis=1, return_index=True)
    return pairs[:, np.sort(places)[: people * _MEAN_DEGREE // 2]]


def _draw_opinions(party: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return a code of `ANSWERS` for each person and statement, [people, statements]."""
    preferred = rng.integers(len(ANSWERS), size=(len(PARTIES), _NUM_STATEMENTS))
    anything = rng.integers(len(ANSWERS), size=(len(party), _NUM_STATEMENTS))
    return np.where(rng.random(anything.shape) < _CONVICTION, preferred[party], anything)
