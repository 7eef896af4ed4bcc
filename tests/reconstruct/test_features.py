"""Algorithm 1: equal to the paper's loops, unbiased with the stated errors, and defined where the paper is silent.

Reports of every mechanism have codes, and one-hot columns are made from them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from benchmarks.reference import literal
from veilgraph.datasets import csbm
from veilgraph.errors import ReconstructionError
from veilgraph.graph import Graph, PerturbedGraph
from veilgraph.privacy.frequency import asking_variance, estimate_frequencies, population_variance
from veilgraph.privacy.mechanisms import GRR, GRRFS, NOT_ASKED, FeatureMechanism, JointGRR, MultiBit
from veilgraph.privacy.schema import Column, FeatureSchema
from veilgraph.reconstruct import NeighbourhoodMean, reconstruct_features
from veilgraph.reconstruct.features import (
    ReconstructedFeatures,
    ReportCodes,
    as_code_type,
    num_columns,
    one_hot_columns,
    one_hot_features,
)

SIZES = (2, 3, 2, 4)


def perturbed_graph(
    graph: Graph, records: np.ndarray, *, sampled: int = 2, epsilon: float = 1.0, seed: int = 0
) -> PerturbedGraph:
    columns = tuple(Column(name=f"f{i}", values=tuple(map(str, range(size)))) for i, size in enumerate(SIZES))
    mechanism = GRRFS(SIZES, sampled=sampled, epsilon=epsilon)
    nodes = graph.num_nodes
    return PerturbedGraph(
        graph=graph,
        schema=FeatureSchema(columns=columns, classes=("a", "b")),
        features=mechanism.randomize(records, rng=np.random.default_rng(seed)),
        labels=np.zeros(nodes, dtype=np.int64),
        has_features=np.ones(nodes, dtype=np.bool_),
        has_label=np.zeros(nodes, dtype=np.bool_),
        feature_mechanism=mechanism,
        label_mechanism=GRR(2, 1.0),
    )


def random_graph(seed: int, nodes: int = 15) -> Graph:
    rng = np.random.default_rng(seed)
    return Graph.from_edges(np.concatenate([rng.integers(0, nodes, (2, 25)), [[0], [1]]], axis=1), nodes)


def random_records(seed: int, nodes: int = 15) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(0, size, nodes) for size in SIZES], axis=1)


def columns_of(found: ReconstructedFeatures, feature: int) -> torch.Tensor:
    """Return the columns of one feature: one column if it is binary, else one for each value."""
    widths = [1 if size == 2 else size for size in SIZES]
    return torch.split(found.frequencies, widths, dim=1)[feature]


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.integers(0, 4), st.integers(1, 4), st.floats(0.1, 4))
def test_equal_to_algorithm_1_as_printed(seed: int, hops: int, sampled: int, epsilon: float) -> None:
    graph = random_graph(seed)
    perturbed = perturbed_graph(graph, random_records(seed), sampled=sampled, epsilon=epsilon, seed=seed)
    hop = literal.node_hop(graph)
    expected = literal.feature_frequencies(hop, perturbed.features, SIZES, epsilon, sampled, hops)
    found = reconstruct_features(perturbed, hops, mean=NeighbourhoodMean.of(graph))
    for i, size in enumerate(SIZES):
        columns = expected[i][:, 1:] if size == 2 else expected[i]
        # float32 shares, multiplied by at most d / (m (p - q)).
        scale = len(SIZES) / sampled / float(GRR(size, epsilon).channel.gain)
        assert np.allclose(columns_of(found, i), columns, atol=1e-5 * scale)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000))
def test_argmax_is_a_plain_majority_vote(seed: int) -> None:
    graph = random_graph(seed)
    perturbed = perturbed_graph(graph, random_records(seed), seed=seed)
    mean = NeighbourhoodMean.of(graph)
    estimated = reconstruct_features(perturbed, 2, mean=mean)
    observed = reconstruct_features(perturbed, 2, mean=mean, estimate=False)
    for i, size in enumerate(SIZES):
        if size > 2:
            votes = columns_of(observed, i).sort(dim=1, descending=True).values
            clear = votes[:, 0] - votes[:, 1] > 1e-5  # a tie has no majority
            same = columns_of(estimated, i).argmax(1) == columns_of(observed, i).argmax(1)
            assert same[clear].all()


def test_neighbourhood_estimates_are_unbiased_with_the_stated_error() -> None:
    graph, hops, repeats = random_graph(5), 2, 400
    records = random_records(5)
    mean = NeighbourhoodMean.of(graph)
    runs = [
        reconstruct_features(perturbed_graph(graph, records, epsilon=2.0, seed=s), hops, mean=mean)
        for s in range(repeats)
    ]
    estimates = torch.stack([run.frequencies for run in runs])
    not_private = perturbed_graph(graph, records, sampled=4, epsilon=float("inf"))
    truth = reconstruct_features(not_private, hops, mean=mean).frequencies
    # Reports are independent, so each estimate's mean over repeats is within 5 standard errors of the neighbourhood's
    # true share; 15 nodes x 9 columns, so a false alarm has probability below 1e-4.
    spread = estimates.std(0) / repeats**0.5
    assert ((estimates.mean(0) - truth).abs() < 5 * spread).all()
    # The stated error is for neighbourhoods drawn from a population, so on average it is not below the measured one.
    stated = torch.stack([run.standard_errors for run in runs]).square().mean(0)
    assert stated.mean() > estimates.var(0).mean() * (1 - 5 * (2 / repeats) ** 0.5)


def test_binary_features_enter_as_the_estimate_and_others_as_a_distribution() -> None:
    graph = random_graph(1)
    features = reconstruct_features(perturbed_graph(graph, random_records(1)), 1, mean=NeighbourhoodMean.of(graph))
    inputs = features.inputs()
    assert torch.equal(inputs[:, 0], columns_of(features, 0)[:, 0])
    distribution = inputs[:, 1:4]
    assert (distribution >= 0).all()
    assert torch.allclose(distribution.sum(1), torch.ones(15))
    decoded = features.inputs("argmax")[:, 1:4]
    assert set(decoded.flatten().tolist()) == {0.0, 1.0}
    assert torch.equal(decoded.sum(1), torch.ones(15))


def test_missing_reports_have_no_weight() -> None:
    graph = Graph.from_edges([[0, 1], [1, 2]], num_nodes=3)
    perturbed = perturbed_graph(graph, random_records(2, nodes=3))
    silent = np.array([True, False, True])
    garbage = perturbed.features.copy()
    garbage[1] = 1
    means = [
        reconstruct_features(replace(perturbed, features=f, has_features=silent), 1, mean=NeighbourhoodMean.of(graph))
        for f in (perturbed.features, garbage)
    ]
    assert torch.equal(means[0].frequencies, means[1].frequencies)
    assert means[0].sample_sizes.tolist() == [1, 2, 1]


def test_a_node_with_no_report_in_reach_falls_back_to_the_whole_graph() -> None:
    graph = Graph.from_edges([[0, 2], [1, 3]], num_nodes=5)  # node 4 is isolated and silent
    perturbed = replace(
        perturbed_graph(graph, random_records(3, nodes=5)), has_features=np.array([True, True, True, True, False])
    )
    features = reconstruct_features(perturbed, 1, mean=NeighbourhoodMean.of(graph))
    everyone = features.frequencies[:4].mean(0)  # here every neighbourhood is a pair
    assert torch.allclose(features.frequencies[4], everyone, atol=1e-4)
    assert features.sample_sizes[4] == 4


def test_isolated_nodes_keep_their_report_and_their_error_says_how_little_it_is() -> None:
    graph = Graph.from_edges([[0, 0, 0, 0], [1, 2, 3, 4]], num_nodes=6)
    features = reconstruct_features(
        perturbed_graph(graph, random_records(4, nodes=6)), 1, mean=NeighbourhoodMean.of(graph)
    )
    assert features.sample_sizes[5] == 1
    assert (features.standard_errors[5] > features.standard_errors[0]).all()
    assert (features.standard_errors > 0).all()


def test_no_report_and_reports_of_another_mechanism_are_refused() -> None:
    graph = random_graph(0)
    silent = replace(perturbed_graph(graph, random_records(0)), has_features=np.zeros(15, dtype=np.bool_))
    with pytest.raises(ReconstructionError, match="no node reported features"):
        reconstruct_features(silent, 1, mean=NeighbourhoodMean.of(graph))
    other = replace(
        perturbed_graph(graph, random_records(0)), feature_mechanism=MultiBit((0.0,) * 4, (1.0,) * 4, 2, 1.0)
    )
    with pytest.raises(ReconstructionError, match="MultiBit"):
        reconstruct_features(other, 1, mean=NeighbourhoodMean.of(graph))


def test_more_hops_mean_smaller_errors() -> None:
    private = csbm(300, num_features=4, seed=0)
    mechanism = GRRFS((2,) * 4, sampled=2, epsilon=1.0)
    perturbed = PerturbedGraph(
        graph=private.graph,
        schema=private.schema,
        features=mechanism.randomize(private.features, rng=np.random.default_rng(0)),
        labels=np.zeros(300, dtype=np.int64),
        has_features=np.ones(300, dtype=np.bool_),
        has_label=np.zeros(300, dtype=np.bool_),
        feature_mechanism=mechanism,
        label_mechanism=GRR(4, 1.0),
    )
    mean = NeighbourhoodMean.of(private.graph)
    errors = [float(reconstruct_features(perturbed, hops, mean=mean).standard_errors.mean()) for hops in (0, 1, 2, 4)]
    assert errors == sorted(errors, reverse=True)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.integers(1, 9), st.booleans())
def test_blocks_of_columns_give_what_all_columns_at_once_give(seed: int, width: int, complete: bool) -> None:
    graph = random_graph(seed)
    perturbed = perturbed_graph(graph, random_records(seed).astype(np.uint8), seed=seed)
    if not complete:
        reporting = np.random.default_rng(seed).random(15) < 0.5
        perturbed = replace(perturbed, has_features=reporting | (np.arange(15) == 0))
    mean = NeighbourhoodMean.of(graph)
    expected = reconstruct_features(perturbed, 2, mean=mean).frequencies
    found = reconstruct_features(perturbed, 2, mean=mean, max_columns=width).frequencies
    # A product of another width may add in another order: 15 numbers of at most 1, then times 1 / gain < 20.
    assert torch.allclose(found, expected, rtol=0, atol=1e-5)


def test_a_part_of_the_one_hot_columns_is_that_part_of_them_all() -> None:
    perturbed = perturbed_graph(random_graph(0), random_records(0).astype(np.uint8))
    perturbed = replace(perturbed, has_features=np.arange(15) % 3 > 0)
    whole = one_hot_features(perturbed)
    expected = [
        [
            float(code == value and reported)
            for code, size in zip(row, SIZES, strict=True)
            for value in (range(size) if size > 2 else [1])
        ]
        for row, reported in zip(perturbed.features.tolist(), perturbed.has_features, strict=True)
    ]
    assert whole.tolist() == expected
    for start in range(whole.shape[1]):
        part = slice(start, start + 3)
        assert np.array_equal(one_hot_columns(ReportCodes.of(perturbed), part), whole[:, part])


def test_values_that_codes_cannot_hold_are_found_nowhere() -> None:
    codes, values = np.array([0, 1, 255], dtype=np.uint8), np.array([0, 255, 256, 511])
    hits = codes[:, None] == as_code_type(values, codes.dtype)
    assert hits.tolist() == [[True, False, False, False], [False] * 4, [False, True, False, False]]


UNEQUAL = (2, 3, 2, 4)


def reported(
    mechanism: FeatureMechanism,
    records: np.ndarray,
    sizes: tuple[int, ...],
    *,
    seed: int = 0,
    graph: Graph | None = None,
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


def random_codes(sizes: tuple[int, ...], people: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(0, size, people) for size in sizes], axis=1)


def test_padded_reports_answer_everything() -> None:
    answers = ReportCodes.of(reported(GRRFS(UNEQUAL, 2, 1.0), random_codes(UNEQUAL, 50), UNEQUAL))
    assert answers.answering_rate == 1
    assert answers.asked.all()


def test_joint_reports_answer_what_was_asked() -> None:
    perturbed = reported(JointGRR(UNEQUAL, 2, 1.0), random_codes(UNEQUAL, 50), UNEQUAL)
    answers = ReportCodes.of(perturbed)
    assert answers.answering_rate == 0.5
    assert (answers.asked.sum(axis=1) == 2).all()
    np.testing.assert_array_equal(answers.asked, perturbed.features != NOT_ASKED)


def test_signs_of_binary_features_are_codes_with_the_channel_of_a_sign_and_others_are_refused() -> None:
    sizes, mechanism = (2,) * 5, MultiBit((0.0,) * 5, (1.0,) * 5, sampled=2, epsilon=1.5)
    perturbed = reported(mechanism, random_codes(sizes, 50), sizes)
    answers = ReportCodes.of(perturbed)
    np.testing.assert_array_equal(answers.codes, perturbed.features.clip(-1, 1) * 0.5 + 0.5 - 1.5 * ~answers.asked)
    assert answers.channels == (GRR(2, 1.5).channel,) * 5
    assert answers.answering_rate == 0.4
    mechanism = MultiBit((0.0,) * 4, tuple(size - 1.0 for size in UNEQUAL), sampled=2, epsilon=1.0)
    with pytest.raises(ReconstructionError, match=r"more than two values .* MultiBit: use GRRFS or JointGRR"):
        ReportCodes.of(reported(mechanism, random_codes(UNEQUAL, 10), UNEQUAL))


def test_columns_of_everyone_average_to_the_share_among_the_answers() -> None:
    perturbed = reported(JointGRR(UNEQUAL, 2, 1.0), random_codes(UNEQUAL, 300), UNEQUAL)
    columns, start = one_hot_features(perturbed), 0
    for i, size in enumerate(UNEQUAL):
        given = perturbed.features[perturbed.features[:, i] != NOT_ASKED, i]
        values = range(size) if size > 2 else (1,)
        shares = torch.tensor([(given == value).mean() for value in values], dtype=torch.float32)
        torch.testing.assert_close(columns[:, start : start + num_columns(size)].mean(0), shares, atol=1e-5, rtol=0)
        start += num_columns(size)


def test_nodes_without_a_report_have_zero_columns_and_no_weight() -> None:
    perturbed = reported(JointGRR(UNEQUAL, 2, 1.0), random_codes(UNEQUAL, 40), UNEQUAL)
    silent = np.arange(40) < 15
    garbage = perturbed.features.copy()
    garbage[silent] = 1
    found = [
        one_hot_features(replace(perturbed, features=f, has_features=~silent)) for f in (perturbed.features, garbage)
    ]
    assert (found[0][:15] == 0).all()
    assert torch.equal(found[0], found[1])


def test_a_feature_that_nobody_was_asked_about_counts_as_uniform_and_one_answer_as_everybodys() -> None:
    perturbed = reported(JointGRR((3,) * 8, 1, 1.0), random_codes((3,) * 8, 2), (3,) * 8)
    columns = one_hot_features(perturbed).view(2, 8, 3)
    asked = perturbed.features != NOT_ASKED
    for i in np.flatnonzero(~asked.any(axis=0)):
        torch.testing.assert_close(columns[:, i], torch.full((2, 3), 1 / 3))
    once = np.flatnonzero(asked.sum(axis=0) == 1)
    assert len(once)
    for i in once:
        (person,) = np.flatnonzero(asked[:, i])
        assert columns[1 - person, i].argmax() == perturbed.features[person, i]


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
    records, mean = random_codes(UNEQUAL, nodes, 5), NeighbourhoodMean.of(graph)
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
