"""Plan a collection with private neighbours from public information: simulate designs on graphs like it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from veilgraph.datasets import PrivateGraph, csbm
from veilgraph.errors import BudgetError
from veilgraph.evaluation import accuracy
from veilgraph.experiments.grid import CLASS, HISTOGRAM, LIST
from veilgraph.experiments.neighbour_design import NeighbourDesign, check_answer
from veilgraph.experiments.private_neighbours import simulate_neighbour_waves
from veilgraph.experiments.randomized_lists import ListFacts, draw_mutual_pairs, list_facts
from veilgraph.experiments.simulation import label_rng, randomize_labels, simulated_collection
from veilgraph.graph import Split
from veilgraph.models import LabelVeil
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.epsilon import check_epsilon
from veilgraph.privacy.mechanisms import RandomizedNeighbourList
from veilgraph.privacy.mechanisms.randomized_neighbour_list import MOST_PEOPLE

HOMOPHILIES = (0.6, 0.85)
"""Shares of relationships within a class that a plan allows for."""

CLOSE = 0.05
"""Difference of mean accuracies that simulations cannot judge: drawn graphs are more even than those of people."""

_LABEL_SHARES = (0.25, 0.5, 0.75)
_MOST_DRAWN = 1200
_MOST_FALSE = 25
"""Largest number of false neighbours for each true one with which a list is tried."""

_LISTS = 6
_SPLITS: dict[str, tuple[tuple[float, ...], ...]] = {
    HISTOGRAM: ((1.0,), (0.25, 0.75), (0.5, 0.5), (0.1, 0.2, 0.7)),
    CLASS: ((1.0,),),
    LIST: ((1.0,),),
}
"""Shares of the list's budget for each wave. A third wave helps where labels are noisy and neighbours many."""
_TURNS: dict[str, tuple[int, ...]] = {HISTOGRAM: (1,), CLASS: (1, 2, 4), LIST: (1,)}

Simulate = Callable[[NeighbourDesign, PrivateGraph, int, int], float]
"""Return the accuracy of a design on a drawn graph, given the number of all people and a seed."""


@dataclass(frozen=True, kw_only=True)
class PlannedDesign:
    """A design with its accuracies in simulations.

    Attributes:
        design: the design.
        accuracies: accuracy on silent people in each scenario.
        facts: what a list costs; None for answers in waves.
    """

    design: NeighbourDesign
    accuracies: tuple[float, ...]
    facts: ListFacts | None = None

    @property
    def mean(self) -> float:
        """Mean over the scenarios."""
        return float(np.mean(self.accuracies))


@dataclass(frozen=True, kw_only=True)
class NeighbourPlan:
    """Designs for a total, in simulations.

    Attributes:
        designs: all that were tried, the best first.
        no_list: why no list was tried, in words; None if one was, or none was asked for.
    """

    designs: tuple[PlannedDesign, ...]
    no_list: str | None = None

    @property
    def recommended(self) -> PlannedDesign:
        """The best design, by the mean over the scenarios."""
        return self.designs[0]

    @property
    def rival(self) -> PlannedDesign | None:
        """The best design with another answer, if simulations cannot tell it from the recommended one."""
        best = self.recommended
        others = (each for each in self.designs if each.design.answer != best.design.answer)
        return next((each for each in others if best.mean - each.mean < CLOSE), None)


def candidate_designs(
    answer: str, total_epsilon: float, *, epsilon_x: float | None = None, sampled: int | None = None
) -> list[NeighbourDesign]:
    """Return designs whose epsilons of label, list and features, if asked, add up to a total.

    >>> [each.title for each in candidate_designs("class", 4.0)][:2]
    ['class in 1 wave: 3', 'class in 2 waves, one for each person: 3']
    """
    total = check_epsilon(total_epsilon, "total_epsilon")
    check_answer(answer)
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


def simulated_accuracy(design: NeighbourDesign, private: PrivateGraph, people: int, seed: int) -> float:
    """Return the accuracy of a design on silent people of a drawn graph, without its features.

    Nothing public says what features tell about a class, so a plan promises nothing of them. A drawn graph is small. It
    gets as many false neighbours for each person as there are among all people.
    """
    nodes, classes = private.graph.num_nodes, private.schema.num_classes
    split, label = Split.random(nodes, seed=seed), design.label(classes)
    if design.answer != LIST:
        waves = design.waves(classes, people)
        _, method = simulate_neighbour_waves(private, split, label, waves, seed=seed, in_turn=design.in_turn)
        return accuracy(method.predict(), private, split.test)
    labels = randomize_labels(private, label, split, rng=label_rng(seed))
    rng = np.random.default_rng([seed, _LISTS])
    pairs = draw_mutual_pairs(private.graph, design.edge_epsilons[0], rng, people=people)
    reports = replace(simulated_collection(private, split, label, labels), graph=pairs)
    return accuracy(LabelVeil(seed=seed).fit(reports, split).predict(), private, split.test)


def plan_neighbours(
    *,
    people: int,
    mean_degree: float,
    num_classes: int,
    total_epsilon: float,
    answers: Sequence[str],
    homophilies: Sequence[float] = HOMOPHILIES,
    epsilon_x: float | None = None,
    sampled: int | None = None,
    seed: int = 0,
    simulate: Simulate = simulated_accuracy,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> NeighbourPlan:
    """Simulate designs for a total. Nothing but public information enters.

    Graphs of at most 1,200 people are drawn with the degree and the number of classes, for each homophily. All designs
    see the same graphs and splits. A list is tried among at most 50,000 people, and with at most 25 false neighbours
    for each true one.

    Args:
        people: number of people.
        mean_degree: how many neighbours a person lists, roughly.
        num_classes: number of classes.
        total_epsilon: epsilon of label, list and features together, for any two records and the relation of the
            answers.
        answers: answers to try, of one relation: "histogram" and "list" (one entry of a list), or "class" (any two
            lists).
        homophilies: shares of relationships within a class to allow for.
        epsilon_x: budget of each sampled feature; None, the default, leaves features out.
        sampled: number of features to spend it on, given together with `epsilon_x`.
        seed: seed of the graphs and the simulations.
        simulate: simulates a design on a drawn graph.
        progress: called with what is done, how much and of how much.
    """
    found = {
        answer: candidate_designs(answer, total_epsilon, epsilon_x=epsilon_x, sampled=sampled) for answer in answers
    }
    facts, no_list = _useful_lists(found.pop(LIST, []), people, mean_degree)
    if not (designs := [*itertools.chain.from_iterable(found.values()), *facts]):
        raise BudgetError(f"no list is worth a try: {no_list}; plan with histogram, which protects one entry as well")
    drawn = _drawn(people, mean_degree, num_classes, homophilies, seed)
    planned = []
    for number, design in enumerate(designs):
        accuracies = tuple(simulate(design, each, people, seed) for each in drawn)
        planned.append(PlannedDesign(design=design, accuracies=accuracies, facts=facts.get(design)))
        progress("designs", number + 1, len(designs))
    return NeighbourPlan(designs=tuple(sorted(planned, key=lambda each: -each.mean)), no_list=no_list)


def _useful_lists(
    designs: Sequence[NeighbourDesign], people: int, mean_degree: float
) -> tuple[dict[NeighbourDesign, ListFacts], str | None]:
    """Return the designs whose true neighbours are not drowned with what their lists cost, or why there is none."""
    if not designs:
        return {}, None
    if people > MOST_PEOPLE:
        return {}, f"there are {people:,} people, and lists are reported among at most {MOST_PEOPLE:,}"
    facts = {each: list_facts(RandomizedNeighbourList(people, each.edge_epsilons[0]), mean_degree) for each in designs}
    useful = {each: costs for each, costs in facts.items() if costs.false_neighbours <= _MOST_FALSE * mean_degree}
    fewest = min(costs.false_neighbours for costs in facts.values())
    drowned = f"a person would have {fewest:,.0f} false neighbours beside {mean_degree:g} true ones"
    return useful, None if useful else drowned


def _drawn(
    people: int, mean_degree: float, num_classes: int, homophilies: Sequence[float], seed: int
) -> list[PrivateGraph]:
    """Draw a graph for each homophily; it has at most 1,200 people."""
    return [
        csbm(
            min(people, _MOST_DRAWN),
            num_classes=num_classes,
            mean_degree=mean_degree,
            homophily=homophily,
            num_features=0,
            seed=seed,
        )
        for homophily in homophilies
    ]
