"""Plan a collection with private neighbours from public information: simulate designs on graphs like it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from veilgraph.datasets import PrivateGraph, csbm
from veilgraph.errors import BudgetError
from veilgraph.evaluation import accuracy
from veilgraph.experiments.grid import CLASS, HISTOGRAM
from veilgraph.experiments.neighbour_design import ANSWERS, NeighbourDesign
from veilgraph.experiments.private_neighbours import simulate_neighbour_waves
from veilgraph.graph import Split
from veilgraph.privacy.epsilon import check_epsilon

HOMOPHILIES = (0.6, 0.85)
"""Shares of relationships within a class that a plan allows for."""

_LABEL_SHARES = (0.25, 0.5, 0.75)
_MOST_PEOPLE = 1200
_SPLITS: dict[str, tuple[tuple[float, ...], ...]] = {HISTOGRAM: ((1.0,), (0.25, 0.75), (0.5, 0.5)), CLASS: ((1.0,),)}
_TURNS: dict[str, tuple[int, ...]] = {HISTOGRAM: (1,), CLASS: (1, 2, 4)}

Simulate = Callable[[NeighbourDesign, PrivateGraph, int], float]


@dataclass(frozen=True, kw_only=True)
class PlannedDesign:
    """A design with its accuracies in simulations.

    Attributes:
        design: the design.
        accuracies: accuracy on silent people in each scenario.
    """

    design: NeighbourDesign
    accuracies: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean over the scenarios."""
        return float(np.mean(self.accuracies))


def candidate_designs(answer: str, total_epsilon: float) -> list[NeighbourDesign]:
    """Return designs whose epsilons of label and list add up to a total.

    >>> [each.title for each in candidate_designs("class", 4.0)][:2]
    ['class in 1 wave: 3', 'class in 2 waves, one for each person: 3']
    """
    total = check_epsilon(total_epsilon, "total_epsilon")
    if answer not in ANSWERS:
        raise BudgetError(f"there is no answer '{answer}' about neighbours: choose {' or '.join(ANSWERS)}")
    return [
        NeighbourDesign(
            answer=answer,
            epsilon_y=total * share,
            edge_epsilons=tuple(total * (1 - share) * part for part in parts) * turns,
            in_turn=turns > 1,
        )
        for share, parts, turns in itertools.product(_LABEL_SHARES, _SPLITS[answer], _TURNS[answer])
    ]


def simulated_accuracy(design: NeighbourDesign, private: PrivateGraph, seed: int) -> float:
    """Return the accuracy of a design on silent people of a drawn graph."""
    classes = private.schema.num_classes
    split = Split.random(private.graph.num_nodes, seed=seed)
    waves = design.waves(classes)
    _, method = simulate_neighbour_waves(
        private, split, design.label(classes), waves, seed=seed, in_turn=design.in_turn
    )
    return accuracy(method.predict(), private, split.test)


def plan_neighbours(
    *,
    people: int,
    mean_degree: float,
    num_classes: int,
    total_epsilon: float,
    answer: str,
    homophilies: Sequence[float] = HOMOPHILIES,
    seed: int = 0,
    simulate: Simulate = simulated_accuracy,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> list[PlannedDesign]:
    """Return designs for a total, the best first. Nothing but public information enters.

    Graphs of at most 1,200 people are drawn with the degree and the number of classes, for each homophily. All designs
    see the same graphs and splits.

    Args:
        people: number of people.
        mean_degree: how many neighbours a person lists, roughly.
        num_classes: number of classes.
        total_epsilon: epsilon of label and list together, for any two labels and the relation of the answer.
        answer: "histogram" (one entry of a list) or "class" (any two lists).
        homophilies: shares of relationships within a class to allow for.
        seed: seed of the graphs and the simulations.
        simulate: simulates a design on a drawn graph.
        progress: called with what is done, how much and of how much.
    """
    designs = candidate_designs(answer, total_epsilon)
    drawn = [
        csbm(
            min(people, _MOST_PEOPLE),
            num_classes=num_classes,
            mean_degree=mean_degree,
            homophily=homophily,
            num_features=0,
            seed=seed,
        )
        for homophily in homophilies
    ]
    planned = []
    for number, design in enumerate(designs):
        planned.append(PlannedDesign(design=design, accuracies=tuple(simulate(design, each, seed) for each in drawn)))
        progress("designs", number + 1, len(designs))
    return sorted(planned, key=lambda each: -each.mean)
