"""The published table: every belief has a code of 16 bits, and a device reads its neighbours' beliefs from it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from veilgraph.errors import DomainError
from veilgraph.privacy.belief_table import BeliefTable, finest_scale, quantise
from veilgraph.privacy.mechanisms import NeighbourhoodHistogram, OSRandom


@pytest.mark.parametrize("classes", [2, 4, 7, 18])
def test_every_code_is_a_belief_of_its_own_and_back(classes: int) -> None:
    scale = finest_scale(classes)
    possible = math.comb(scale + classes - 1, classes - 1)
    assert possible < 2**16
    assert scale == 60 or math.comb(scale + classes, classes - 1) >= 2**16
    units = BeliefTable(classes, np.arange(possible + 1, dtype=np.uint16)).units()
    assert set(units[1:].sum(axis=1)) == {scale}
    assert not units[0].any()
    assert units.min() >= 0
    known = np.arange(possible + 1) > 0
    again = BeliefTable.of(np.where(known[:, None], units, 1 / classes * scale) / scale, known=known)
    np.testing.assert_array_equal(again.codes, np.arange(possible + 1))
    with pytest.raises(DomainError, match="get the table again"):
        BeliefTable(classes, np.array([possible + 1], dtype=np.uint16))


def test_rounding_keeps_the_sum_and_moves_no_class_by_a_unit() -> None:
    beliefs = np.random.default_rng(0).dirichlet(np.ones(5), size=500)
    units = quantise(beliefs, 20)
    assert set(units.sum(axis=1)) == {20}
    assert np.abs(units - 20 * beliefs).max() < 1


def test_a_neighbour_adds_the_scale_or_nothing_and_one_who_is_named_twice_counts_once() -> None:
    table = BeliefTable.of(np.eye(3), known=np.array([True, True, False]))
    assert table.sums([[0, 1], [2], [], [1, 1]]).tolist() == [[60, 60, 0], [0, 0, 0], [0, 0, 0], [0, 60, 0]]


def test_lists_and_edges_give_the_same_sums_where_friendship_is_one_sided() -> None:
    table = BeliefTable.of(np.random.default_rng(1).dirichlet(np.ones(4), size=6))
    lists = [[1, 2], [0], [], [4, 5, 0], [3], [0, 1, 2]]
    pairs = np.array([(source, target) for target, each in enumerate(lists) for source in each])
    np.testing.assert_array_equal(table.sums(lists), table.sums_over(pairs[:, 0], pairs[:, 1]))


@pytest.mark.parametrize("stranger", [-1, 3, 6161])
def test_a_neighbour_who_is_not_in_the_table_is_refused_and_not_named(stranger: int) -> None:
    table = BeliefTable.of(np.eye(3))
    with pytest.raises(DomainError, match="a neighbour is not in the table") as refusal:
        table.sums([[0, stranger]])
    assert str(stranger) not in str(refusal.value).replace("3 people", "")


def test_a_published_file_is_read_whole_or_refused_and_ten_million_people_fit_into_twenty_megabytes() -> None:
    table = BeliefTable.of(np.random.default_rng(1).dirichlet(np.ones(4), size=100))
    data = table.to_bytes()
    np.testing.assert_array_equal(BeliefTable.from_bytes(data).codes, table.codes)
    for damaged in (data[:-1], data + b"\0", data[5:], b""):
        with pytest.raises(DomainError, match="get it again"):
            BeliefTable.from_bytes(damaged)
    assert len(BeliefTable(18, np.zeros(10_000_000, dtype=np.uint16)).to_bytes()) <= 20_000_100


def test_a_device_with_500_neighbours_sends_a_short_answer() -> None:
    table = BeliefTable.of(np.random.default_rng(1).dirichlet(np.ones(4), size=1000))
    histogram = NeighbourhoodHistogram(4, 0.25, table.scale)
    answer = histogram.randomize(table.sums([range(500)]), rng=OSRandom())
    assert len(str(answer.tolist())) < 1000
