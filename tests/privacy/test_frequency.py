"""Estimates from randomized reports: unbiased, and as far off as they say."""

from __future__ import annotations

import math
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
    estimate_frequencies,
    estimated_variance,
    expected_observation,
    fixed_people_variance,
    multi_bit_values,
    population_variance,
    project_to_simplex,
)
from veilgraph.privacy.mechanisms import GRR, GRRFS, MultiBit, SymmetricChannel

RUNS, PEOPLE = 4000, 60
SHARES = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)

both_mechanisms = pytest.mark.parametrize(
    "mechanism", [GRR(3, 1.0), GRRFS((3, 2, 4), sampled=2, epsilon=1.5)], ids=["GRR", "GRR-FS"]
)


def channel_of(mechanism: GRR | GRRFS) -> SymmetricChannel:
    """Of a three-valued feature, the first one."""
    return mechanism.channel if isinstance(mechanism, GRR) else mechanism.channel(0)


def randomized(mechanism: GRR | GRRFS, values: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    """Reports on a three-valued feature that each person holds, whatever the other features are."""
    if isinstance(mechanism, GRR):
        return mechanism.randomize(values, rng=rng)
    records = np.stack([values.ravel(), np.zeros(values.size, int), np.ones(values.size, int)], axis=1)
    return mechanism.randomize(records, rng=rng)[:, 0].reshape(values.shape)


def people_drawn_anew(rng: np.random.Generator) -> NDArray[Any]:
    return rng.choice(3, size=(RUNS, PEOPLE), p=SHARES.numpy())


def the_same_people(rng: np.random.Generator) -> NDArray[Any]:
    return np.tile(np.repeat([0, 1, 2], (SHARES * PEOPLE).round().int().numpy()), (RUNS, 1))


def estimates_of(reports: NDArray[Any], weights: NDArray[Any], channel: SymmetricChannel) -> Tensor:
    """An estimate for each run and value."""
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
    # As above: chi-square for sums of many people, none of whom dominates.
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
    # A person drawn at random adds to the randomizer's variance; one unit in the last place is rounding.
    assert 0 < fixed * (1 - 1e-12) <= drawn < math.inf


def test_multi_bit_values_are_unbiased() -> None:
    mechanism = MultiBit((-2.0, 0.0, 10.0, 0.0), (2.0, 1.0, 20.0, 5.0), sampled=2, epsilon=2.0)
    true, people = np.array([-1.0, 0.9, 20.0, 2.5]), 200_000
    reports = mechanism.randomize(np.tile(true, (people, 1)), rng=np.random.default_rng(0))
    values = multi_bit_values(torch.from_numpy(reports), mechanism).to(torch.float64)
    # A report x' is -1, 0 or 1 with E x'^2 = m/d and E x' = m/d * (2p - 1) * t, t in -1..1 being the value's position.
    half_range = (np.array(mechanism.upper) - mechanism.lower) / 2
    position = (true - mechanism.lower) / half_range - 1
    gain = 2 / 4 * math.tanh(1.0)
    variance = (half_range / gain) ** 2 * (2 / 4 - (gain * position) ** 2)
    # Five standard errors.
    assert (abs(values.mean(0).numpy() - true) < 5 * np.sqrt(variance / people)).all()


rows = st.integers(2, 8).flatmap(
    lambda size: st.lists(st.floats(-100, 100), min_size=size, max_size=size).map(
        lambda row: torch.tensor([row], dtype=torch.float64)
    )
)


@settings(deadline=None)
@given(estimates=rows)
def test_a_projection_is_a_distribution_and_its_own_projection(estimates: Tensor) -> None:
    projected = project_to_simplex(estimates)
    assert float(projected.min()) >= 0
    assert float(projected.sum()) == pytest.approx(1.0, abs=1e-12)
    torch.testing.assert_close(project_to_simplex(projected), projected, rtol=0, atol=1e-12)


@settings(deadline=None)
@given(estimates=rows, seed=st.integers(0, 2**32 - 1))
def test_no_distribution_is_nearer_than_the_projection(estimates: Tensor, seed: int) -> None:
    projected = project_to_simplex(estimates)
    size = estimates.shape[1]
    rng = np.random.default_rng(seed)
    others = np.concatenate([np.eye(size), rng.dirichlet(np.ones(size), 20), rng.dirichlet(np.full(size, 0.1), 20)])
    # Nearest in a convex set: from it, every other point lies at a right angle to the estimate or behind.
    beyond = (torch.from_numpy(others) - projected) @ (estimates - projected).T
    assert float(beyond.max()) <= 1e-9
    assert (torch.cdist(torch.from_numpy(others), estimates) >= torch.dist(projected, estimates) - 1e-9).all()


def test_a_projection_is_a_distribution_where_single_precision_ends() -> None:
    estimates = torch.tensor([[1e8, 0.0, 1.0], [-3e7, -3e7, -3e7], [1e30, -1e30, 0.0]])
    expected = torch.tensor([[1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3], [1.0, 0.0, 0.0]])
    torch.testing.assert_close(project_to_simplex(estimates), expected)


def test_projection_leaves_its_argument_as_it_is() -> None:
    estimates = torch.tensor([[1.2, -0.2]])
    project_to_simplex(estimates)
    assert estimates.tolist() == torch.tensor([[1.2, -0.2]]).tolist()
