"""Codes of feature reports for every mechanism, and the one-hot columns made from them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import chi2

from veilgraph.errors import ReconstructionError
from veilgraph.graph import Graph, PerturbedGraph
from veilgraph.privacy.frequency import asking_variance, estimate_frequencies, population_variance
from veilgraph.privacy.mechanisms import GRR, GRRFS, NOT_ASKED, JointGRR, Mechanism, MultiBit
from veilgraph.privacy.schema import Column, FeatureSchema
from veilgraph.reconstruct import NeighbourhoodMean, reconstruct_features
from veilgraph.reconstruct.features import num_columns, one_hot_features
from veilgraph.reconstruct.report_codes import ReportCodes

UNEQUAL = (2, 3, 2, 4)


def reported(
    mechanism: Mechanism, records: np.ndarray, sizes: tuple[int, ...], *, seed: int = 0, graph: Graph | None = None
) -> PerturbedGraph:
    columns = tuple(Column(name=f"f{i}", values=tuple(map(str, range(size)))) for i, size in enumerate(sizes))
    nodes = len(records)
    return PerturbedGraph(
        graph=graph or Graph.from_edges([[0], [1]], nodes),
        schema=FeatureSchema(columns=columns, classes=("a", "b")),
        features=mechanism.randomize(records, rng=np.random.default_rng(seed)),
        labels=np.zeros(nodes, dtype=np.int64),
        has_features=np.ones(nodes, dtype=np.bool_),
        has_label=np.zeros(nodes, dtype=np.bool_),
        feature_mechanism=mechanism,
        label_mechanism=GRR(2, 1.0),
    )


def random_records(sizes: tuple[int, ...], people: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(0, size, people) for size in sizes], axis=1)


def test_padded_reports_answer_everything() -> None:
    answers = ReportCodes.of(reported(GRRFS(UNEQUAL, 2, 1.0), random_records(UNEQUAL, 50), UNEQUAL))
    assert answers.answering_rate == 1
    assert answers.asked.all()


def test_joint_reports_answer_what_was_asked() -> None:
    perturbed = reported(JointGRR(UNEQUAL, 2, 1.0), random_records(UNEQUAL, 50), UNEQUAL)
    answers = ReportCodes.of(perturbed)
    assert answers.answering_rate == 0.5
    assert (answers.asked.sum(axis=1) == 2).all()
    np.testing.assert_array_equal(answers.asked, perturbed.features != NOT_ASKED)


def test_signs_of_binary_features_are_codes_with_the_channel_of_a_sign() -> None:
    sizes, mechanism = (2,) * 5, MultiBit((0.0,) * 5, (1.0,) * 5, sampled=2, epsilon=1.5)
    perturbed = reported(mechanism, random_records(sizes, 50), sizes)
    answers = ReportCodes.of(perturbed)
    np.testing.assert_array_equal(answers.codes, perturbed.features.clip(-1, 1) * 0.5 + 0.5 - 1.5 * ~answers.asked)
    assert answers.channels == (GRR(2, 1.5).channel,) * 5
    assert answers.answering_rate == 0.4


def test_signs_of_other_features_are_refused() -> None:
    mechanism = MultiBit((0.0,) * 4, tuple(size - 1.0 for size in UNEQUAL), sampled=2, epsilon=1.0)
    with pytest.raises(ReconstructionError, match=r"more than two values .* MultiBit: use GRRFS or JointGRR"):
        ReportCodes.of(reported(mechanism, random_records(UNEQUAL, 10), UNEQUAL))


def test_columns_of_everyone_average_to_the_share_among_the_answers() -> None:
    perturbed = reported(JointGRR(UNEQUAL, 2, 1.0), random_records(UNEQUAL, 300), UNEQUAL)
    columns, start = one_hot_features(perturbed), 0
    for i, size in enumerate(UNEQUAL):
        given = perturbed.features[perturbed.features[:, i] != NOT_ASKED, i]
        values = range(size) if size > 2 else (1,)
        shares = torch.tensor([(given == value).mean() for value in values], dtype=torch.float32)
        torch.testing.assert_close(columns[:, start : start + num_columns(size)].mean(0), shares, atol=1e-5, rtol=0)
        start += num_columns(size)


def test_nodes_without_a_report_have_zero_columns_and_no_weight() -> None:
    perturbed = reported(JointGRR(UNEQUAL, 2, 1.0), random_records(UNEQUAL, 40), UNEQUAL)
    silent = np.arange(40) < 15
    garbage = perturbed.features.copy()
    garbage[silent] = 1
    found = [
        one_hot_features(replace(perturbed, features=f, has_features=~silent)) for f in (perturbed.features, garbage)
    ]
    assert (found[0][:15] == 0).all()
    assert torch.equal(found[0], found[1])


def test_a_feature_that_nobody_was_asked_about_counts_as_uniform() -> None:
    perturbed = reported(JointGRR((3,) * 8, 1, 1.0), random_records((3,) * 8, 2), (3,) * 8)
    columns = one_hot_features(perturbed)
    nobody = np.flatnonzero((perturbed.features == NOT_ASKED).all(axis=0))
    for i in nobody:
        torch.testing.assert_close(columns[:, 3 * i : 3 * i + 3], torch.full((2, 3), 1 / 3))


def test_a_neighbourhood_unlike_the_whole_varies_as_stated() -> None:
    """A quarter of people hold the value; of the neighbourhood that is estimated, all do."""
    mechanism, people, hood, runs = JointGRR((2,) * 6, sampled=2, epsilon=1.5), 800, 200, 400
    records = np.zeros((people, 6), dtype=np.uint8)
    records[:hood, 0] = 1
    channel, rate = mechanism.channel(0), float(mechanism.answering_rate)
    found = []
    for seed in range(runs):
        columns = one_hot_features(reported(mechanism, records, (2,) * 6, seed=seed))
        found.append(float(estimate_frequencies(columns[:hood, 0].mean(), channel)))
    one, overall = torch.tensor(1.0), float(channel.other) + 0.25 * float(channel.gain)
    # At a share of 1 people drawn from a population are all alike, so that both variances coincide.
    stated = float(
        population_variance(one, channel, hood * rate)
        + asking_variance(one, channel, hood * rate, anchor=overall, rate=rate)
    )
    assert abs(np.mean(found) - 1) < 5 * (stated / runs) ** 0.5
    # Close to chi-square. The anchor is estimated from the same people, and a quarter of them are the neighbourhood:
    # up to twice that share of what being asked adds is not there.
    asking = float(asking_variance(one, channel, hood * rate, anchor=overall, rate=rate))
    measured = (runs - 1) * np.var(found, ddof=1)
    assert chi2.ppf(1e-6, runs - 1) * (stated - asking / 2) < measured < chi2.isf(1e-6, runs - 1) * stated


@pytest.mark.parametrize("sampled", [1, 3])
def test_neighbourhood_estimates_from_joint_reports_are_unbiased_with_the_stated_error(sampled: int) -> None:
    rng, nodes, repeats = np.random.default_rng(5), 40, 300
    graph = Graph.from_edges(np.concatenate([rng.integers(0, nodes, (2, 80)), [[0], [1]]], axis=1), nodes)
    records, mean = random_records(UNEQUAL, nodes, 5), NeighbourhoodMean.of(graph)
    runs = [
        reconstruct_features(
            reported(JointGRR(UNEQUAL, sampled, 3.0 / sampled), records, UNEQUAL, seed=s, graph=graph), 2, mean=mean
        )
        for s in range(repeats)
    ]
    estimates = torch.stack([run.frequencies for run in runs])
    truth = reconstruct_features(reported(GRRFS(UNEQUAL, 4, np.inf), records, UNEQUAL, graph=graph), 2, mean=mean)
    # The overall share is estimated from 40 people: a bias of order 1/40 of what being asked adds, beside 5 standard
    # errors of a mean over the repeats.
    error = estimates.std(0)
    assert ((estimates.mean(0) - truth.frequencies).abs() < (5 / repeats**0.5 + 1 / 40) * error).all()
    stated = torch.stack([run.standard_errors for run in runs]).square().mean(0)
    assert stated.mean() > estimates.var(0).mean() * (1 - 5 * (2 / repeats) ** 0.5)
    # ... and by no more than the variance of who the neighbours are, at most 1/4 per effective neighbour.
    sizes = torch.stack([run.sample_sizes for run in runs]).mean(0) / (sampled / 4)
    assert stated.mean() < estimates.var(0).mean() * (1 + 5 * (2 / repeats) ** 0.5) + (0.25 / sizes).mean()
