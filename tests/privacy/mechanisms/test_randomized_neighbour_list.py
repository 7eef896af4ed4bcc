"""Randomized neighbour lists: bits, bounds, and how many pairs are true or false."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.neighbour_lists import text_of
from veilgraph.errors import BudgetError, DomainError
from veilgraph.privacy.mechanisms import RandomizedNeighbourList
from veilgraph.privacy.mechanisms.randomized_neighbour_list import MOST_PEOPLE


@given(st.integers(2, 40).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.sets(st.integers(0, n - 1))))))
def test_answers_as_bits_are_the_people_that_they_name(drawn: tuple[int, list[set[int]]]) -> None:
    people, sets = drawn
    mechanism, texts = RandomizedNeighbourList(people, 1.0), [text_of(each, people) for each in sets]
    packed = mechanism.encode(texts)
    assert mechanism.decode(packed) == texts
    for row, named in zip(packed, sets, strict=True):
        assert set(np.flatnonzero(np.unpackbits(row, count=people, bitorder="little")).tolist()) == named


@given(st.integers(2, 200), st.data())
def test_all_lists_have_one_length(people: int, data: st.DataObject) -> None:
    named = data.draw(st.sets(st.integers(0, people - 1)))
    everybody, nobody = text_of(range(people), people), text_of([], people)
    assert len(text_of(named, people)) == len(everybody) == len(nobody) == -(-4 * -(-people // 8) // 3)


@pytest.mark.parametrize("text", ["", "A", "AA", "AAAA", "AA=", "A A", "+AA", "/AA", "AAB", "AAD", "AAI", "\u00e0AA"])
def test_text_that_is_no_list_of_nine_people_is_refused(text: str) -> None:
    """Nine people take two bytes, so seven bits are spare, and of the third character two more."""
    mechanism = RandomizedNeighbourList(9, 1.0)
    assert mechanism.decode(mechanism.encode(["_wE", "AAA"])) == ["_wE", "AAA"]
    with pytest.raises(DomainError, match="a neighbour list"):
        mechanism.encode(["AAA", text])


@pytest.mark.parametrize("people", [0, 1, MOST_PEOPLE + 1])
def test_lists_among_too_few_or_too_many_people_are_refused_with_a_remedy(people: int) -> None:
    with pytest.raises(BudgetError, match="answers in waves"):
        RandomizedNeighbourList(people, 1.0)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan])
def test_an_epsilon_that_is_none_is_refused(epsilon: float) -> None:
    with pytest.raises(BudgetError):
        RandomizedNeighbourList(5, epsilon)


def test_an_epsilon_is_never_above_the_budget_and_never_far_below() -> None:
    for epsilon in (0.01, 0.5, 1.0, 4.0, 12.0):
        loss = RandomizedNeighbourList(9, epsilon).list_loss
        assert 0 <= epsilon - loss.one_entry < 1e-9
        assert loss.one_relationship == pytest.approx(2 * loss.one_entry, abs=1e-12)


def test_a_neighbour_who_is_counted_twice_is_named_as_one_who_is_counted_once() -> None:
    mechanism = RandomizedNeighbourList(6, 1.0)
    once, twice = np.array([[0, 1, 0, 1, 0, 0]] * 40), np.array([[0, 2, 0, 7, 0, 0]] * 40)
    first, second = (mechanism.randomize(each, rng=np.random.default_rng(3)) for each in (once, twice))
    np.testing.assert_array_equal(first, second)


def test_blocks_of_lists_are_drawn_as_all_of_them_at_once() -> None:
    """A block ends after 2**24 bits; the words of a generator do not depend on blocks."""
    mechanism, lists = RandomizedNeighbourList(30_000, 2.0), np.zeros((600, 30_000), dtype=np.int8)
    drawn = mechanism.randomize(lists, rng=np.random.default_rng(0))
    share = np.unpackbits(drawn, axis=1, count=30_000).mean()
    other = float(mechanism.bit.channel.other)
    # Six standard deviations of a share of 18 million bits.
    assert abs(share - other) < 6 * math.sqrt(other * (1 - other) / lists.size)


def test_a_bit_beyond_the_last_person_is_refused() -> None:
    mechanism = RandomizedNeighbourList(11, 1.0)
    mechanism.check_reports(np.array([[255, 7]], dtype=np.uint8))
    with pytest.raises(DomainError, match="not among the 11 people"):
        mechanism.check_reports(np.array([[0, 8]], dtype=np.uint8))
    with pytest.raises(DomainError, match="expected a bit for each"):
        mechanism.check_reports(np.zeros((1, 2), dtype=np.int64))
