"""Frequency estimates from randomized reports are unbiased and have the stated variance."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom, chi2
from torch import Tensor

from veilgraph.privacy.frequency import (
    asking_variance,
    count_named,
    estimate_frequencies,
    estimated_variance,
    expected_observation,
    fixed_people_variance,
    population_variance,
    reports_needed,
)
from veilgraph.privacy.mechanisms import GRR, GRRFS, SubsetSelection, SymmetricChannel

RUNS, PEOPLE = 4000, 60
SHARES = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)

both_mechanisms = pytest.mark.parametrize(
    "mechanism", [GRR(3, 1.0), GRRFS((3, 2, 4), sampled=2, epsilon=1.5)], ids=["GRR", "GRR-FS"]
)


def channel_of(mechanism: GRR | GRRFS) -> SymmetricChannel:
    """Return the channel of the first feature, which has three values."""
    return mechanism.channel if isinstance(mechanism, GRR) else mechanism.channel(0)


def randomized(mechanism: GRR | GRRFS, values: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    """Return reports about a three-valued feature; the other features are constant."""
    if isinstance(mechanism, GRR):
        return mechanism.randomize(values, rng=rng)
    records = np.stack([values.ravel(), np.zeros(values.size, int), np.ones(values.size, int)], axis=1)
    return mechanism.randomize(records, rng=rng)[:, 0].reshape(values.shape)


def people_drawn_anew(rng: np.random.Generator) -> NDArray[Any]:
    return rng.choice(3, size=(RUNS, PEOPLE), p=SHARES.numpy())


def the_same_people(rng: np.random.Generator) -> NDArray[Any]:
    return np.tile(np.repeat([0, 1, 2], (SHARES * PEOPLE).round().int().numpy()), (RUNS, 1))


def estimates_of(reports: NDArray[Any], weights: NDArray[Any], channel: SymmetricChannel) -> Tensor:
    """Return an estimate for each run and value, [runs, values]."""
    observed = np.stack([(reports == value) @ weights for value in range(3)], axis=1)
    return estimate_frequencies(torch.from_numpy(observed), channel)


@both_mechanisms
@pytest.mark.parametrize(
    ("population", "variance"),
    [(the_same_people, fixed_people_variance), (people_drawn_anew, population_variance)],
    ids=["same-people", "drawn-anew"],
)
def test_estimates_are_unbiased_and_vary_as_stated(mechanism: GRR | GRRFS, population: Any, variance: Any) -> None:
    rng, channel = np.random.default_rng(0), channel_of(mechanism)
    reports = randomized(mechanism, population(rng), rng)
    estimates = estimates_of(reports, np.full(PEOPLE, 1 / PEOPLE), channel)
    stated = variance(SHARES, channel, PEOPLE)
    # Five standard errors of a mean over the runs.
    assert (abs(estimates.mean(0) - SHARES) < 5 * (stated / RUNS).sqrt()).all()
    # Sums over 60 people are close to normal, so (runs - 1) * measured / stated is close to chi-square.
    ratio = (RUNS - 1) * (estimates.var(0) / stated).numpy()
    assert (chi2.ppf(1e-6, RUNS - 1) < ratio).all()
    assert (ratio < chi2.isf(1e-6, RUNS - 1)).all()


@both_mechanisms
def test_weighted_reports_are_worth_their_effective_sample_size(mechanism: GRR | GRRFS) -> None:
    rng, channel = np.random.default_rng(1), channel_of(mechanism)
    weights = rng.dirichlet(np.ones(PEOPLE))
    estimates = estimates_of(randomized(mechanism, people_drawn_anew(rng), rng), weights, channel)
    stated = population_variance(SHARES, channel, float(1 / (weights**2).sum()))
    assert (abs(estimates.mean(0) - SHARES) < 5 * (stated / RUNS).sqrt()).all()
    # As above: chi-square for sums of many people, where no single person dominates.
    ratio = (RUNS - 1) * (estimates.var(0) / stated).numpy()
    assert (chi2.ppf(1e-6, RUNS - 1) < ratio).all()
    assert (ratio < chi2.isf(1e-6, RUNS - 1)).all()


@both_mechanisms
def test_the_two_variances_differ_by_who_was_drawn(mechanism: GRR | GRRFS) -> None:
    channel = channel_of(mechanism)
    drawn = population_variance(SHARES, channel, 100) - fixed_people_variance(SHARES, channel, 100)
    torch.testing.assert_close(drawn, SHARES * (1 - SHARES) / 100)


@both_mechanisms
@pytest.mark.parametrize("people", [2, 10, 101])
def test_the_estimated_variance_is_unbiased(mechanism: GRR | GRRFS, people: int) -> None:
    channel = channel_of(mechanism)
    counts = np.arange(people + 1)
    estimated = estimated_variance(torch.from_numpy(counts / people), channel, people).numpy()
    for share in SHARES:
        chances = binom.pmf(counts, people, float(expected_observation(share, channel)))
        assert chances @ estimated == pytest.approx(float(population_variance(share, channel, people)), rel=1e-9)


@pytest.mark.parametrize(
    "mechanism",
    [GRR(3, 1.0), SubsetSelection(4, 0.5), SubsetSelection(5, 1.0), SubsetSelection(5, 0.3, size=3)],
    ids=str,
)
def test_the_classes_that_a_report_names_have_the_stated_covariance(mechanism: GRR | SubsetSelection) -> None:
    """By enumeration in rational arithmetic, for people of shares pi.

    Two classes a and b are named together with the probability
    P(a, b) = c + (d - c) (pi_a + pi_b), d = p (w - 1) / (k - 1), c = (w - 1) (w - 2 p) / ((k - 1) (k - 2)).
    """
    k, w, channel = mechanism.domain_size, mechanism.set_size, mechanism.channel
    shares = [Fraction(2 * c + 1, k**2) for c in range(k)]
    together = np.zeros((k, k), dtype=object)
    for report in mechanism.reports():
        chance = sum(share * mechanism.probability(report, (c,)) for c, share in enumerate(shares))
        for a, b in itertools.product(report, report):
            together[a, b] += chance
    observed = together.diagonal()
    assert observed.tolist() == [channel.other + channel.gain * share for share in shares]
    true, others = channel.keep * (w - 1) / (k - 1), (w - 1) * (w - 2 * channel.keep) / ((k - 1) * (k - 2))
    for a, b in itertools.combinations(range(k), 2):
        assert together[a, b] == others + (true - others) * (shares[a] + shares[b])
    covariance = together - np.outer(observed, observed)
    # A report names exactly w classes: the sum over all classes is constant, and one degree of freedom is lost.
    assert covariance.sum(axis=0).tolist() == [0] * k
    assert np.linalg.matrix_rank(covariance.astype(np.float64)) == k - 1
    stated = population_variance(np.array(shares, dtype=np.float64), channel, 1) * float(channel.gain) ** 2
    assert stated == pytest.approx(covariance.diagonal().astype(np.float64), rel=1e-12)


@pytest.mark.parametrize("people", ["drawn anew", "the same"])
def test_estimates_from_label_sets_are_unbiased_and_vary_as_stated(people: str) -> None:
    rng, mechanism = np.random.default_rng(0), SubsetSelection(5, 1.0)
    shares = np.array([0.4, 0.25, 0.2, 0.1, 0.05])
    same = np.repeat(np.arange(5), (shares * PEOPLE).round().astype(int))
    labels = (rng.choice(5, size=PEOPLE, p=shares) if people == "drawn anew" else same for _ in range(RUNS))
    counts = np.stack([count_named(mechanism.randomize(each, rng=rng), mechanism) for each in labels])
    assert (counts.sum(axis=1) == 2 * PEOPLE).all()
    estimates = estimate_frequencies(counts / PEOPLE, mechanism.channel)
    variance = population_variance if people == "drawn anew" else fixed_people_variance
    stated = variance(shares, mechanism.channel, PEOPLE)
    # As for GRR above.
    assert (abs(estimates.mean(axis=0) - shares) < 5 * np.sqrt(stated / RUNS)).all()
    ratio = (RUNS - 1) * estimates.var(axis=0, ddof=1) / stated
    assert (chi2.ppf(1e-6, RUNS - 1) < ratio).all()
    assert (ratio < chi2.isf(1e-6, RUNS - 1)).all()
    estimated = estimated_variance(counts / PEOPLE, mechanism.channel, PEOPLE)
    if people == "drawn anew":
        error = estimated.std(axis=0) / np.sqrt(RUNS)
        assert (abs(estimated.mean(axis=0) - stated) < 5 * error).all()


def test_shares_of_label_sets_are_tested_jointly_with_one_degree_of_freedom_less_than_classes() -> None:
    """The statistic n (l' - l)^T C^+ (l' - l), C as above, is chi-square: 2,000 collections of 500 people at 5 %.

    Pearson's sum of (observed - expected)^2 / expected has the mean k - w, not k - 1, so that its tests would hardly
    ever fail.
    """
    rng, mechanism, level, collections, people = np.random.default_rng(0), SubsetSelection(18, 1.0), 0.05, 2000, 500
    k, w, keep = 18, mechanism.set_size, float(mechanism.channel.keep)
    shares = (np.arange(k) + 1) / (k * (k + 1) / 2)
    expected = expected_observation(shares, mechanism.channel)
    true, others = keep * (w - 1) / (k - 1), (w - 1) * (w - 2 * keep) / ((k - 1) * (k - 2))
    together = others + (true - others) * (shares[:, None] + shares)
    np.fill_diagonal(together, expected)
    inverse = np.linalg.pinv(together - np.outer(expected, expected), hermitian=True, rcond=1e-9)
    labels = rng.choice(k, size=(collections, people), p=shares)
    observed = np.stack([count_named(mechanism.randomize(each, rng=rng), mechanism) for each in labels]) / people
    distance = observed - expected
    statistic = people * np.einsum("ra,ab,rb->r", distance, inverse, distance)
    alarms = int((statistic > chi2.isf(level, k - 1)).sum())
    # Two sides, 1e-4 in all. The mean is exactly k - 1, and the variance 2 (k - 1) up to a factor 1 - 1/n.
    assert statistic.mean() == pytest.approx(k - 1, abs=5 * np.sqrt(2 * (k - 1) / collections))
    assert binom.ppf(5e-5, collections, level) <= alarms <= binom.isf(5e-5, collections, level)
    pearson = people * (distance**2 / expected).sum(axis=1)
    # The mean of (l' - l)^2 is l (1 - l) / n.
    assert pearson.mean() == pytest.approx(k - w, abs=5 * pearson.std() / np.sqrt(collections))
    assert (pearson > chi2.isf(level, k - 1)).mean() < level / 5


@pytest.mark.parametrize(
    ("mechanism", "share"), [(GRR(7, 1.0), 1.0), (SubsetSelection(18, 1.0), 0.7), (GRR(2, 2.0), 0.5)]
)
def test_the_stated_number_of_reports_gives_the_stated_interval(mechanism: GRR | SubsetSelection, share: float) -> None:
    """The widest interval is that of the share whose reports are nearest to one half."""
    needed = reports_needed(mechanism.channel, 0.05, quantile=1.96)
    shares = np.linspace(0, 1, 1001)
    widths = 1.96 * np.sqrt(population_variance(shares, mechanism.channel, needed))
    assert widths.max() <= 0.05
    assert shares[widths.argmax()] == pytest.approx(share, abs=0.01)
    assert 1.96 * np.sqrt(population_variance(shares, mechanism.channel, needed - 2)).max() > 0.05


@pytest.mark.parametrize(("gamma", "d", "m"), [(2, 53, 10), (3, 7, 2), (5, 4, 4)])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_grr_fs_estimates_are_the_papers(gamma: int, d: int, m: int, epsilon: float) -> None:
    observed = torch.linspace(0, 1, 11, dtype=torch.float64)
    p, q = (e / (math.exp(epsilon) + gamma - 1) for e in (math.exp(epsilon), 1))
    paper = observed * d / (m * (p - q)) + (m - d - m * gamma * q) / (m * gamma * (p - q))
    channel = GRRFS((gamma,) * d, sampled=m, epsilon=epsilon).channel(0)
    torch.testing.assert_close(estimate_frequencies(observed, channel), paper, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("k", [2, 3, 7])
def test_grr_estimates_are_the_inverse_of_the_channels_matrix(k: int) -> None:
    channel = GRR(k, 0.8).channel
    observed = np.random.default_rng(0).dirichlet(np.ones(k))
    matrix = np.array(channel.matrix, dtype=np.float64)
    estimates = estimate_frequencies(torch.from_numpy(observed), channel)
    assert estimates.numpy() == pytest.approx(np.linalg.solve(matrix.T, observed), abs=1e-9)


@both_mechanisms
def test_estimation_undoes_the_expected_observation(mechanism: GRR | GRRFS) -> None:
    observed = expected_observation(SHARES, channel_of(mechanism))
    assert float(observed.sum()) == pytest.approx(1.0, abs=1e-12)
    torch.testing.assert_close(estimate_frequencies(observed, channel_of(mechanism)), SHARES)


@settings(deadline=None)
@given(
    frequency=st.floats(-10, 10),
    domain_size=st.integers(2, 50),
    epsilon=st.floats(0.01, 8),
    rate=st.fractions(min_value="1/100", max_value=1),
    people=st.floats(1, 1e6),
)
def test_a_variance_is_positive_even_for_impossible_frequencies(
    frequency: float, domain_size: int, epsilon: float, rate: Any, people: float
) -> None:
    channel = GRR(domain_size, epsilon).channel.diluted(rate)
    frequencies = torch.tensor(frequency, dtype=torch.float64)
    drawn = float(population_variance(frequencies, channel, people))
    fixed = float(fixed_people_variance(frequencies, channel, people))
    # Drawing people at random adds variance to that of the randomizer; the tolerance is rounding.
    assert 0 < fixed * (1 - 1e-12) <= drawn < math.inf


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("in_place", [False, True])
def test_arrays_and_tensors_get_the_same_numbers(dtype: type[np.floating], in_place: bool) -> None:
    channel = GRRFS((3, 2, 4), sampled=2, epsilon=1.5).channel(0)
    observed = np.random.default_rng(0).dirichlet(np.ones(3), size=50).astype(dtype)
    tensor = torch.from_numpy(observed.copy())
    frequencies = estimate_frequencies(observed.copy(), channel, in_place=in_place)
    assert isinstance(frequencies, np.ndarray)
    found: list[tuple[NDArray[Any], Tensor]] = [
        (frequencies, estimate_frequencies(tensor.clone(), channel, in_place=in_place)),
        (expected_observation(observed, channel), expected_observation(tensor, channel)),
        (population_variance(observed, channel, 60), population_variance(tensor, channel, 60)),
        (fixed_people_variance(observed, channel, 60), fixed_people_variance(tensor, channel, 60)),
        (estimated_variance(observed, channel, 60), estimated_variance(tensor, channel, 60)),
        (
            asking_variance(observed, channel, 60, anchor=0.25, rate=0.5),
            asking_variance(tensor, channel, 60, anchor=0.25, rate=0.5),
        ),
    ]
    for array, expected in found:
        assert array.dtype == dtype
        assert array.tobytes() == expected.numpy().tobytes()


def test_an_estimate_in_place_overwrites_the_observed_shares_and_no_other_does() -> None:
    channel, observed = GRR(2, 1.0).channel, np.array([0.3, 0.7])
    estimates = estimate_frequencies(observed, channel)
    assert observed.tolist() == [0.3, 0.7]
    assert estimate_frequencies(observed, channel, in_place=True) is observed
    assert observed.tolist() == estimates.tolist()
