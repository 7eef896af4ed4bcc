"""What the server of a simulation learns about edges: all of them, none, answers in waves, or randomized lists."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from veilgraph.datasets import PrivateGraph
from veilgraph.experiments.neighbour_design import CLASS, HISTOGRAM, LIST, NeighbourDesign
from veilgraph.experiments.private_neighbours import ask_neighbours, without_edges
from veilgraph.experiments.randomized_lists import draw_mutual_pairs
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.privacy.accounting import Guarantee, guarantee_of
from veilgraph.privacy.mechanisms import RandomizedNeighbourList
from veilgraph.privacy.mechanisms.randomized_neighbour_list import MOST_PEOPLE

PUBLIC, ALONE = "public", "alone"

_LISTS = 5
"""Stream of the draws of randomized lists."""


@dataclass(frozen=True)
class EdgeKnowledge:
    """A public graph: the server knows all edges.

    Attributes:
        name: name in grids and results.
        title: words for a cell; nothing for the paper's setting.
        spends: whether people spend an epsilon on it.
        takes_sets: whether a campaign asks for labels as sets beside it.
        asks_features: whether features are asked unless a grid says otherwise.
        draws_alone: whether drawing reports is most of the work of a fit, so that fits are not drawn together.
    """

    name: str

    spends: ClassVar[bool] = False
    takes_sets: ClassVar[bool] = True
    asks_features: ClassVar[bool] = True
    draws_alone: ClassVar[bool] = False

    @property
    def title(self) -> str:
        """Words for a cell."""
        return ""

    def known(
        self, private: PrivateGraph, reports: PerturbedGraph, split: Split, epsilon: float, seed: int
    ) -> PerturbedGraph:
        """Return reports with as much about edges as the server learns; `epsilon` is the budget of a list."""
        return reports

    def guarantee(self, reports: PerturbedGraph, epsilon: float) -> Guarantee:
        """Return the guarantee of a person's reports."""
        return reports.guarantee


class _NoEdges(EdgeKnowledge):
    """Nothing is known about neighbours."""

    takes_sets = False
    asks_features = False

    @property
    def title(self) -> str:
        return f"neighbours {self.name}"

    def known(
        self, private: PrivateGraph, reports: PerturbedGraph, split: Split, epsilon: float, seed: int
    ) -> PerturbedGraph:
        return without_edges(reports)


class _Waves(_NoEdges):
    """Answers about neighbour lists that devices give in waves, each from a table."""

    spends = True
    draws_alone = True

    def known(
        self, private: PrivateGraph, reports: PerturbedGraph, split: Split, epsilon: float, seed: int
    ) -> PerturbedGraph:
        design = NeighbourDesign.usual(self.name, reports.label_mechanism.epsilon, epsilon)
        waves = design.waves(private.schema.num_classes, private.graph.num_nodes)
        return ask_neighbours(private, reports, split, waves, seed=seed, in_turn=design.in_turn)


class _Lists(_NoEdges):
    """Randomized neighbour lists: the server learns on the graph of pairs who name each other.

    So the graph of a fit was made of reports as well.
    """

    spends = True
    takes_sets = True
    asks_features = True

    def known(
        self, private: PrivateGraph, reports: PerturbedGraph, split: Split, epsilon: float, seed: int
    ) -> PerturbedGraph:
        pairs = draw_mutual_pairs(private.graph, epsilon, np.random.default_rng([seed, _LISTS]))
        return replace(reports, graph=pairs)

    def guarantee(self, reports: PerturbedGraph, epsilon: float) -> Guarantee:
        people = min(reports.graph.num_nodes, MOST_PEOPLE)  # the loss of one bit, whatever their number is
        answer = RandomizedNeighbourList(people, epsilon)
        return guarantee_of(reports.feature_mechanism, reports.label_mechanism, [answer])


KNOWLEDGE: dict[str, EdgeKnowledge] = {
    each.name: each for each in (EdgeKnowledge(PUBLIC), _NoEdges(ALONE), _Waves(HISTOGRAM), _Waves(CLASS), _Lists(LIST))
}
"""What a cell may say that the server learns about edges, by name."""
IN_WAVES = tuple(name for name, knowledge in KNOWLEDGE.items() if knowledge.draws_alone)
"""Answers about neighbour lists that devices give in waves."""
