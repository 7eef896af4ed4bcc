"""A plan for private neighbours divides exactly the total, and ranks designs by simulations alone."""

from __future__ import annotations

import math
from typing import Any

import pytest

from veilgraph.datasets import PrivateGraph
from veilgraph.errors import BudgetError
from veilgraph.experiments.grid import CLASS, HISTOGRAM
from veilgraph.experiments.neighbour_design import NeighbourDesign
from veilgraph.experiments.neighbour_planner import (
    KnownWay,
    PlannedDesign,
    candidate_designs,
    plan_known_way,
    plan_neighbours,
)


@pytest.mark.parametrize("answer", [HISTOGRAM, CLASS])
def test_every_design_spends_the_total_and_no_more(answer: str) -> None:
    for design in candidate_designs(answer, 4.0):
        guarantee = design.guarantee(5)
        assert guarantee.neighbours is not None
        lists = guarantee.neighbours.total
        spent = guarantee.label_user_level + (lists.any_lists if answer == CLASS else lists.one_entry)
        assert 4 - 1e-6 < spent <= 4 + 1e-12


@pytest.mark.parametrize("answer", [HISTOGRAM, CLASS])
def test_features_are_a_part_of_the_total(answer: str) -> None:
    for design in candidate_designs(answer, 6.0, epsilon_x=0.5, sampled=4):
        guarantee = design.guarantee(5, (2, 3, 4, 2, 2))
        assert guarantee.features is not None
        assert guarantee.features_user_level == pytest.approx(2, abs=1e-9)
        assert guarantee.neighbours is not None
        lists = guarantee.neighbours.total
        spent = guarantee.features_user_level + guarantee.label_user_level
        assert 6 - 1e-6 < spent + (lists.any_lists if answer == CLASS else lists.one_entry) <= 6 + 1e-12
    with pytest.raises(BudgetError, match="cost 6, and the total is 6: ask for fewer"):
        candidate_designs(answer, 6.0, epsilon_x=1.5, sampled=4)
    with pytest.raises(BudgetError, match="belong together"):
        candidate_designs(answer, 6.0, epsilon_x=1.5)


def test_the_best_design_in_simulations_comes_first() -> None:
    seen: list[tuple[int, int]] = []

    def simulate(design: NeighbourDesign, private: PrivateGraph, seed: int) -> float:
        seen.append((private.graph.num_nodes, private.schema.num_classes))
        return design.epsilon_y / 10

    found = plan_neighbours(
        people=10_000_000, mean_degree=6, num_classes=3, total_epsilon=4, answer=CLASS, simulate=simulate
    )
    assert [each.mean for each in found] == sorted((each.mean for each in found), reverse=True)
    assert found[0].design.epsilon_y == 3
    assert set(seen) == {(1200, 3)}  # as large as needed for a plan, whatever the number of people is


def test_the_known_way_is_planned_with_the_false_neighbours_of_all_people() -> None:
    facts: dict[str, Any] = {"mean_degree": 6, "num_classes": 3, "homophilies": (0.85,)}
    few = plan_known_way(people=1200, total_epsilon=8, **facts)
    assert few.epsilon_y + few.edge_epsilon == 8
    assert few.report_bytes == 150
    assert few.false_neighbours == pytest.approx(1200 / (1 + math.exp(few.edge_epsilon)) ** 2)
    many = plan_known_way(people=60_000, total_epsilon=8, **facts)
    assert many.mean < few.mean
    drowned = plan_known_way(people=10**9, total_epsilon=4, **facts)
    assert (drowned.accuracies, drowned.mean) == ((), 0.0)


@pytest.mark.parametrize(("reached", "lead"), [(0.9, 1), (0.72, 0), (0.68, 0), (0.5, -1)])
def test_simulations_judge_differences_of_five_points_and_more(reached: float, lead: int) -> None:
    known = KnownWay(epsilon_y=2.0, edge_epsilon=4.0, accuracies=(reached,), false_neighbours=1.0, report_bytes=1)
    best = PlannedDesign(design=NeighbourDesign.usual(HISTOGRAM, 2.0, 4.0), accuracies=(0.7,))
    assert known.lead(best) == lead


@pytest.mark.parametrize(("answer", "total"), [("list", 4.0), (CLASS, 0.0)])
def test_an_unknown_answer_or_an_impossible_total_is_refused(answer: str, total: float) -> None:
    with pytest.raises(BudgetError):
        candidate_designs(answer, total)
