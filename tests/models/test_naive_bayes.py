"""Naive Bayes of feature reports: likelihoods of the mechanism, and close to none where classes do not differ."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import binom

from tests.support.thread_communicator import ThreadCommunicator, in_threads
from veilgraph.datasets import csbm
from veilgraph.experiments import simulate
from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.models.naive_bayes import Answers, feature_log_likelihood
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms import GRR, GRRFS, JointGRR
from veilgraph.privacy.mechanisms.registry import FeatureRandomizer, grr_fs, joint_grr_best, multi_bit
from veilgraph.privacy.schema import Column, FeatureSchema


def collected(signal: float, randomizer: FeatureRandomizer = grr_fs) -> tuple[PerturbedGraph, torch.Tensor]:
    private = csbm(3000, num_classes=2, num_features=70, feature_signal=signal, seed=0)
    perturbed = simulate(
        private,
        PrivacyBudget(2.0, 1.0, 35),
        Split.random(3000, seed=0),
        rng=np.random.default_rng(0),
        features=randomizer,
    )
    return perturbed, torch.nn.functional.one_hot(torch.from_numpy(private.labels), 2).float().unsqueeze(1)


def test_with_true_classes_it_is_the_log_likelihood_ratio_of_the_rates() -> None:
    perturbed, classes = collected(0.6)
    rates = [perturbed.features[classes[:, 0, x] == 1].mean(0) for x in (0, 1)]
    ratio = sum(
        np.log(np.where(perturbed.features == 1, r, 1 - r)).sum(1) * sign
        for r, sign in zip(rates, (1, -1), strict=True)
    )
    found = feature_log_likelihood(perturbed, classes)[:, 0]
    # Shrinkage moves the rates of the classes slightly closer; with 1500 people per class it is small.
    assert np.corrcoef((found[:, 0] - found[:, 1]).numpy(), ratio)[0, 1] > 0.99


def test_the_true_class_is_more_likely_under_either_mechanism() -> None:
    for randomizer in (grr_fs, multi_bit):
        perturbed, classes = collected(0.6, randomizer)
        found = feature_log_likelihood(perturbed, classes)[:, 0]
        # Half of the 70 features differ between the classes; 3000 nodes give chance a standard error of 0.009.
        assert (found.argmax(1) == classes[:, 0].argmax(1)).float().mean() > 0.5 + 5 * 0.009


def test_uninformative_features_give_almost_no_evidence() -> None:
    uninformative, classes = collected(0.0)
    informative, _ = collected(0.6)
    spreads = [float(feature_log_likelihood(reports, classes).std()) for reports in (uninformative, informative)]
    assert spreads[0] < 0.25 * spreads[1]


def test_nodes_without_a_report_get_no_evidence_and_have_no_influence() -> None:
    perturbed, classes = collected(0.6)
    has_features = perturbed.has_features.copy()
    has_features[:1000] = False
    garbled = perturbed.features.copy()
    garbled[:1000] = 1
    one, other = (
        feature_log_likelihood(replace(perturbed, features=f, has_features=has_features), classes)
        for f in (perturbed.features, garbled)
    )
    assert torch.equal(one, other)
    assert (one[:1000] == 0).all()


SIZES = (2, 3, 2)
TRUE_RATES = [
    np.array([[0.9, 0.2], [0.1, 0.8]]),
    np.array([[0.5, 0.1], [0.3, 0.1], [0.2, 0.8]]),
    np.array([[0.4, 0.6], [0.6, 0.4]]),
]
"""Rates of the values of each feature in two classes, [values, classes]."""


def every_report(mechanism: JointGRR | GRRFS) -> PerturbedGraph:
    """Return a graph on which each possible report is the report of one node."""
    reports = np.array(list(mechanism.reports()))
    columns = tuple(Column(name=f"x{i}", values=tuple("abc"[:size])) for i, size in enumerate(SIZES))
    return PerturbedGraph(
        graph=Graph.from_edges([[0], [1]], len(reports)),
        schema=FeatureSchema(columns=columns, classes=("a", "b")),
        features=reports,
        labels=np.zeros(len(reports), dtype=np.int64),
        has_features=np.ones(len(reports), dtype=np.bool_),
        has_label=np.zeros(len(reports), dtype=np.bool_),
        feature_mechanism=mechanism,
        label_mechanism=GRR(2, 1.0),
    )


def enumerated(chance: Callable[[tuple[int, ...], tuple[int, ...]], float], reports: np.ndarray) -> np.ndarray:
    """Return ln P(report | class) less its mean over classes, by a sum over all records."""
    records = list(itertools.product(*(range(size) for size in SIZES)))
    weights = [math.prod(r[v] for r, v in zip(TRUE_RATES, record, strict=True)) for record in records]
    found = np.log([sum(chance(tuple(o), x) * w for x, w in zip(records, weights, strict=True)) for o in reports])
    return np.asarray(found - found.mean(axis=1, keepdims=True))


@pytest.mark.parametrize("sampled", [1, 2, 3])
def test_the_likelihood_of_joint_grr_equals_enumeration(sampled: int) -> None:
    mechanism = JointGRR(SIZES, sampled=sampled, epsilon=2.0 / sampled)
    perturbed = every_report(mechanism)
    rates = torch.from_numpy(np.concatenate(TRUE_RATES)).float().unsqueeze(1)
    (answers,) = Answers.blocks(perturbed)
    found, _ = answers.log_likelihood(rates)
    expected = enumerated(lambda report, record: float(mechanism.probability(report, record)), perturbed.features)
    assert np.allclose(found[:, 0], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("sampled", [1, 2, 3])
def test_the_likelihood_of_grr_fs_equals_enumeration_where_features_are_sampled_independently(sampled: int) -> None:
    mechanism = GRRFS(SIZES, sampled=sampled, epsilon=1.0)
    perturbed = every_report(mechanism)
    reported = [
        float(mechanism.channel(i).other) + float(mechanism.channel(i).gain) * rates
        for i, rates in enumerate(TRUE_RATES)
    ]
    (answers,) = Answers.blocks(perturbed)
    found, _ = answers.log_likelihood(torch.from_numpy(np.concatenate(reported)).float().unsqueeze(1))
    sizes = range(len(SIZES) + 1)
    numbers = {m: float(binom.pmf(m, len(SIZES), sampled / len(SIZES))) for m in sizes}
    uniform = 1 / math.prod(SIZES)

    def chance(report: tuple[int, ...], record: tuple[int, ...]) -> float:
        each = {m: float(GRRFS(SIZES, sampled=m, epsilon=1.0).probability(report, record)) for m in sizes if m}
        return sum(weight * (each[m] if m else uniform) for m, weight in numbers.items())

    assert np.allclose(found[:, 0], enumerated(chance, perturbed.features), rtol=0, atol=1e-5)


def test_answers_of_joint_grr_are_trusted_as_far_as_bayes_does() -> None:
    mechanism = JointGRR(SIZES, sampled=2, epsilon=0.5)
    perturbed = every_report(mechanism)
    rates = torch.from_numpy(np.concatenate(TRUE_RATES)).float().unsqueeze(1)
    (answers,) = Answers.blocks(perturbed)
    _, kept = answers.log_likelihood(rates)
    starts = np.cumsum([0, *SIZES])
    for report, found in zip(perturbed.features, kept[:, 0], strict=True):
        asked = np.flatnonzero(report >= 0)
        true = np.prod(np.concatenate(TRUE_RATES)[starts[asked] + report[asked]], axis=0)
        channel = mechanism.responses[math.prod(SIZES[i] for i in asked)].channel
        kept_and_true = float(channel.gain) * true
        assert np.allclose(found, kept_and_true / (kept_and_true + float(channel.other)), atol=1e-5)


def test_expectation_maximisation_finds_more_than_weak_labels_show() -> None:
    perturbed, classes = collected(0.6, joint_grr_best)
    # Probabilities of 0.6 for a class that is right with that probability: 3000 weak and calibrated opinions.
    right = torch.rand(3000, 1, generator=torch.Generator().manual_seed(0)) < 0.6
    opinion = torch.where(right, classes[:, 0], 1 - classes[:, 0]).unsqueeze(1)
    weak = 0.4 + 0.2 * opinion
    hits = [
        (feature_log_likelihood(perturbed, weak, max_passes=passes)[:, 0].argmax(1) == classes[:, 0].argmax(1)).float()
        for passes in (1, 20)
    ]
    # The same 3000 nodes twice: the difference has a standard error of at most sqrt(1/3000) = 0.018.
    assert float(hits[1].mean() - hits[0].mean()) > 3 * 0.018


@pytest.mark.parametrize("randomizer", [grr_fs, joint_grr_best, multi_bit])
def test_processes_that_share_the_reports_find_what_one_finds(randomizer: FeatureRandomizer) -> None:
    private = csbm(600, num_classes=3, num_features=12, feature_signal=0.8, seed=0)
    budget, split = PrivacyBudget(2.0, 1.0, 2), Split.random(600, seed=0)
    drawn = simulate(private, budget, split, rng=np.random.default_rng(0), features=randomizer)
    part_of = torch.from_numpy(np.random.default_rng(1).integers(3, size=600))
    whole = replace(drawn, has_features=drawn.has_features & (part_of != 1).numpy())  # nobody in the second part
    soft = (0.7 * torch.eye(3)[torch.from_numpy(private.labels)] + 0.1).unsqueeze(1)
    expected = feature_log_likelihood(whole, soft)

    def one(communicator: ThreadCommunicator) -> torch.Tensor:
        own = communicator.counted_nodes
        names = ("features", "labels", "has_features", "has_label")
        arrays: dict[str, Any] = {name: getattr(whole, name)[own.numpy()] for name in names}
        graph = Graph.from_edges([[0], [1]], num_nodes=len(own))  # its edges do not matter
        return feature_log_likelihood(replace(whole, graph=graph, **arrays), soft[own], communicator=communicator)

    for rank, found in enumerate(in_threads(part_of, one)):
        torch.testing.assert_close(found, expected[part_of == rank], rtol=0, atol=1e-4)
