"""Randomized lists in simulations have the distribution of the mechanism and its costs."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.neighbour_lists import rows_in
from veilgraph.datasets import csbm
from veilgraph.experiments.randomized_lists import draw_mutual_pairs, list_facts
from veilgraph.graph import Graph
from veilgraph.graph.mutual_pairs import mutual_pairs
from veilgraph.privacy.mechanisms import RandomizedNeighbourList

PEOPLE, EPSILON = 300, 2.0
SMALL = csbm(PEOPLE, num_classes=2, mean_degree=8, num_features=0, seed=0).graph


def lists_of(graph: Graph) -> NDArray[np.int8]:
    """Return the neighbour lists, [people, people]."""
    lists = np.zeros((graph.num_nodes, graph.num_nodes), dtype=np.int8)
    lists[tuple(graph.edge_index)] = 1
    return lists


def pairs_of(graph: Graph) -> set[tuple[int, int]]:
    return set(map(tuple, graph.edges.T.tolist()))


def reported_pairs(rng: np.random.Generator) -> set[tuple[int, int]]:
    answers = RandomizedNeighbourList(PEOPLE, EPSILON).randomize(lists_of(SMALL), rng=rng)
    return set(map(tuple, mutual_pairs(answers, PEOPLE).T.tolist()))


def drawn_pairs(rng: np.random.Generator) -> set[tuple[int, int]]:
    return pairs_of(draw_mutual_pairs(SMALL, EPSILON, rng))


# The fast draw loses false pairs with equal ends (1 in 300), true ones (8 in 300) and repetitions (1 in 140): 3.7 %.
@pytest.mark.parametrize(("draw", "lost"), [(reported_pairs, 0.0), (drawn_pairs, 0.037)])
def test_the_fast_draw_keeps_and_adds_as_many_pairs_as_lists_that_are_reported(
    draw: Callable[[np.random.Generator], set[tuple[int, int]]], lost: float
) -> None:
    draws, true, rng = 40, pairs_of(SMALL), np.random.default_rng(0)
    found = [draw(rng) for _ in range(draws)]
    keep = 1 / (1 + math.exp(-EPSILON))
    for counts, number, chance in (
        ([len(true & each) for each in found], len(true), keep**2),
        ([len(each - true) for each in found], PEOPLE * (PEOPLE - 1) // 2 - len(true), (1 - keep) ** 2),
    ):
        deviation = math.sqrt(number * chance * (1 - chance))
        # The mean of the draws: five standard errors.
        assert abs(np.mean(counts) - number * chance) < 5 * deviation / math.sqrt(draws) + lost * number * chance
        # Their spread is binomial: a standard deviation of 40 draws has a relative error of about 1 / sqrt(80).
        assert abs(np.std(counts, ddof=1) / deviation - 1) < 5 / math.sqrt(2 * draws)


def test_a_small_graph_can_have_the_false_neighbours_of_more_people() -> None:
    graph = csbm(1000, num_classes=2, mean_degree=10, num_features=0, seed=0).graph
    noisy = draw_mutual_pairs(graph, 4.0, np.random.default_rng(0), people=40_000)
    added = 2 * len(pairs_of(noisy) - pairs_of(graph)) / 1000
    # 13 false neighbours each; 6,500 pairs have a standard deviation of 80, and about 1 in 60 is lost.
    expected = RandomizedNeighbourList(40_000, 4.0).false_neighbours
    assert 0.97 * expected - 5 * 0.16 < added < expected + 5 * 0.16


def test_without_noise_the_graph_stays_as_it_is() -> None:
    np.testing.assert_array_equal(draw_mutual_pairs(SMALL, 60.0, np.random.default_rng(0)).edges, SMALL.edges)


def test_a_report_has_as_many_names_and_bytes_as_is_stated() -> None:
    answer = RandomizedNeighbourList(PEOPLE, EPSILON)
    facts = list_facts(answer, 2 * SMALL.num_edges / PEOPLE)
    texts = answer.decode(answer.randomize(lists_of(SMALL), rng=np.random.default_rng(0)))
    # The names of one report have a standard deviation of at most sqrt(300 * 0.12 * 0.88) = 5.6.
    assert abs(np.mean([len(rows_in(text)) for text in texts]) - facts.names) < 5 * 5.6 / math.sqrt(PEOPLE)
    assert {len(text) for text in texts} == {facts.answer_bytes}
    assert facts.false_neighbours == pytest.approx(PEOPLE / (1 + math.exp(EPSILON)) ** 2)
