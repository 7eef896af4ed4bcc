"""The split of nodes: shares, randomness and masks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilgraph.errors import GraphError
from veilgraph.graph import Split


@settings(deadline=None)
@given(
    num_nodes=st.integers(1, 200),
    train=st.floats(0.01, 0.9),
    rest=st.floats(0.01, 1),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_split_has_the_asked_shares_and_every_node_in_one_part(
    num_nodes: int, train: float, rest: float, seed: int
) -> None:
    validation = (1 - train) * rest
    split = Split.random(num_nodes, seed=seed, train=train, validation=validation)
    parts = np.stack([split.train, split.validation, split.test])
    assert (parts.sum(axis=0) == 1).all()
    # Each end of a part is rounded to a whole node.
    assert abs(split.train.sum() - train * num_nodes) <= 0.5
    assert abs(split.validation.sum() - validation * num_nodes) <= 1
    np.testing.assert_array_equal(split.labelled, ~split.test)


def test_a_seed_determines_a_split() -> None:
    first, again, another = (Split.random(100, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.train, again.train)
    np.testing.assert_array_equal(first.validation, again.validation)
    assert (first.train != another.train).any()
    assert repr(first) == "Split(50 train, 25 validation, 25 test)"


def test_nodes_that_are_not_eligible_are_in_no_part() -> None:
    eligible = np.arange(100) % 5 == 0
    split = Split.random(100, seed=0, eligible=eligible)
    np.testing.assert_array_equal(split.train | split.validation | split.test, eligible)
    assert repr(split) == "Split(10 train, 5 validation, 5 test)"


def test_every_node_is_as_likely_to_train() -> None:
    splits = 2000
    chosen = sum(Split.random(10, seed=seed).train.astype(int) for seed in range(splits))
    # Five standard errors of a fair coin in 2000 throws, for each node.
    assert np.abs(chosen / splits - 0.5).max() < 5 * 0.5 / math.sqrt(splits)


@pytest.mark.parametrize(("train", "validation"), [(0.0, 0.5), (0.5, 0.0), (0.8, 0.3), (-0.1, 0.5), (math.nan, 0.5)])
def test_shares_that_cannot_be_are_refused(train: float, validation: float) -> None:
    with pytest.raises(GraphError, match="both above 0, together at most 1"):
        Split.random(10, seed=0, train=train, validation=validation)


@pytest.mark.parametrize("seed", [-1, 1.5, "0", None])
def test_a_seed_that_is_no_whole_number_is_refused(seed: Any) -> None:
    with pytest.raises(GraphError, match="give a whole number of at least 0"):
        Split.random(10, seed=seed)


def test_masks_that_overlap_or_differ_in_shape_are_refused() -> None:
    some, none = np.array([True, False]), np.array([False, False])
    with pytest.raises(GraphError, match="a node is in two parts"):
        Split(train=some, validation=none, test=some)
    with pytest.raises(GraphError, match="split masks differ in shape"):
        Split(train=some, validation=none, test=np.array([False]))
