"""Records that an audit compares: all of a small domain, a designed set of a large one, lists that are neighbours."""

from __future__ import annotations

import numpy as np
import pytest

from veilgraph.privacy.auditing.sources import ListSource, MechanismSource, designed_records
from veilgraph.privacy.epsilon import ListRelation
from veilgraph.privacy.mechanisms import (
    GRR,
    GRRFS,
    JointGRR,
    LongitudinalFeatures,
    LongitudinalGRR,
    Mechanism,
    MultiBit,
    NeighbourhoodClass,
    RandomizedNeighbourList,
    SubsetSelection,
)

LARGE: list[Mechanism] = [
    GRR(100, 1.0),
    SubsetSelection(90, 1.0),
    GRRFS((2, 3, 5) * 4, sampled=2, epsilon=1.0),
    JointGRR((2, 3, 5) * 4, sampled=2, epsilon=1.0),
    MultiBit((0.0,) * 20, (1.0,) * 20, sampled=2, epsilon=1.0),
    LongitudinalGRR(4, 2.0, 1.0, rounds=12, values=2),
    LongitudinalFeatures((2, 3), sampled=1, epsilon=1.0, round_epsilon=0.5, rounds=4, values=2),
]


def test_all_records_of_a_small_domain_are_compared_in_all_pairs() -> None:
    source = MechanismSource.of(GRRFS((2, 3), sampled=1, epsilon=1.0), 6, np.random.default_rng(0))
    assert source.records == tuple(GRRFS((2, 3), sampled=1, epsilon=1.0).records())
    assert len(source.groups) == 1 + 15


@pytest.mark.parametrize("mechanism", LARGE, ids=repr)
def test_a_designed_set_has_the_extremes_and_possible_records_alone(mechanism: Mechanism) -> None:
    records = designed_records(mechanism, 20, np.random.default_rng(0))
    assert set(mechanism.extreme_records()) <= set(records)
    assert 2 < len(records) <= 20
    assert len(set(records)) == len(records)
    values = mechanism.record_values
    assert all(value in values[i] for record in records for i, value in enumerate(record))


@pytest.mark.parametrize("mechanism", LARGE[2:], ids=repr)
def test_in_a_designed_set_every_value_of_every_feature_occurs(mechanism: Mechanism) -> None:
    records = designed_records(mechanism, 20, np.random.default_rng(0))
    for i, values in enumerate(mechanism.record_values):
        assert {record[i] for record in records} == set(values)


@pytest.mark.parametrize("most", [2, 3, 5])
def test_a_designed_set_is_as_small_as_it_must_be(most: int) -> None:
    assert len(designed_records(LARGE[2], most, np.random.default_rng(0))) == most


def test_under_a_relation_about_one_entry_only_lists_that_differ_in_one_are_a_pair() -> None:
    waves = [RandomizedNeighbourList(40, 1.0)]
    source = ListSource.of(waves, ListRelation.ONE_ENTRY, 10)
    assert source.groups == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]
    sharp = ListSource.of([RandomizedNeighbourList(40, 100.0)], ListRelation.ONE_ENTRY, 10)
    lists = sharp.draw(np.arange(10), rng=np.random.default_rng(0)).columns
    differing = [np.flatnonzero(one != other).tolist() for one, other in zip(lists[::2], lists[1::2], strict=True)]
    assert differing == [[0], [8], [16], [24], [32]]
    assert len(ListSource.of(waves, ListRelation.ANY_LISTS, 10).groups) == 1 + 45


def test_both_ends_of_a_relationship_answer() -> None:
    waves = [NeighbourhoodClass(3, 1.0), NeighbourhoodClass(3, 2.0)]
    source = ListSource.of(waves, ListRelation.ONE_RELATIONSHIP, 4)
    drawn = source.draw(np.zeros(5, dtype=np.int64), rng=np.random.default_rng(0))
    assert len(drawn.blocks) == 4


def test_of_many_values_those_that_are_chosen_are_spread_and_drawn_anew() -> None:
    one, two = (designed_records(GRR(1000, 1.0), 64, np.random.default_rng(seed)) for seed in (0, 1))
    assert one != two
    assert np.diff(sorted(record[0] for record in one)).max() < 2 * 1000 / 20
