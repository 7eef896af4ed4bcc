"""Plan a collection with private neighbours from public information: simulate designs on graphs like it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from veilgraph.datasets import PrivateGraph, csbm
from veilgraph.errors import BudgetError
from veilgraph.evaluation import accuracy
from veilgraph.experiments.grid import CLASS, HISTOGRAM
from veilgraph.experiments.neighbour_design import ANSWERS, NeighbourDesign
from veilgraph.experiments.private_neighbours import simulate_neighbour_waves
from veilgraph.experiments.randomized_adjacency import false_neighbours, randomized_adjacency, report_bytes
from veilgraph.experiments.simulation import label_rng, randomize_labels, simulated_collection
from veilgraph.graph import Split
from veilgraph.models import LabelVeil
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.epsilon import check_epsilon
from veilgraph.privacy.mechanisms import GRR

HOMOPHILIES = (0.6, 0.85)
"""Shares of relationships within a class that a plan allows for."""

_LABEL_SHARES = (0.25, 0.5, 0.75)
_MOST_PEOPLE = 1200
_MOST_FALSE = 25
"""Largest number of false neighbours for each true one with which randomized adjacency is tried."""

_CLOSE = 0.05
_ADJACENCY = 6
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


def candidate_designs(
    answer: str, total_epsilon: float, *, epsilon_x: float | None = None, sampled: int | None = None
) -> list[NeighbourDesign]:
    """Return designs whose epsilons of label, list and features, if asked, add up to a total.

    >>> [each.title for each in candidate_designs("class", 4.0)][:2]
    ['class in 1 wave: 3', 'class in 2 waves, one for each person: 3']
    """
    total = check_epsilon(total_epsilon, "total_epsilon")
    if answer not in ANSWERS:
        raise BudgetError(f"there is no answer '{answer}' about neighbours: choose {' or '.join(ANSWERS)}")
    rest = total - (PrivacyBudget(epsilon_x, total, sampled).epsilon_x or 0) * (sampled or 0)
    if rest <= 0:
        raise BudgetError(
            f"{sampled} features at {epsilon_x:g} each cost {total - rest:g}, and the total is {total:g}: ask for fewer"
        )
    return [
        NeighbourDesign(
            answer=answer,
            epsilon_y=rest * share,
            edge_epsilons=tuple(rest * (1 - share) * part for part in parts) * turns,
            in_turn=turns > 1,
            epsilon_x=epsilon_x,
            sampled=sampled,
        )
        for share, parts, turns in itertools.product(_LABEL_SHARES, _SPLITS[answer], _TURNS[answer])
    ]


def simulated_accuracy(design: NeighbourDesign, private: PrivateGraph, seed: int) -> float:
    """Return the accuracy of a design on silent people of a drawn graph, without its features.

    Nothing public says what features tell about a class, so a plan promises nothing of them.
    """
    classes = private.schema.num_classes
    split = Split.random(private.graph.num_nodes, seed=seed)
    waves = design.waves(classes)
    _, method = simulate_neighbour_waves(
        private, split, design.label(classes), waves, seed=seed, in_turn=design.in_turn
    )
    return accuracy(method.predict(), private, split.test)


@dataclass(frozen=True, kw_only=True)
class KnownWay:
    """Randomized adjacency at the same total: the known way to protect one entry of a list.

    Attributes:
        epsilon_y: budget of the label.
        edge_epsilon: budget of one entry.
        accuracies: accuracy of Veil on silent people in each scenario; empty where false neighbours drown the true.
        false_neighbours: false neighbours of a person on average, where a pair counts if both ends report it.
        report_bytes: size of a report, one bit for each person.
    """

    epsilon_y: float
    edge_epsilon: float
    accuracies: tuple[float, ...]
    false_neighbours: float
    report_bytes: int

    @property
    def mean(self) -> float:
        """Mean over the scenarios; 0 where nothing was tried."""
        return float(np.mean(self.accuracies)) if self.accuracies else 0.0

    def lead(self, best: PlannedDesign) -> int:
        """Return 1 if it is better than answers in waves, -1 if it is worse, and 0 if simulations cannot tell.

        They cannot within five points: drawn graphs are more even than those of people.
        """
        difference = self.mean - best.mean
        return 0 if abs(difference) < _CLOSE else 1 if difference > 0 else -1


def plan_known_way(
    *,
    people: int,
    mean_degree: float,
    num_classes: int,
    total_epsilon: float,
    homophilies: Sequence[float] = HOMOPHILIES,
    seed: int = 0,
) -> KnownWay:
    """Return the best division of a total between label and adjacency, in the simulations of `plan_neighbours`.

    The drawn graphs are small. They get as many false neighbours for each person as among all people. With more than 25
    for each true one nothing is tried. The arguments are those of `plan_neighbours`.
    """
    check_epsilon(total_epsilon, "total_epsilon")
    drawn = _drawn(people, mean_degree, num_classes, homophilies, seed)
    found = []
    for share in _LABEL_SHARES:
        epsilon_y, edge_epsilon = total_epsilon * share, total_epsilon * (1 - share)
        false = false_neighbours(people, edge_epsilon)
        useful = false <= _MOST_FALSE * mean_degree
        found.append(
            KnownWay(
                epsilon_y=epsilon_y,
                edge_epsilon=edge_epsilon,
                accuracies=tuple(_known_accuracy(each, epsilon_y, edge_epsilon, people, seed) for each in drawn)
                if useful
                else (),
                false_neighbours=false,
                report_bytes=report_bytes(people),
            )
        )
    return max(found, key=lambda each: (each.mean, each.edge_epsilon))


def _known_accuracy(private: PrivateGraph, epsilon_y: float, edge_epsilon: float, people: int, seed: int) -> float:
    split, label = Split.random(private.graph.num_nodes, seed=seed), GRR(private.schema.num_classes, epsilon_y)
    labels = randomize_labels(private, label, split, rng=label_rng(seed))
    noisy = randomized_adjacency(private.graph, edge_epsilon, np.random.default_rng([seed, _ADJACENCY]), people=people)
    reports = replace(simulated_collection(private, split, label, labels), graph=noisy)
    return accuracy(LabelVeil(seed=seed).fit(reports, split).predict(), private, split.test)


def _drawn(
    people: int, mean_degree: float, num_classes: int, homophilies: Sequence[float], seed: int
) -> list[PrivateGraph]:
    """Draw a graph for each homophily; it has at most 1,200 people."""
    return [
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


def plan_neighbours(
    *,
    people: int,
    mean_degree: float,
    num_classes: int,
    total_epsilon: float,
    answer: str,
    homophilies: Sequence[float] = HOMOPHILIES,
    epsilon_x: float | None = None,
    sampled: int | None = None,
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
        total_epsilon: epsilon of label, list and features together, for any two records and the relation of the answer.
        answer: "histogram" (one entry of a list) or "class" (any two lists).
        homophilies: shares of relationships within a class to allow for.
        epsilon_x: budget of each sampled feature; None, the default, leaves features out.
        sampled: number of features to spend it on, given together with `epsilon_x`.
        seed: seed of the graphs and the simulations.
        simulate: simulates a design on a drawn graph.
        progress: called with what is done, how much and of how much.
    """
    designs = candidate_designs(answer, total_epsilon, epsilon_x=epsilon_x, sampled=sampled)
    drawn = _drawn(people, mean_degree, num_classes, homophilies, seed)
    planned = []
    for number, design in enumerate(designs):
        planned.append(PlannedDesign(design=design, accuracies=tuple(simulate(design, each, seed) for each in drawn)))
        progress("designs", number + 1, len(designs))
    return sorted(planned, key=lambda each: -each.mean)
