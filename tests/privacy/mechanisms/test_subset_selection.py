"""Subset selection: sets of classes instead of single ones."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilgraph.errors import BudgetError, DomainError
from veilgraph.privacy.frequency import estimate_frequencies, population_variance
from veilgraph.privacy.mechanisms import GRR, SubsetSelection
from veilgraph.privacy.mechanisms.random_source import WORDS
from veilgraph.privacy.mechanisms.registry import best_label_mechanism
from veilgraph.privacy.mechanisms.subset_selection import best_size

domains = st.integers(2, 300)
epsilons = st.floats(1e-3, 10)


@settings(deadline=None)
@given(domain_size=domains, epsilon=epsilons, data=st.data())
def test_the_exact_epsilon_is_at_most_the_requested_one_and_within_a_millionth(
    domain_size: int, epsilon: float, data: st.DataObject
) -> None:
    size = data.draw(st.integers(1, domain_size - 1))
    mechanism = SubsetSelection(domain_size, epsilon, size)
    table = mechanism.table
    assert table.inside + table.outside == WORDS
    with localcontext(prec=60):
        exact = (Decimal(table.inside * (domain_size - size)) / Decimal(table.outside * size)).ln()
        assert Decimal(epsilon) - Decimal("1e-6") < exact <= Decimal(epsilon)
    assert exact <= Decimal(mechanism.privacy_loss.user_level) <= Decimal(math.nextafter(epsilon, math.inf))
    ratio = mechanism.likelihood.keep / mechanism.likelihood.other
    assert math.log(ratio) == pytest.approx(float(exact), abs=1e-12)


@settings(deadline=None)
@given(domain_size=domains, epsilon=epsilons)
def test_sets_of_one_class_are_grr(domain_size: int, epsilon: float) -> None:
    sets, single = SubsetSelection(domain_size, epsilon, 1), GRR(domain_size, epsilon)
    assert sets.channel == single.channel
    assert sets.likelihood == single.likelihood
    assert sets.privacy_loss == single.privacy_loss
    assert all(sets.probability((r,), (v,)) == single.probability((r,), (v,)) for r in (0, 1) for v in (0, 1))


def mutual_information(mechanism: SubsetSelection) -> float:
    """Return the mutual information of a uniform class and its report, by enumeration."""
    classes, total = range(mechanism.domain_size), 0.0
    for report in mechanism.reports():
        chances = [float(mechanism.probability(report, (x,))) for x in classes]
        mean = sum(chances) / len(chances)
        total += sum(chance * math.log(chance / mean) for chance in chances) / len(chances)
    return total


@pytest.mark.parametrize("domain_size", [2, 3, 4, 6, 7, 10])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0, 4.0])
def test_the_best_size_has_the_greatest_mutual_information_of_all(domain_size: int, epsilon: float) -> None:
    found = [mutual_information(SubsetSelection(domain_size, epsilon, w)) for w in range(1, domain_size)]
    assert found[best_size(domain_size, epsilon) - 1] == pytest.approx(max(found), rel=1e-9)
    assert SubsetSelection(domain_size, epsilon).set_size == best_size(domain_size, epsilon)


def test_the_best_sizes_are_those_of_the_literature() -> None:
    assert [best_size(7, epsilon) for epsilon in (4.0, 2.0, 1.0, 0.5)] == [1, 2, 2, 3]
    assert [best_size(18, epsilon) for epsilon in (2.0, 1.0, 0.5)] == [4, 6, 8]
    assert [best_size(4, epsilon) for epsilon in (2.0, 1.0, 0.5)] == [1, 1, 2]
    assert {best_size(2, epsilon) for epsilon in (0.01, 1.0, 30.0, math.inf)} == {1}


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
def test_with_many_classes_the_best_size_is_a_share_that_depends_on_epsilon_alone(epsilon: float) -> None:
    odds = math.exp(epsilon)
    share = (epsilon * odds - odds + 1) / (odds - 1) ** 2  # where the derivative of the mutual information is zero
    assert best_size(2**16, epsilon) == pytest.approx(2**16 * share, abs=1)


def test_the_best_label_mechanism_is_grr_exactly_where_sets_of_one_are_best() -> None:
    for domain_size in (2, 4, 7, 18):
        for epsilon in (0.25, 0.5, 1.0, 2.0, 8.0, math.inf):
            mechanism = best_label_mechanism(domain_size, epsilon)
            assert mechanism.set_size == best_size(domain_size, epsilon)
            assert isinstance(mechanism, GRR) == (mechanism.set_size == 1)


@settings(deadline=None, max_examples=50)
@given(domain_size=st.integers(2, 9), epsilon=epsilons, data=st.data())
def test_the_channel_is_the_marginal_of_the_sets(domain_size: int, epsilon: float, data: st.DataObject) -> None:
    mechanism = SubsetSelection(domain_size, epsilon, data.draw(st.integers(1, domain_size - 1)))
    for (x,) in mechanism.records():
        for y in range(domain_size):
            sets = [report for report in mechanism.reports() if y in report]
            naming = sum((mechanism.probability(report, (x,)) for report in sets), Fraction(0))
            assert naming == mechanism.channel.matrix[int(x)][y]
    assert all(sum(row) == mechanism.set_size for row in mechanism.channel.matrix)


@pytest.mark.parametrize("domain_size", [7, 18, 64, 65, 130])
def test_debiased_shares_are_unbiased_and_as_variable_as_theory_says(domain_size: int) -> None:
    mechanism, people, rng = SubsetSelection(domain_size, 1.0), 40_000, np.random.default_rng(1)
    shares = np.arange(1, domain_size + 1) / (domain_size * (domain_size + 1) / 2)
    named = mechanism.named(mechanism.randomize(rng.choice(domain_size, size=people, p=shares), rng=rng))
    assert (named.sum(axis=1) == mechanism.set_size).all()
    errors = estimate_frequencies(named.mean(axis=0), mechanism.channel) - shares
    scale = np.sqrt(population_variance(shares, mechanism.channel, people))
    # Standardised errors of a correct randomizer are within 5 for all classes but one time in a thousand.
    assert np.abs(errors / scale).max() < 5
    # Their mean square is 1, with a standard deviation of at most sqrt(2 / (classes / 2)); four of them are allowed.
    assert np.square(errors / scale).mean() == pytest.approx(1.0, abs=4 * math.sqrt(4 / domain_size))


@settings(deadline=None)
@given(domain_size=st.integers(2, 200), data=st.data())
def test_masks_and_codes_are_inverse(domain_size: int, data: st.DataObject) -> None:
    mechanism = SubsetSelection(domain_size, 1.0)
    sets = st.sets(st.integers(0, domain_size - 1), min_size=mechanism.set_size, max_size=mechanism.set_size)
    codes = [tuple(sorted(each)) for each in data.draw(st.lists(sets, max_size=5))]
    masks = mechanism.encode(codes)
    mechanism.check_reports(masks)
    assert masks.shape == (len(codes), -(-domain_size // 64))
    assert mechanism.decode(masks) == codes
    for row, classes in zip(masks.tolist(), codes, strict=True):
        assert sum(word << (64 * i) for i, word in enumerate(row)) == sum(1 << c for c in classes)


@pytest.mark.parametrize("classes", [(0, 1), (0, 1, 2, 3), ()])
def test_a_set_of_another_size_is_refused(classes: tuple[int, ...]) -> None:
    mechanism = SubsetSelection(8, 0.5)
    masks = mechanism.encode([(0, 1, 2), classes])
    with pytest.raises(DomainError, match="not a set of 3 of 8 classes"):
        mechanism.check_reports(masks)


@pytest.mark.parametrize("domain_size", [8, 63, 66, 127])
def test_a_class_beyond_the_domain_is_refused(domain_size: int) -> None:
    mechanism = SubsetSelection(domain_size, 0.5)
    masks = mechanism.encode([range(mechanism.set_size)])
    masks[0, -1] |= np.uint64(1) << np.uint64(domain_size % 64)
    with pytest.raises(DomainError, match="not a set of"):
        mechanism.check_reports(masks)


def test_masks_of_another_shape_or_type_are_refused() -> None:
    mechanism = SubsetSelection(8, 0.5)
    for reports in (np.zeros(3, dtype=np.uint64), np.zeros((3, 2), dtype=np.uint64), np.zeros((3, 1))):
        with pytest.raises(DomainError, match="bit masks"):
            mechanism.check_reports(reports)


@pytest.mark.parametrize("size", [0, 8, -1, 9])
def test_a_size_that_is_no_set_is_refused(size: int) -> None:
    with pytest.raises(BudgetError, match="a set names 1 to 7 of 8 classes"):
        SubsetSelection(8, 1.0, size)


@pytest.mark.parametrize("epsilon", [1e-17, 0.0, -0.5, math.nan])
def test_an_epsilon_that_is_not_above_zero_is_refused(epsilon: float) -> None:
    with pytest.raises(BudgetError, match="epsilon is"):
        SubsetSelection(5, epsilon, 2)


def test_records_of_two_classes_are_refused() -> None:
    with pytest.raises(DomainError, match="expected one row per node and 1 features"):
        SubsetSelection(5, 1.0).randomize(np.zeros((4, 2), dtype=np.int64), rng=np.random.default_rng(0))


def test_without_privacy_a_report_is_the_class_itself() -> None:
    mechanism = SubsetSelection(5, math.inf)
    truths = np.arange(5)
    assert mechanism.decode(mechanism.randomize(truths, rng=np.random.default_rng(0))) == [(v,) for v in range(5)]
    assert mechanism.privacy_loss.user_level == math.inf
    with pytest.raises(BudgetError, match="without privacy"):
        SubsetSelection(5, math.inf, 2)


class Integers:
    """A source of randomness with fixed integers, one list for each call."""

    def __init__(self, *draws: tuple[int, list[int]]) -> None:
        self.draws = list(draws)

    def integers(self, low: int, high: int, size: int) -> np.ndarray:
        """Return the next list; its bound and its length must be those asked for."""
        bound, values = self.draws.pop(0)
        assert (low, high, size) == (0, bound, len(values))
        return np.array(values, dtype=np.int64)


def test_a_report_follows_from_its_words_as_documented() -> None:
    mechanism = SubsetSelection(4, 0.5, size=2)
    inside = mechanism.table.inside
    # Person 0 holds class 1: the last word inside, then the other classes 0, 2, 3 with integers below 3, 2, 1.
    # Person 1 holds class 1 and draws the first word outside.
    source = Integers((WORDS, [inside - 1, inside]), (3, [1, 1]), (2, [0, 1]), (1, [0, 0]))
    masks = mechanism.randomize(np.array([1, 1]), rng=source)
    # 0: one to choose: 1 < 1 fails for class 0, 0 < 1 takes class 2. 1: two to choose: 1 < 2 takes class 0, then
    # 1 < 1 fails for class 2, and class 3 is the last.
    assert mechanism.decode(masks) == [(1, 2), (0, 3)]
    assert not source.draws
