"""Pairs of people who name each other."""

from __future__ import annotations

import math

import numpy as np
import pytest

from veilgraph.graph.mutual_pairs import mutual_pairs
from veilgraph.privacy.mechanisms import RandomizedNeighbourList


@pytest.mark.parametrize("people", [2, 7, 8, 9, 65, 700])
def test_pairs_are_the_entries_that_a_matrix_shares_with_its_transpose(people: int) -> None:
    named = np.random.default_rng(people).random((people, people)) < 0.2
    both = np.triu(named & named.T, k=1)
    found = mutual_pairs(np.packbits(named, axis=1, bitorder="little"), people)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, np.stack(np.nonzero(both)))


def test_who_does_not_answer_or_is_named_by_one_end_only_has_no_pair() -> None:
    lists = np.array([[0b1110], [0b0001], [0b0000], [0b1000]], dtype=np.uint8)  # 2 does not answer, 3 names itself
    assert mutual_pairs(lists, 4).tolist() == [[0], [1]]


def test_true_and_false_pairs_are_as_many_as_the_integers_say() -> None:
    people, rng = 600, np.random.default_rng(0)
    mechanism = RandomizedNeighbourList(people, 3.0)
    true = np.triu(rng.random((people, people)) < 0.02, k=1)
    lists = mechanism.randomize((true | true.T).astype(np.int8), rng=rng)
    low, high = mutual_pairs(lists, people)
    kept = int(true[low, high].sum())
    keep, other = float(mechanism.bit.channel.keep), float(mechanism.bit.channel.other)
    for found, possible, chance in (
        (kept, int(true.sum()), keep**2),
        (len(low) - kept, people * (people - 1) // 2 - int(true.sum()), other**2),
    ):
        # Six standard deviations of a binomial count.
        assert abs(found - possible * chance) < 6 * math.sqrt(possible * chance * (1 - chance))
    assert mechanism.false_neighbours == pytest.approx(people * other**2)
