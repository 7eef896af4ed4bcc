"""Cross-fitting: what a training set leaves out, and how far noise shrinks the class prior."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from veilgraph.datasets import PrivateGraph, csbm
from veilgraph.experiments import simulate
from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.graph.shards import ShardGraph
from veilgraph.models.veil.cross_fitting import CrossFitting, max_folds
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms import SubsetSelection


def reports(epsilon_y: float, **population: object) -> PerturbedGraph:
    private = csbm(400, num_classes=3, num_features=2, **population)  # type: ignore[arg-type]
    split = Split.random(400, seed=0)
    return simulate(private, PrivacyBudget(1.0, epsilon_y, 1), split, rng=np.random.default_rng(0))


def test_every_report_is_left_out_of_exactly_one_training_set() -> None:
    labels = CrossFitting.random(reports(1.0), seed=0)
    assert labels.num_folds == 5
    whole = labels.reports_of(slice(None))[:, -1]
    missing = whole.unsqueeze(1) - labels.reports_of(slice(None))[:, :-1]
    assert torch.equal(missing.sum(1), whole)
    assert (labels.out_of_fold(labels.reports_of(slice(None))) == 0).all()
    assert torch.equal(whole.sum(1) > 0, torch.from_numpy(labels.perturbed.has_label))


@pytest.mark.parametrize(("edges", "folds"), [(116_508, 5), (116_509, 3)])
def test_where_messages_are_more_than_four_million_there_are_fewer_folds(edges: int, folds: int) -> None:
    # Both directions, three classes, five folds and all reports: 36 numbers for each edge of at most 2**22.
    graph = Graph.from_edges([np.arange(edges), np.arange(1, edges + 1)], num_nodes=edges + 1)
    private = csbm(400, num_classes=3, num_features=0)
    labels = np.arange(edges + 1) % 3
    features = np.zeros((edges + 1, 0), dtype=np.uint8)
    people = PrivateGraph(name="path", graph=graph, schema=private.schema, features=features, labels=labels)
    split = Split.random(edges + 1, seed=0)
    path = simulate(people, PrivacyBudget(epsilon_y=1.0), split, rng=np.random.default_rng(0))
    assert max_folds(path) == folds


def test_folds_have_about_equal_size_and_none_is_empty_with_few_reports() -> None:
    perturbed = reports(1.0)
    sizes = torch.bincount(CrossFitting.random(perturbed, seed=0).folds + 1)[1:]
    # Binomial sizes of 300 reports: mean 60, standard deviation 7.
    assert len(sizes) == 5
    assert (sizes - 60).abs().max() < 4 * 7
    for count in (1, 2, 7):
        few = np.zeros(400, dtype=np.bool_)
        few[np.flatnonzero(perturbed.has_label)[:count]] = True
        labels = CrossFitting.random(replace(perturbed, has_label=few), seed=0)
        assert labels.folds[labels.folds >= 0].bincount().all()
        assert labels.num_folds <= count


def test_a_subsample_selects_reports_and_keeps_their_folds() -> None:
    labels = CrossFitting.random(reports(1.0), seed=0)
    some = labels.subsample(100)
    assert 70 < some.reports.num_reports < 130  # three standard deviations of a binomial with mean 100
    assert torch.equal(some.folds[some.reports.nodes], labels.folds[some.reports.nodes])
    assert labels.subsample(labels.reports.num_reports) is labels


def test_the_likelihood_is_that_of_the_channel() -> None:
    labels = CrossFitting.random(reports(1.0), seed=0)
    sure = torch.nn.functional.one_hot(labels.reports.reported_classes.squeeze(1), 3).float().clamp(min=1e-30).log()
    assert torch.allclose(
        labels.likelihood.log_likelihood(sure), torch.tensor(math.log(labels.reports.keep)).expand(300)
    )
    equal = torch.full((300, 3), math.log(1 / 3))
    assert torch.allclose(labels.likelihood.log_likelihood(equal), torch.tensor(math.log(1 / 3)).expand(300))


@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_likelihood_of_a_set_is_that_of_the_mechanism(size: int) -> None:
    mechanism = SubsetSelection(4, 0.7, size)
    private = csbm(60, num_classes=4, num_features=1, seed=0)
    split, rng = Split.random(60, seed=0), np.random.default_rng(0)
    perturbed = simulate(private, PrivacyBudget(1.0, 0.7, 1), split, rng=rng, label=lambda k, e: mechanism)
    labels = CrossFitting.random(perturbed, seed=0)
    shares = torch.from_numpy(rng.dirichlet(np.ones(4), size=len(labels.reports.nodes))).float()
    sets = mechanism.decode(perturbed.labels[labels.reports.nodes.numpy()])
    # Up to the number of sets that hold a given class.
    factor = math.comb(3, size - 1)
    exact = [
        math.log(factor * sum(p * float(mechanism.probability(report, (x,))) for x, p in enumerate(row)))
        for report, row in zip(sets, shares.tolist(), strict=True)
    ]
    assert labels.likelihood.log_likelihood(shares.log()).tolist() == pytest.approx(exact, abs=1e-5)
    # The evidence of a class is its log-likelihood, up to a constant for each report.
    evidence = labels.local_evidence[labels.reports.nodes, -1]
    for report, row in zip(sets, evidence.tolist(), strict=True):
        chances = [math.log(mechanism.probability(report, (x,))) for x in range(4)]
        assert [value - min(row) for value in row] == pytest.approx([c - min(chances) for c in chances], abs=1e-5)


def test_shares_of_sets_are_debiased_into_the_prior() -> None:
    private = csbm(4000, num_classes=3, class_shares=[0.6, 0.3, 0.1], num_features=1, seed=0)
    split, rng = Split.random(4000, seed=0), np.random.default_rng(0)
    mechanism = SubsetSelection(3, 3.0, 2)
    perturbed = simulate(private, PrivacyBudget(1.0, 3.0, 1), split, rng=rng, label=lambda k, e: mechanism)
    labels = CrossFitting.random(perturbed, seed=0)
    true = np.bincount(private.labels[perturbed.has_label], minlength=3) / perturbed.has_label.sum()
    # A debiased share of 3,000 reports has a standard error of at most 0.5 / (sqrt(3000) gain); 100 pseudo-reports
    # and the shrinkage move it by at most 0.02.
    allowed = 4 * 0.5 / (math.sqrt(3000) * float(mechanism.channel.gain)) + 0.02
    assert labels.reports.prior.numpy() == pytest.approx(true, abs=allowed)
    assert labels.reports.report_shares.sum() == pytest.approx(2)


def test_noise_is_not_mistaken_for_unequal_classes() -> None:
    # At epsilon 0.01 the debiased shares of 300 reports have a standard error of 8: nothing is known about them.
    assert CrossFitting.random(reports(0.01), seed=0).reports.prior.tolist() == pytest.approx([1 / 3] * 3, abs=0.1)


def test_unequal_classes_are_found_in_reports_that_are_not_randomized() -> None:
    perturbed = reports(math.inf, class_shares=[0.7, 0.2, 0.1])
    shares = np.bincount(perturbed.labels[perturbed.has_label], minlength=3) / 300
    # 300 true labels against 100 pseudo-reports, and q (1 - q) is at least 0.01.
    assert CrossFitting.random(perturbed, seed=0).reports.prior.numpy() == pytest.approx(shares, abs=0.02)


def on_shards(perturbed: PerturbedGraph) -> PerturbedGraph:
    graph = perturbed.graph
    return replace(perturbed, graph=ShardGraph(num_nodes=graph.num_nodes, edges=graph.edges, identity="any"))


@pytest.mark.parametrize("read", [on_shards, lambda perturbed: perturbed])
def test_folds_follow_from_the_node_alone(read: Callable[[PerturbedGraph], PerturbedGraph]) -> None:
    perturbed = read(reports(1.0))
    labels = CrossFitting.random(perturbed, seed=0)
    fewer = replace(perturbed, has_label=perturbed.has_label & (np.arange(400) % 2 == 0))
    again = CrossFitting.random(fewer, seed=0)
    kept = torch.from_numpy(fewer.has_label)
    assert torch.equal(again.folds[kept], labels.folds[kept])
    assert (again.folds[~kept] == -1).all()
    assert labels.num_folds == 5
    assert not torch.equal(CrossFitting.random(perturbed, seed=1).folds, labels.folds)


def test_columns_of_degrees_are_the_same_on_shards() -> None:
    perturbed = reports(1.0)
    table, shards = (
        CrossFitting.random(each, seed=0).reports.degree_columns for each in (perturbed, on_shards(perturbed))
    )
    assert torch.allclose(table, shards, atol=1e-6)
