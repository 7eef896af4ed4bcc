"""Plan a collection with private neighbours from public information: simulate designs on graphs like it."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from scipy.special import stdtrit

from veilgraph.datasets import PrivateGraph, csbm
from veilgraph.errors import BudgetError
from veilgraph.evaluation import accuracy
from veilgraph.experiments.neighbour_design import CLASS, HISTOGRAM, LIST, NeighbourDesign, check_answer
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
"""Difference of mean accuracies that simulations cannot judge: drawn graphs are more even than graphs of people."""

ROUNDS = (1, 2, 5)
"""Simulations of a design at each homophily, after each round. The better half enters the next round."""

_LABEL_SHARES = (0.25, 0.5, 0.75)
_FEWEST = 3
"""Designs that are left at least for the last round."""
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
class SimulatedAccuracies:
    """Accuracies on silent people in several simulations.

    Attributes:
        draws: accuracy in each scenario, for each draw of graphs, labels and answers.
    """

    draws: tuple[tuple[float, ...], ...]

    @property
    def means(self) -> tuple[float, ...]:
        """Mean over the draws in each scenario."""
        return tuple(statistics.fmean(each) for each in zip(*self.draws, strict=True))

    @property
    def standard_errors(self) -> tuple[float | None, ...]:
        """Standard error of the mean in each scenario; None after one draw."""
        return tuple(_standard_error(each) for each in zip(*self.draws, strict=True))

    @property
    def mean(self) -> float:
        """Mean over draws and scenarios."""
        return statistics.fmean(self._by_draw)

    @property
    def standard_error(self) -> float | None:
        """Standard error of the mean over draws and scenarios; None after one draw."""
        return _standard_error(self._by_draw)

    def is_within_noise_of(self, other: SimulatedAccuracies) -> bool:
        """Return whether the 95 % interval of the difference, paired by draw, has zero in it.

        With many draws it is two standard errors to each side, with few it is Student's: 2.8 with five.

        >>> few, same = (SimulatedAccuracies(draws=draws) for draws in (((0.5,), (0.7,)), ((0.6,), (0.7,))))
        >>> few.is_within_noise_of(same)
        True
        >>> few.is_within_noise_of(SimulatedAccuracies(draws=((0.6,), (0.8,))))
        False
        """
        differences = [mine - its for mine, its in zip(self._by_draw, other._by_draw, strict=True)]
        error = _standard_error(differences)
        width = 0.0 if error is None else error * float(stdtrit(len(differences) - 1, 0.975))
        # Accuracies are shares of a few hundred people: a difference below 1e-9 is rounding.
        return abs(statistics.fmean(differences)) <= width + 1e-9

    @property
    def _by_draw(self) -> list[float]:
        return [statistics.fmean(each) for each in self.draws]


def _standard_error(values: Sequence[float]) -> float | None:
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None


@dataclass(frozen=True, kw_only=True)
class PlannedDesign:
    """A design with its accuracies in simulations.

    Attributes:
        design: the design.
        reached: accuracies on silent people.
        facts: what a list costs; None for answers in waves.
    """

    design: NeighbourDesign
    reached: SimulatedAccuracies
    facts: ListFacts | None = None


@dataclass(frozen=True, kw_only=True)
class NeighbourPlan:
    """Designs for a total, in simulations.

    Attributes:
        designs: all that were tried. Those of the last round are first, and the best comes first among equally often
            simulated ones.
        floor: what the label alone reaches for a silent person: the most frequent class of those who report one. It has
            the draws of the last round.
        drawn_people: number of people of a drawn graph.
        no_list: why no list was tried, in words; None if one was, or none was asked for.
    """

    designs: tuple[PlannedDesign, ...]
    floor: SimulatedAccuracies
    drawn_people: int
    no_list: str | None = None

    @property
    def simulations(self) -> int:
        """Number of simulations of the designs in the last round, at each homophily."""
        return len(self.designs[0].reached.draws)

    @property
    def recommended(self) -> PlannedDesign:
        """The simplest design with the answer of the best one that simulations cannot tell from it.

        That is the one with the fewest waves, then without turns. Among equally simple ones it is the best at its worst
        homophily, because the homophily is not known. Another answer is left to `rival`.
        """
        own = (each for each in self._best if each.design.answer == self.designs[0].design.answer)
        return min(own, key=lambda each: (*_effort(each.design), -min(each.reached.means)))

    @property
    def within_noise(self) -> tuple[PlannedDesign, ...]:
        """The other designs that simulations cannot tell from the best one, by the paired difference of their means."""
        return tuple(each for each in self._best if each is not self.recommended)

    @property
    def rival(self) -> PlannedDesign | None:
        """The best design with another answer, if simulations cannot tell it from the recommended one."""
        best = self.recommended
        other = next((each for each in self._last_round if each.design.answer != best.design.answer), None)
        if other is None or (best.reached.mean - other.reached.mean >= CLOSE and other not in self._best):
            return None
        return other

    @property
    def _last_round(self) -> list[PlannedDesign]:
        return [each for each in self.designs if len(each.reached.draws) == self.simulations]

    @property
    def _best(self) -> list[PlannedDesign]:
        best = self.designs[0].reached
        return [each for each in self._last_round if each.reached.is_within_noise_of(best)]


def _effort(design: NeighbourDesign) -> tuple[int, bool]:
    """Return the number of waves, and whether they are in turn."""
    return len(design.edge_epsilons), design.in_turn


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


def floor_accuracy(private: PrivateGraph, seed: int) -> float:
    """Return the accuracy of the label alone: silent people get the most frequent class of those who report one."""
    split = Split.random(private.graph.num_nodes, seed=seed)
    frequent = np.bincount(private.labels[split.train | split.validation]).argmax()
    return float(np.mean(private.labels[split.test] == frequent))


@dataclass(frozen=True, kw_only=True)
class FeatureBudget:
    """Budget of features beside label and list; the default asks for none.

    Attributes:
        epsilon_x: budget of each sampled feature.
        sampled: number of features to spend it on, given together with `epsilon_x`.
    """

    epsilon_x: float | None = None
    sampled: int | None = None


NO_FEATURES = FeatureBudget()
"""Label and list alone."""


@dataclass(frozen=True, kw_only=True)
class Population:
    """What is known about the people of a collection.

    Attributes:
        people: number of people.
        mean_degree: how many neighbours a person lists, roughly.
        num_classes: number of classes.
        homophilies: shares of relationships within a class to allow for.
    """

    people: int
    mean_degree: float
    num_classes: int
    homophilies: tuple[float, ...] = HOMOPHILIES

    @property
    def drawn(self) -> int:
        """Number of people of a drawn graph."""
        return min(self.people, _MOST_DRAWN)

    def draw(self, seed: int) -> list[PrivateGraph]:
        """Draw a graph for each homophily."""
        return [
            csbm(
                self.drawn,
                num_classes=self.num_classes,
                mean_degree=self.mean_degree,
                homophily=homophily,
                num_features=0,
                seed=seed,
            )
            for homophily in self.homophilies
        ]


def plan_neighbours(
    population: Population,
    *,
    total_epsilon: float,
    answers: Sequence[str],
    features: FeatureBudget = NO_FEATURES,
    seed: int = 0,
    rounds: Sequence[int] = ROUNDS,
    simulate: Simulate = simulated_accuracy,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> NeighbourPlan:
    """Simulate designs for a total. Nothing but public information enters.

    Graphs of at most 1,200 people are drawn with the degree and the number of classes, for each homophily. All designs
    see the same graphs and splits, so that they are compared draw by draw. After the first draw, and after the second,
    only the better half is simulated further (successive halving). The best design of each answer stays, and the best
    one in the fewest waves. A list is tried among at most 50,000 people, and with at most 25 false neighbours for each
    true one.

    Args:
        population: what is known about the people.
        total_epsilon: epsilon of label, list and features together, for any two records and the relation of the
            answers.
        answers: answers to try, of one relation: "histogram" and "list" (one entry of a list), or "class" (any two
            lists).
        features: budget of features beside label and list.
        seed: seed of the graphs and the simulations.
        rounds: number of draws that a design has seen after each round, ascending.
        simulate: simulates a design on a drawn graph.
        progress: called with what is done, how much and of how much.
    """
    candidates = {answer: candidate_designs(answer, total_epsilon, **asdict(features)) for answer in answers}
    facts, no_list = _useful_lists(candidates.pop(LIST, []), population)
    if not (designs := [*itertools.chain.from_iterable(candidates.values()), *facts]):
        raise BudgetError(f"no list is worth a try: {no_list}; plan with histogram, which protects one entry as well")
    entering = [max(_FEWEST, math.ceil(len(designs) / 2**number)) for number in range(len(rounds))]
    entering = [min(each, len(designs)) for each in entering]
    all_runs = sum(few * (draws - before) for few, draws, before in zip(entering, rounds, (0, *rounds), strict=False))
    found_by: dict[NeighbourDesign, list[tuple[float, ...]]] = {design: [] for design in designs}
    floor: list[tuple[float, ...]] = []
    racing, done = designs, 0
    for count, draws in zip(entering, rounds, strict=True):
        racing = _front(racing, found_by, count)
        for draw in range(len(floor), draws):
            own = int(np.random.default_rng([seed, draw]).integers(2**31))  # no draw is shared with another seed
            graphs = population.draw(own)
            floor.append(tuple(floor_accuracy(each, own) for each in graphs))
            for design in racing:
                found_by[design].append(tuple(simulate(design, each, population.people, own) for each in graphs))
                done += 1
                progress("simulations", done, all_runs)
    planned = [
        PlannedDesign(design=each, reached=SimulatedAccuracies(draws=tuple(draws)), facts=facts.get(each))
        for each, draws in found_by.items()
    ]
    return NeighbourPlan(
        designs=tuple(sorted(planned, key=lambda each: (-len(each.reached.draws), -each.reached.mean))),
        floor=SimulatedAccuracies(draws=tuple(floor)),
        drawn_people=population.drawn,
        no_list=no_list,
    )


def _front(
    designs: Sequence[NeighbourDesign], found_by: Mapping[NeighbourDesign, Sequence[tuple[float, ...]]], count: int
) -> list[NeighbourDesign]:
    """Return the best designs so far; among them, of each answer, the best one and the best in the fewest waves."""
    if count >= len(designs):
        return list(designs)
    ranked = sorted(designs, key=lambda each: -float(np.mean(found_by[each])))
    kept: dict[NeighbourDesign, None] = {}
    for answer in dict.fromkeys(each.answer for each in designs):
        own = [each for each in ranked if each.answer == answer]
        kept |= {own[0]: None, min(own, key=_effort): None}
    for each in ranked:
        if len(kept) < count:
            kept[each] = None
    return list(kept)


def _useful_lists(
    designs: Sequence[NeighbourDesign], population: Population
) -> tuple[dict[NeighbourDesign, ListFacts], str | None]:
    """Return the designs whose true neighbours are not drowned with what their lists cost, or why there is none."""
    people, mean_degree = population.people, population.mean_degree
    if not designs:
        return {}, None
    if people > MOST_PEOPLE:
        return {}, f"there are {people:,} people, and lists are reported among at most {MOST_PEOPLE:,}"
    facts = {each: list_facts(RandomizedNeighbourList(people, each.edge_epsilons[0]), mean_degree) for each in designs}
    useful = {each: costs for each, costs in facts.items() if costs.false_neighbours <= _MOST_FALSE * mean_degree}
    fewest = min(costs.false_neighbours for costs in facts.values())
    drowned = f"a person would have {fewest:,.0f} false neighbours beside {mean_degree:g} true ones"
    return useful, None if useful else drowned
