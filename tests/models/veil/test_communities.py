"""Communities: two passes equal the sum over all partitions, and weak evidence is carried far."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from veilgraph.datasets import PrivateGraph, csbm
from veilgraph.experiments import simulate
from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.graph.clustering import bisection_plan
from veilgraph.models import StructureOnly
from veilgraph.models.veil.communities import PURITY, community_log_posterior, tree_posterior
from veilgraph.models.veil.cross_fitting import CrossFitting
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms import GRR, SubsetSelection
from veilgraph.privacy.mechanisms.registry import LabelRandomizer
from veilgraph.reconstruct.operators import GraphOperators


def collect(
    private: PrivateGraph, epsilon_y: float, seed: int, label: LabelRandomizer = GRR
) -> tuple[PerturbedGraph, Split]:
    split, rng = Split.random(private.graph.num_nodes, seed=seed), np.random.default_rng([seed, 7])
    return simulate(private, PrivacyBudget(1.0, epsilon_y, 1), split, rng=rng, label=label), split


def cross_fitted(
    epsilon_y: float, *, nodes: int = 24, classes: int = 2, seed: int = 0, label: LabelRandomizer = GRR
) -> CrossFitting:
    private = csbm(nodes, num_classes=classes, num_features=1, mean_degree=3, seed=seed)
    ring = Graph.from_edges([np.arange(nodes), np.roll(np.arange(nodes), 1)], num_nodes=nodes)  # nobody is isolated
    return CrossFitting.random(replace(collect(private, epsilon_y, seed, label)[0], graph=ring), seed=0)


def partitions(depth: int, begin: int) -> list[list[tuple[int, int]]]:
    """Return every partition as a list of parts (level, number), starting with the parts of level `begin`."""

    def below(level: int, number: int) -> Iterator[list[tuple[int, int]]]:
        yield [(level, number)]
        if level < depth:
            for left, right in itertools.product(*(list(below(level + 1, 2 * number + half)) for half in (0, 1))):
                yield left + right

    roots = [list(below(begin, number)) for number in range(2**begin)]
    return [list(itertools.chain(*choice)) for choice in itertools.product(*roots)]


def by_enumeration(labels: CrossFitting, codes: np.ndarray, depth: int, begin: int) -> np.ndarray:
    """Return P(class | all reports) as a sum over partitions and over the class of each part."""
    prior, last = labels.reports.prior.double().numpy(), labels.reports_of(slice(None))[:, -1].double().numpy()
    classes = len(prior)
    member = (1 - PURITY) * prior + PURITY * np.eye(classes)
    mechanism = labels.perturbed.label_mechanism
    # P(report | class), from exact probabilities: rows are nodes.
    chances = np.array(
        [
            [
                float(mechanism.probability(tuple(np.flatnonzero(row)), (x,))) if row.any() else 1.0
                for x in range(classes)
            ]
            for row in last
        ]
    )
    total, found = 0.0, np.zeros((len(codes), classes))
    for parts in partitions(depth, begin):
        # A divisible part was kept with probability 1/2; each part above it was divided with probability 1/2.
        divided = {(above, number >> (level - above)) for level, number in parts for above in range(begin, level)}
        chance = 0.5 ** (len(divided) + sum(level < depth for level, _ in parts))
        inside = [codes >> (depth - level) == number for level, number in parts]
        joint = [prior * np.prod(chances[nodes] @ member.T, axis=0) for nodes in inside]
        weight = chance * np.prod([values.sum() for values in joint])
        total += weight
        for nodes, values in zip(inside, joint, strict=True):
            found[nodes] += weight * (values / values.sum()) @ member
    return found / total


@pytest.mark.parametrize("epsilon_y", [0.5, 3.0])
@pytest.mark.parametrize(("classes", "begin", "size"), [(2, 1, 1), (3, 2, 1), (3, 2, 2), (5, 2, 2), (5, 2, 3)])
def test_the_two_passes_equal_the_sum_over_all_partitions(
    epsilon_y: float, classes: int, begin: int, size: int
) -> None:
    labels = cross_fitted(epsilon_y, classes=classes, label=lambda k, e: SubsetSelection(k, e, size))
    codes = np.random.default_rng(1).integers(8, size=24)
    found = tree_posterior(labels, codes, np.array([3]))[:, -1]
    assert found.numpy() == pytest.approx(by_enumeration(labels, codes, 3, begin), abs=1e-6)


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_components_have_trees_of_their_own(classes: int) -> None:
    labels, first = cross_fitted(2.0, classes=classes), np.arange(24) < 16
    codes = np.where(first, np.arange(24) // 4, 4 + np.arange(24) % 2)
    found = tree_posterior(labels, codes, np.array([2, 1]))[:, -1].numpy()
    begin = round(math.log2(classes))
    for inside, depth, start in ((first, 2, 0), (~first, 1, 4)):
        expected = by_enumeration(labels, np.where(inside, codes - start, -1), depth, min(begin, depth))
        assert found[inside] == pytest.approx(expected[inside], abs=1e-6)


def test_a_node_without_neighbours_is_in_no_community() -> None:
    labels = cross_fitted(2.0)
    graph = Graph.from_edges([range(22), range(1, 23)], num_nodes=24)  # a path, and node 23
    labels = replace(labels, perturbed=replace(labels.perturbed, graph=graph))
    found = community_log_posterior(labels, GraphOperators(graph))[:, -1].exp()
    assert torch.allclose(found[23], labels.reports.prior)
    assert not torch.allclose(found[0], labels.reports.prior, atol=1e-3)


def test_the_prior_probabilities_of_all_partitions_sum_to_one() -> None:
    total = 0.0
    for parts in partitions(3, 1):
        divided = {(above, n >> (level - above)) for level, n in parts for above in range(1, level)}
        total += 0.5 ** (len(divided) + sum(level < 3 for level, _ in parts))
    assert total == pytest.approx(1)


def test_a_fold_is_estimated_without_its_own_reports() -> None:
    labels = cross_fitted(1.0, nodes=60, classes=3)
    codes = np.random.default_rng(1).integers(4, size=60)
    fold = labels.folds == 2
    # The same reports in another order, so that class shares stay the same.
    reports = labels.perturbed.labels.copy()
    reports[fold.numpy()] = np.roll(reports[fold.numpy()], 1)
    other = CrossFitting(perturbed=replace(labels.perturbed, labels=reports), folds=labels.folds)
    before, after = (tree_posterior(each, codes, np.array([2])) for each in (labels, other))
    assert (reports != labels.perturbed.labels).any()
    assert torch.equal(before[:, 2], after[:, 2])
    assert not torch.equal(before[:, -1], after[:, -1])


def test_the_order_of_classes_does_not_matter() -> None:
    labels = cross_fitted(1.0, nodes=60, classes=3)
    codes, names = np.random.default_rng(1).integers(4, size=60), np.array([2, 0, 1])
    renamed = CrossFitting(
        perturbed=replace(labels.perturbed, labels=names[labels.perturbed.labels]), folds=labels.folds
    )
    expected = tree_posterior(labels, codes, np.array([2]))
    assert torch.allclose(tree_posterior(renamed, codes, np.array([2]))[:, :, names], expected, atol=1e-6)


def test_uninformative_reports_give_the_prior() -> None:
    labels = cross_fitted(1e-4, nodes=64, classes=4)
    found = tree_posterior(labels, np.arange(64) // 8, np.array([3]))
    assert torch.allclose(found, labels.reports.prior.expand_as(found), atol=2e-3)


def test_communities_carry_evidence_that_neighbours_cannot() -> None:
    differences = []
    for seed in range(5):
        private = csbm(600, num_classes=3, mean_degree=6, num_features=1, seed=seed)
        perturbed, split = collect(private, 0.5, seed)
        labels = CrossFitting.random(perturbed, seed=0)
        ours = community_log_posterior(labels, GraphOperators(private.graph))[:, -1].argmax(1).numpy()
        control = StructureOnly().fit(perturbed, split).predict()
        hits = [(predicted == private.labels)[split.test].mean() for predicted in (ours, control)]
        differences.append(hits[0] - hits[1])
    assert np.mean(differences) > 2 * np.std(differences, ddof=1) / 5**0.5


def test_results_are_distributions() -> None:
    labels = cross_fitted(1.0, nodes=100, classes=3)
    found = community_log_posterior(labels, GraphOperators(labels.perturbed.graph)).exp()
    assert torch.allclose(found.sum(2), torch.ones(100, labels.num_folds + 1), atol=1e-5)
    assert found.min() > 0


def test_a_graph_too_large_for_metis_has_communities_from_its_eigenvectors() -> None:
    """Two dense halves with few edges between them: the first bisection separates them."""
    private = csbm(200, num_classes=2, homophily=0.99, mean_degree=30, num_features=1, seed=0)
    perturbed, _ = collect(private, 1.0, 0)
    labels = CrossFitting.random(perturbed, seed=0)
    found = community_log_posterior(labels, GraphOperators(private.graph), max_edges=0)[:, -1]
    # Communities are halves of equal size, and classes are not: 100 nodes have a standard deviation of 7.
    assert (found.argmax(1).numpy() == private.labels).mean() > 1 - 4 * 7 / 200


def test_a_small_graph_is_one_community_and_a_large_graph_has_fewer_trees() -> None:
    assert bisection_plan(Graph.from_edges([[0], [1]], num_nodes=2)) == (0, 1)
    ring = np.arange(2**15 + 1)
    assert bisection_plan(Graph.from_edges([ring, np.roll(ring, 1)], num_nodes=len(ring))) == (11, 8)
