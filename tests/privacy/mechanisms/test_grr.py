"""Generalized randomized response."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from veilgraph.errors import BudgetError, DomainError
from veilgraph.privacy.mechanisms import GRR
from veilgraph.privacy.mechanisms.random_source import WORDS


class Words:
    """A source of randomness with fixed words."""

    def __init__(self, words: list[int]) -> None:
        self.words = words

    def integers(self, low: int, high: int, size: int) -> NDArray[np.int64]:
        """Return the fixed words; their number must be `size`."""
        assert (low, high, size) == (0, WORDS, len(self.words))
        return np.array(self.words, dtype=np.int64)


@settings(deadline=None)
@given(domain_size=st.integers(2, 1000), epsilon=st.floats(1e-3, 10))
def test_keep_and_other_are_the_textbook_probabilities(domain_size: int, epsilon: float) -> None:
    channel = GRR(domain_size, epsilon).channel
    # Each value's number of words is rounded to an integer, so at most domain_size words are moved.
    tolerance = domain_size / WORDS + 1e-15
    total = math.exp(epsilon) + domain_size - 1
    assert float(channel.keep) == pytest.approx(math.exp(epsilon) / total, rel=1e-12, abs=tolerance)
    assert float(channel.other) == pytest.approx(1 / total, rel=1e-12, abs=tolerance)
    assert channel.keep + (domain_size - 1) * channel.other == 1


def test_the_channels_matrix_is_probability_row_by_row() -> None:
    mechanism = GRR(4, 0.7)
    for (value,) in mechanism.records():
        assert mechanism.channel.matrix[int(value)] == tuple(
            mechanism.probability(report, (value,)) for report in mechanism.reports()
        )


@settings(deadline=None)
@given(domain_size=st.integers(2, 300), epsilon=st.floats(1e-3, 10), data=st.data())
def test_reports_change_exactly_at_the_thresholds_of_the_table(
    domain_size: int, epsilon: float, data: st.DataObject
) -> None:
    mechanism = GRR(domain_size, epsilon)
    true, other = mechanism.table.true, mechanism.table.other
    value = data.draw(st.integers(0, domain_size - 1))
    starts = [0, *(true + step * other for step in range(domain_size - 1))]
    ends = [*(start - 1 for start in starts[1:]), WORDS - 1]
    around = [(value + step) % domain_size for step in range(domain_size)]
    people = np.full(domain_size, value)
    for words in (starts, ends):
        assert mechanism.randomize(people, rng=Words(words)).tolist() == around


def test_reports_keep_shape_and_type() -> None:
    for dtype in (np.uint8, np.int8, np.uint16, np.int32, np.int64, np.uint64):
        for shape in ((0,), (7,), (7, 1), (2, 3, 4)):
            reports = GRR(3, 0.1).randomize(np.ones(shape, dtype=dtype), rng=np.random.default_rng(0))
            assert (reports.shape, reports.dtype) == (shape, np.dtype(dtype))


@pytest.mark.parametrize(("dtype", "domain_size"), [(np.uint8, 257), (np.int8, 129)])
def test_a_type_that_cannot_hold_every_report_is_refused(dtype: Any, domain_size: int) -> None:
    people = np.zeros(3, dtype=dtype)
    GRR(domain_size - 1, 1.0).randomize(people, rng=np.random.default_rng(0))
    with pytest.raises(DomainError, match=f"cannot hold reports of 0..{domain_size - 1}"):
        GRR(domain_size, 1.0).randomize(people, rng=np.random.default_rng(0))


@pytest.mark.parametrize("epsilon", [1e-17, 0.0, -0.5, math.nan])
def test_an_epsilon_that_is_not_above_zero_is_refused(epsilon: float) -> None:
    with pytest.raises(BudgetError, match="epsilon is"):
        GRR(2, epsilon)


def test_a_larger_epsilon_keeps_more_values() -> None:
    keeps = [GRR(5, epsilon).channel.keep for epsilon in (0.01, 0.1, 1.0, 5.0, math.inf)]
    assert keeps == sorted(set(keeps))
    assert keeps[-1] == 1
