"""Sampling m out of d features: subsets are uniform, and means over them are exact."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from veilgraph.privacy.mechanisms.feature_sampling import draw_subsets, mean_over_subsets, split_means


@pytest.mark.parametrize(("features", "sampled"), [(2, 1), (5, 2), (5, 4), (7, 3)])
def test_every_set_of_sampled_features_is_equally_likely(features: int, sampled: int) -> None:
    people, sets = 30_000, math.comb(features, sampled)
    masks = draw_subsets(people, num_features=features, sampled=sampled, rng=np.random.default_rng(0))
    numbers = sum(mask.astype(np.int64) << i for i, mask in enumerate(masks))
    kinds, observed = np.unique(numbers, return_counts=True)
    assert [int(kind).bit_count() for kind in kinds] == [sampled] * sets
    # A correct sampler fails for one seed in a million.
    assert chisquare(observed).pvalue > 1e-6


def test_sampling_every_feature_leaves_one_subset() -> None:
    masks = list(draw_subsets(50, num_features=4, sampled=4, rng=np.random.default_rng(0)))
    assert np.stack(masks).all()
    assert len(masks) == 4


@settings(deadline=None)
@given(factors=st.lists(st.fractions(0, 100, max_denominator=50), min_size=1, max_size=7), data=st.data())
def test_the_mean_over_subsets_is_the_mean_over_the_list_of_them(factors: list[Fraction], data: st.DataObject) -> None:
    sampled = data.draw(st.integers(1, len(factors)))
    products = [math.prod(chosen) for chosen in itertools.combinations(factors, sampled)]
    assert mean_over_subsets(factors, sampled, one=Fraction(1)) == sum(products, Fraction(0)) / len(products)


def test_floats_lose_no_accuracy_at_real_size() -> None:
    factors = np.random.default_rng(0).uniform(0.1, 2, size=(53, 20))
    means = mean_over_subsets(list(factors), 10, one=np.ones(20))
    exact = [mean_over_subsets([Fraction(f) for f in column], 10, one=Fraction(1)) for column in factors.T[:3]]
    # About 53 roundings of 1.1e-16 each, since all terms are positive.
    assert means[:3] == pytest.approx([float(mean) for mean in exact], rel=4 * 53 * 1.2e-16)


@given(factors=st.lists(st.fractions(0, 3), min_size=1, max_size=7), data=st.data())
@settings(deadline=None)
def test_a_mean_over_subsets_splits_into_those_without_and_with_a_feature(
    factors: list[Fraction], data: st.DataObject
) -> None:
    sampled = data.draw(st.integers(1, len(factors)))
    count = data.draw(st.integers(0, len(factors)))
    other = data.draw(st.fractions(0, 3))
    splits = list(split_means(factors, sampled, count, one=Fraction(1)))
    assert len(splits) == count
    for i, (without, share) in enumerate(splits):
        replaced = [*factors[:i], other, *factors[i + 1 :]]
        assert without + share * other == mean_over_subsets(replaced, sampled, one=Fraction(1))


class CountedNumber:
    """A number that counts the products it takes part in."""

    products = 0

    def __init__(self, value: float) -> None:
        self.value = value

    def __mul__(self, other: CountedNumber | float) -> CountedNumber:
        CountedNumber.products += 1
        return CountedNumber(self.value * (other.value if isinstance(other, CountedNumber) else other))

    def __truediv__(self, other: float) -> CountedNumber:
        return CountedNumber(self.value / other)

    def __add__(self, other: CountedNumber | float) -> CountedNumber:
        return CountedNumber(self.value + (other.value if isinstance(other, CountedNumber) else other))

    __radd__ = __add__


@pytest.mark.parametrize(("features", "sampled"), [(40, 20), (80, 40), (160, 80), (160, 2), (160, 158)])
def test_splitting_by_every_feature_takes_steps_in_proportion_to_one_mean(features: int, sampled: int) -> None:
    """The number of features to split by is no factor of the work: a campaign cannot keep its readers busy."""
    factors = [CountedNumber(1 - i / 1000) for i in range(features)]
    CountedNumber.products = 0
    assert len(list(split_means(factors, sampled, features, one=CountedNumber(1.0)))) == features
    assert CountedNumber.products <= 20 * (sampled * (features - sampled) + features)
