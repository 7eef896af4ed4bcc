"""A plan for private neighbours divides exactly the total, and ranks designs by simulations alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from veilgraph.datasets import PrivateGraph, csbm
from veilgraph.errors import BudgetError
from veilgraph.experiments.neighbour_design import ANSWERS, CLASS, HISTOGRAM, LIST, ONE_ENTRY, NeighbourDesign
from veilgraph.experiments.neighbour_planner import (
    NeighbourPlan,
    PlannedDesign,
    Population,
    SimulatedAccuracies,
    candidate_designs,
    plan_neighbours,
    simulated_accuracy,
)
from veilgraph.privacy.mechanisms import RandomizedNeighbourList

SIXTY = Population(people=60, mean_degree=6, num_classes=3)


@pytest.mark.parametrize("answer", ANSWERS)
def test_every_design_spends_the_total_and_no_more(answer: str) -> None:
    for design in candidate_designs(answer, 4.0):
        guarantee = design.guarantee(5, 100)
        assert guarantee.lists is not None
        lists = guarantee.lists
        spent = guarantee.label_user_level + (lists.any_lists if answer == CLASS else lists.one_entry)
        assert 4 - 1e-6 < spent <= 4 + 1e-12


@pytest.mark.parametrize("answer", ANSWERS)
def test_features_are_a_part_of_the_total(answer: str) -> None:
    for design in candidate_designs(answer, 6.0, epsilon_x=0.5, sampled=4):
        guarantee = design.guarantee(5, 100, (2, 3, 4, 2, 2))
        assert guarantee.attribute_levels
        assert guarantee.features_user_level == pytest.approx(2, abs=1e-9)
        assert guarantee.lists is not None
        lists = guarantee.lists
        spent = guarantee.features_user_level + guarantee.label_user_level
        assert 6 - 1e-6 < spent + (lists.any_lists if answer == CLASS else lists.one_entry) <= 6 + 1e-12
    with pytest.raises(BudgetError, match="cost 6, and the total is 6: ask for fewer"):
        candidate_designs(answer, 6.0, epsilon_x=1.5, sampled=4)
    with pytest.raises(BudgetError, match="belong together"):
        candidate_designs(answer, 6.0, epsilon_x=1.5)


def by_label(design: NeighbourDesign, private: PrivateGraph, people: int, seed: int) -> float:
    """Pretend that a design reaches more the more its label spends."""
    return design.epsilon_y / 10


def test_the_best_design_in_simulations_comes_first() -> None:
    seen: list[tuple[int, int, int]] = []

    def simulate(design: NeighbourDesign, private: PrivateGraph, people: int, seed: int) -> float:
        seen.append((private.graph.num_nodes, private.schema.num_classes, people))
        return by_label(design, private, people, seed)

    found = plan_neighbours(
        population=Population(people=10_000_000, mean_degree=6, num_classes=3),
        total_epsilon=4,
        answers=[CLASS],
        simulate=simulate,
    )
    means = [each.reached.mean for each in found.designs]
    assert means == sorted(means, reverse=True)
    assert found.recommended.design.epsilon_y == 3
    assert (found.rival, found.no_list) == (None, None)
    assert set(seen) == {(1200, 3, 10_000_000)}  # as large as needed for a plan, whatever the number of people is


def test_histograms_and_lists_are_tried_together_and_lists_state_what_they_cost() -> None:
    found = plan_neighbours(
        population=Population(people=2700, mean_degree=4, num_classes=7),
        total_epsilon=6,
        answers=ONE_ENTRY,
        simulate=by_label,
    )
    tried = [each.design.answer for each in found.designs]
    assert (tried.count(HISTOGRAM), tried.count(LIST), found.no_list) == (12, 3, None)
    for each in found.designs:
        assert (each.facts is None) == (each.design.answer == HISTOGRAM)
        if each.facts is not None:
            (edge_epsilon,) = each.design.edge_epsilons
            assert each.facts.false_neighbours == RandomizedNeighbourList(2700, edge_epsilon).false_neighbours


@pytest.mark.parametrize(
    ("people", "total", "reason"),
    [
        (50_001, 8.0, "there are 50,001 people, and lists are reported among at most 50,000"),
        (50_000, 1.0, "a person would have 5,146 false neighbours beside 4 true ones"),  # 50,000 / (1 + e^0.75)^2
    ],
)
def test_no_list_is_tried_among_too_many_people_or_where_false_neighbours_drown_the_true(
    people: int, total: float, reason: str
) -> None:
    asked: dict[str, Any] = {
        "population": Population(people=people, mean_degree=4, num_classes=3),
        "total_epsilon": total,
    }
    found = plan_neighbours(**asked, answers=ONE_ENTRY, simulate=by_label)
    assert {each.design.answer for each in found.designs} == {HISTOGRAM}
    assert found.no_list == reason
    with pytest.raises(BudgetError, match=f"no list is worth a try: {reason}; plan with histogram"):
        plan_neighbours(**asked, answers=[LIST], simulate=by_label)


def test_some_divisions_of_a_total_drown_true_neighbours_and_the_others_are_tried() -> None:
    found = plan_neighbours(
        population=Population(people=50_000, mean_degree=4, num_classes=3),
        total_epsilon=6,
        answers=[LIST],
        simulate=by_label,
    )
    # 50,000 / (1 + e^1.5)^2 = 1,660 and 50,000 / (1 + e^3)^2 = 112 are above 25 * 4, 6.0 at 4.5 is not.
    assert [each.design.edge_epsilons for each in found.designs] == [(4.5,)]


def test_a_list_is_planned_with_the_false_neighbours_of_all_people() -> None:
    private = csbm(1200, num_classes=3, mean_degree=6, homophily=0.85, num_features=0, seed=0)
    design = NeighbourDesign.usual(LIST, 2.0, 4.0)
    few, many = (simulated_accuracy(design, private, people, 0) for people in (1200, 50_000))
    # 0.4 and 16 false neighbours beside 6 true ones. 300 silent people: standard errors of at most 3 points.
    assert few > many + 0.1


@pytest.mark.parametrize(("reached", "is_rival"), [(0.7, True), (0.66, True), (0.64, False)])
def test_simulations_judge_differences_of_five_points_and_more(reached: float, is_rival: bool) -> None:
    best, same, other = (
        planned(NeighbourDesign.usual(answer, 2.0, 4.0), (mean, mean))
        for answer, mean in ((LIST, 0.7), (LIST, 0.69), (HISTOGRAM, reached))
    )
    found = plan_of(best, same, other)
    assert found.recommended is best
    assert found.rival is (other if is_rival else None)


def planned(design: NeighbourDesign, by_draw: tuple[float, ...]) -> PlannedDesign:
    """Return a design that reaches these accuracies, one for each draw, in a single scenario."""
    return PlannedDesign(design=design, reached=SimulatedAccuracies(draws=tuple((each,) for each in by_draw)))


def plan_of(*designs: PlannedDesign) -> NeighbourPlan:
    return NeighbourPlan(designs=designs, floor=SimulatedAccuracies(draws=((0.5,),)), drawn_people=100)


ONE_WAVE, TWO_WAVES, TURNS = (
    NeighbourDesign(answer=CLASS, epsilon_y=2.0, edge_epsilons=waves, in_turn=in_turn)
    for waves, in_turn in (((2.0,), False), ((1.0, 1.0), False), ((2.0, 2.0), True))
)


def test_the_simplest_design_is_recommended_among_those_that_simulations_cannot_tell_from_the_best() -> None:
    turns = planned(TURNS, (0.8, 0.6, 0.8, 0.6))
    waves = planned(TWO_WAVES, (0.6, 0.8, 0.6, 0.7))  # 2.5 points less, with a standard error of 9
    wave = planned(ONE_WAVE, (0.7, 0.5, 0.7, 0.5))  # 10 points less in every draw
    found = plan_of(turns, waves, wave)
    assert found.recommended is waves  # as many waves, and none in turn
    assert found.within_noise == (turns,)
    wave = planned(ONE_WAVE, (0.6, 0.7, 0.7, 0.6))
    found = plan_of(turns, waves, wave)
    assert found.recommended is wave
    assert found.within_noise == (turns, waves)


def test_a_design_that_was_simulated_less_often_is_not_recommended() -> None:
    turns, wave = planned(TURNS, (0.8, 0.6, 0.7)), planned(ONE_WAVE, (0.8, 0.6))
    found = plan_of(turns, wave)
    assert (found.recommended, found.within_noise, found.simulations) == (turns, (), 3)


def test_equally_simple_designs_are_judged_at_their_worst_homophily() -> None:
    even, uneven = (
        PlannedDesign(
            design=NeighbourDesign(answer=CLASS, epsilon_y=label, edge_epsilons=(4 - label,)),
            reached=SimulatedAccuracies(draws=draws),
        )
        for label, draws in ((2.0, ((0.6, 0.7), (0.6, 0.6))), (3.0, ((0.5, 0.8), (0.5, 0.8))))
    )
    assert plan_of(uneven, even).recommended is even


def test_designs_are_compared_draw_by_draw() -> None:
    # Draws differ by 30 points, the designs by 2 in each: without the pairs this would be noise.
    best, behind = (SimulatedAccuracies(draws=tuple((0.3 * i + lead,) for i in range(3))) for lead in (0.02, 0.0))
    assert not behind.is_within_noise_of(best)
    assert best.means == pytest.approx((0.32,))
    # Deviations of 0.3, 0 and 0.3: a standard deviation of 0.3.
    assert best.standard_errors == pytest.approx((0.3 / 3**0.5,))
    assert SimulatedAccuracies(draws=((0.5, 0.7),)).standard_errors == (None, None)


def test_the_better_half_is_simulated_further_and_all_see_the_same_draws() -> None:
    seen: dict[NeighbourDesign, list[tuple[str, int]]] = {}
    told: list[tuple[int, int]] = []

    def simulate(design: NeighbourDesign, private: PrivateGraph, people: int, seed: int) -> float:
        seen.setdefault(design, []).append((private.fingerprint, seed))
        return by_label(design, private, people, seed) + 0.001 * len(design.edge_epsilons)

    found = plan_neighbours(
        population=Population(people=60, mean_degree=6, num_classes=3),
        total_epsilon=4,
        answers=ONE_ENTRY,
        rounds=(1, 2, 4),
        simulate=simulate,
        progress=lambda what, done, total: told.append((done, total)),
    )
    counts = [len(each.reached.draws) for each in found.designs]
    assert counts == [4] * 4 + [2] * 4 + [1] * 7  # 15 designs, 8 of them in the second round and 4 in the last
    assert told == [(done, 15 + 8 + 4 * 2) for done in range(1, 15 + 8 + 4 * 2 + 1)]
    most = max(seen.values(), key=len)
    assert len(set(most)) == 4 * 2  # no graph twice: a new one in each draw, for each homophily
    assert all(draws == most[: len(draws)] for draws in seen.values())
    last = {(each.design.answer, len(each.design.edge_epsilons)) for each in found.designs[:4]}
    assert last >= {(HISTOGRAM, 3), (HISTOGRAM, 1), (LIST, 1)}  # the best, the best in one wave, and the other answer
    assert (found.simulations, found.drawn_people, len(found.floor.draws)) == (4, 60, 4)


def test_seeds_share_no_draw() -> None:
    def seeds_of(seed: int) -> set[int]:
        seen: set[int] = set()

        def simulate(design: NeighbourDesign, private: PrivateGraph, people: int, seed: int) -> float:
            seen.add(seed)
            return 0.5

        asked: dict[str, Any] = {"population": SIXTY, "total_epsilon": 4}
        plan_neighbours(**asked, answers=[CLASS], seed=seed, simulate=simulate)
        return seen

    assert not seeds_of(0) & seeds_of(1)


def test_seeds_recommend_the_same_where_designs_are_equal_but_for_noise() -> None:
    def equal_with_noise(design: NeighbourDesign, private: PrivateGraph, people: int, seed: int) -> float:
        number = candidate_designs(CLASS, 4.0).index(design)
        noise = np.random.default_rng([seed, number]).normal(scale=0.05)
        return (0.6 if design.epsilon_y == 2 else 0.4) + float(noise)

    asked: dict[str, Any] = {"population": SIXTY, "total_epsilon": 4}
    found = [plan_neighbours(**asked, answers=[CLASS], seed=seed, simulate=equal_with_noise) for seed in range(20)]
    simplest = [each.recommended.design.title for each in found].count("class in 1 wave: 2")
    # A 95 % interval with the better of two others misses in at most about 10 % of the seeds: 2 of 20, and 6 are
    # more than three standard deviations of that. The highest mean alone would be a third of them.
    assert simplest >= 14


def test_in_turn_a_person_spends_one_wave_and_all_waves_cost_the_same() -> None:
    design = NeighbourDesign(answer=CLASS, epsilon_y=1.0, edge_epsilons=(3.0, 3.0), in_turn=True)
    guarantee = design.guarantee(3, 100)
    assert guarantee.lists is not None
    assert guarantee.lists.any_lists == pytest.approx(3, abs=1e-9)
    with pytest.raises(BudgetError, match="give all waves the same edge epsilon"):
        NeighbourDesign(answer=CLASS, epsilon_y=1.0, edge_epsilons=(1.0, 2.0), in_turn=True)
    with pytest.raises(BudgetError, match="a list is reported once, and 2 waves are asked"):
        NeighbourDesign(answer=LIST, epsilon_y=1.0, edge_epsilons=(1.0, 2.0))
    for answer, total in (("lists", 4.0), (CLASS, 0.0)):
        with pytest.raises(BudgetError):
            candidate_designs(answer, total)


def test_waves_in_turn_are_recommended_where_they_are_best() -> None:
    def prefers_turns(design: NeighbourDesign, private: PrivateGraph, people: int, seed: int) -> float:
        return float(design.in_turn)

    found = plan_neighbours(
        population=Population(people=300, mean_degree=6, num_classes=3),
        total_epsilon=4,
        answers=[CLASS],
        simulate=prefers_turns,
    )
    assert found.recommended.design.in_turn
    assert len(found.recommended.design.edge_epsilons) == 2  # four are as good
