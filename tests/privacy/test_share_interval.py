"""Intervals of shares hold at their level: enumerated with the exact distribution of the count."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import hypergeom

from veilgraph.privacy.mechanisms import GRR, LabelMechanism
from veilgraph.privacy.mechanisms.registry import best_label_mechanism
from veilgraph.privacy.share_interval import share_intervals

Z90 = 1.6448536


def distribution(
    people: int, reports: int, mechanism: LabelMechanism, holders: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the exact probability of each count, [holders, reports + 1]: a random sample of the people reports."""
    keep, other = float(mechanism.channel.keep), float(mechanism.channel.other)
    among = np.arange(reports + 1)
    roots = np.exp(2j * np.pi * among / (reports + 1))
    powers = (1 - keep + keep * roots) ** among[:, None] * (1 - other + other * roots) ** (reports - among)[:, None]
    given = np.fft.fft(powers, axis=1).real / (reports + 1)
    sampled = np.array([hypergeom.pmf(among, people, number, reports) for number in holders])
    return np.asarray(sampled @ given)


def coverage(people: int, reports: int, mechanism: LabelMechanism) -> NDArray[np.float64]:
    """Return the probability that the interval of 90 % holds the share, for shares from 0 to 1."""
    holders = np.unique(np.linspace(0, people, 41).round().astype(int))
    chances = distribution(people, reports, mechanism, holders)
    unseen = (people - reports) / (people - 1)
    ends = [
        share_intervals(count, reports, mechanism.channel, unseen=unseen, quantiles=[Z90])[0]
        for count in range(reports + 1)
    ]
    low, high = np.array(ends).T
    shares = holders[:, None] / people
    return np.asarray((chances * ((low <= shares + 1e-9) & (shares <= high + 1e-9))).sum(axis=1))


@pytest.mark.parametrize(("people", "reports"), [(40, 30), (3000, 30), (130, 100)])
@pytest.mark.parametrize("classes", [2, 6])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_an_interval_of_90_percent_holds_in_87_to_93_percent(
    people: int, reports: int, classes: int, epsilon: float
) -> None:
    """Counts are whole numbers, so the rate of one share swings around its mean; it never falls far."""
    held = coverage(people, reports, best_label_mechanism(classes, epsilon))
    assert 0.87 <= held.mean() <= 0.93
    assert held.min() >= 0.83


@pytest.mark.parametrize("classes", [2, 6])
def test_an_interval_holds_at_its_level_for_a_class_that_nobody_has(classes: int) -> None:
    """An interval that is cut off at 0 would hold in 95 %: its upper end never misses."""
    held = coverage(1000, 200, best_label_mechanism(classes, 1.0))
    assert abs(held[0] - 0.9) < 0.03


def test_of_two_classes_one_interval_is_the_rest_of_the_other() -> None:
    channel = GRR(2, 1.0).channel
    for count in (0, 3, 14, 20):
        (first,), (second,) = (
            share_intervals(number, 40, channel, unseen=0.3, quantiles=[Z90]) for number in (count, 40 - count)
        )
        assert first == pytest.approx((1 - second[1], 1 - second[0]), abs=1e-6)


def test_an_interval_is_never_empty_and_holds_the_possible_estimate() -> None:
    channel = GRR(6, 0.5).channel
    for count in range(31):
        ((low, high),) = share_intervals(count, 30, channel, unseen=0.5, quantiles=[Z90])
        estimate = (count / 30 - float(channel.other)) / float(channel.gain)
        assert 0 <= low <= min(max(estimate, 0), 1) <= high <= 1
        assert low < high


def test_what_is_not_seen_makes_intervals_wider_and_a_higher_level_too() -> None:
    channel = GRR(2, 4.0).channel
    widths = []
    for unseen in (0.0, 0.5, 1.0):
        (inner, outer) = share_intervals(30, 60, channel, unseen=unseen, quantiles=[Z90, 3.0])
        assert outer[0] < inner[0] < inner[1] < outer[1]
        widths.append(inner[1] - inner[0])
    assert widths == sorted(widths)
    # Without randomization half-widths are those of binomials: sqrt(1 - f) z / (2 sqrt(n)).
    ((low, high),) = share_intervals(500, 1000, GRR(2, math.inf).channel, unseen=0.25, quantiles=[Z90])
    assert high - low == pytest.approx(2 * Z90 * 0.5 * 0.5 / math.sqrt(1000), rel=0.05)


def test_a_shift_moves_the_interval() -> None:
    channel = GRR(2, 2.0).channel
    ((low, high),) = share_intervals(500, 1000, channel, unseen=0.5, quantiles=[Z90])
    ((lower, higher),) = share_intervals(500, 1000, channel, unseen=0.5, quantiles=[Z90], shift=-0.1)
    assert (lower, higher) == pytest.approx((low - 0.1, high - 0.1), abs=0.003)
