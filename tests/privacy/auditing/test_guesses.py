"""Bets on records: their bound holds for every number of bets, and they are chosen where they promise most."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from veilgraph.privacy.auditing.guesses import WHOLE, Learned, Sample, guesses, nominate, proven_epsilon


@pytest.mark.parametrize("group_size", [2, 7])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_the_proven_epsilon_exceeds_the_truth_with_the_stated_error_at_most(epsilon: float, group_size: int) -> None:
    truth, error = math.exp(epsilon) / (math.exp(epsilon) + group_size - 1), 0.01
    found = []
    for bets in (5, 50, 500):
        right = np.arange(bets + 1)
        too_high = [proven_epsilon(int(count), int(bets - count), group_size, error) > epsilon for count in right]
        found.append(float(binom.pmf(right, bets, truth)[too_high].sum()))
    assert max(found) <= error
    assert found[-1] > error / 2  # no slack either


def test_no_bet_proves_nothing_and_bets_without_a_mistake_prove_a_finite_epsilon() -> None:
    assert proven_epsilon(0, 10, 2, 0.01) == 0
    # R ** 500 = error
    assert proven_epsilon(500, 0, 2, 0.01) == pytest.approx(-math.log(math.expm1(-math.log(0.01) / 500)))


def test_a_guess_is_the_likeliest_record_and_its_score_compares_it_with_the_mean_of_the_others() -> None:
    winners, scores = guesses(np.log([[0.6, 0.1, 0.3], [0.2, 0.2, 0.4]]))
    assert winners.tolist() == [0, 2]
    assert scores == pytest.approx([math.log(0.6 / 0.2), math.log(0.4 / 0.2)])


def test_the_bet_on_the_only_record_that_gives_a_report_is_nominated() -> None:
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 3, size=8000)
    reports = np.where(numbers == 2, 3, rng.integers(0, 3, size=8000)).astype(np.int16)[:, None]
    sample = Sample(reports, numbers)
    learned = Learned.fit(sample.take(np.arange(4000)), [4], 3)
    best = nominate(learned, sample.take(np.arange(4000, 8000)), [(0, 1, 2), (0, 1), (0, 2), (1, 2)], 4)[0]
    assert 2 in best.group
    winners, scores = guesses(learned.log_likelihoods(sample, best.group, best.view))
    own = np.searchsorted(best.group, numbers)
    among = np.isin(numbers, best.group)
    right, wrong = best.count(winners[among], scores[among], own[among])
    assert right > 2000
    assert wrong == 0


def test_a_report_that_was_not_seen_tells_nothing() -> None:
    numbers = np.repeat([0, 1], 100)
    learned = Learned.fit(Sample(np.repeat([[0], [1]], 100, axis=0).astype(np.int16), numbers), [2], 2)
    unseen = Sample(np.array([[2]], dtype=np.int16), np.array([0]))
    assert learned.log_likelihoods(unseen, (0, 1), WHOLE).tolist() == [[0, 0]]


def test_a_score_that_is_stated_wrongly_proves_no_more_than_a_true_one() -> None:
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 2, size=8000)
    reports = rng.integers(0, 2, size=8000)  # they say nothing, and are stated to say everything
    stated = np.where(reports[:, None] == np.arange(2), 0.0, -np.inf)
    sample = Sample(reports.astype(np.int16)[:, None], numbers, stated)
    half = sample.take(np.arange(4000))
    for bet in nominate(Learned.fit(half, [2], 2), half, [(0, 1)], 4):
        rest = sample.take(np.arange(4000, 8000))
        winners, scores = guesses(Learned.fit(half, [2], 2).log_likelihoods(rest, bet.group, bet.view))
        right, wrong = bet.count(winners, scores, rest.numbers)
        assert proven_epsilon(right, wrong, 2, 1e-6) == 0
