"""The block model: exact on trees, indifferent to names, and as good as the optimum on its own graphs."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from veilgraph.datasets import PrivateGraph, csbm
from veilgraph.experiments import simulate
from veilgraph.graph import Graph, Split
from veilgraph.models import StructureOnly
from veilgraph.models.veil.block_model import BlockModel, block_model_log_posterior, degree_model_log_posterior
from veilgraph.models.veil.class_affinity import estimate_class_affinity
from veilgraph.models.veil.cross_fitting import CrossFitting
from veilgraph.privacy.budget import PrivacyBudget

PRIVATE = csbm(400, num_classes=3, homophily=0.7, num_features=0, seed=0)


def cross_fitted(private: PrivateGraph, epsilon: float, seed: int = 0) -> CrossFitting:
    split = Split.random(private.graph.num_nodes, seed=seed)
    perturbed = simulate(private, PrivacyBudget(epsilon_y=epsilon), split, rng=np.random.default_rng(seed))
    return CrossFitting.random(perturbed, seed=seed)


def log_posterior(labels: CrossFitting) -> Tensor:
    return block_model_log_posterior(labels, estimate_class_affinity(labels))


def block_model(graph: Graph, prior: Tensor, attraction: float) -> BlockModel:
    weights = torch.from_numpy(graph.degrees).float()
    return BlockModel(graph=graph, prior=prior, weights=weights, attraction=attraction)


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_on_a_tree_beliefs_are_the_exact_posterior_in_the_field_of_these_beliefs(seed: int, learned: bool) -> None:
    rng = np.random.default_rng(seed)
    nodes, classes, attraction = 6, 3, float(rng.uniform(0.1, 0.9))
    parents = [int(rng.integers(0, node)) for node in range(1, nodes)]
    graph = Graph.from_edges([list(range(1, nodes)), parents], num_nodes=nodes)
    prior = torch.from_numpy(rng.dirichlet(np.full(classes, 5.0))).float()
    evidence = torch.from_numpy(rng.normal(size=(nodes, 1, classes))).float()
    factors = rng.uniform(0.2, 2.0, size=(classes, classes))
    matrix = torch.from_numpy(factors + factors.T).float() if learned else torch.diag(1 / prior)
    model = replace(block_model(graph, prior, attraction), affinity=matrix if learned else None)
    found = model.log_posterior(evidence, max_sweeps=500, damping=0.8, tolerance=0.0).softmax(2)[:, 0].double()
    degrees = torch.from_numpy(graph.degrees).double()
    affinity = 1 + attraction * (matrix - 1).double()
    field = -degrees.unsqueeze(1) * (affinity @ (degrees @ found / degrees.sum()))
    expected = torch.zeros(nodes, classes, dtype=torch.float64)
    for assignment in itertools.product(range(classes), repeat=nodes):
        weight = sum(float(evidence[v, 0, x] + prior[x].log() + field[v, x]) for v, x in enumerate(assignment))
        weight += sum(math.log(affinity[assignment[u], assignment[v]]) for u, v in graph.edges.T)
        expected[range(nodes), assignment] += math.exp(weight)
    assert torch.allclose(found, expected / expected.sum(1, keepdim=True), atol=1e-3)


def test_the_order_of_classes_does_not_matter() -> None:
    labels, names = cross_fitted(PRIVATE, 1.0), np.array([2, 0, 1])
    renamed = CrossFitting(
        perturbed=replace(labels.perturbed, labels=names[labels.perturbed.labels]), folds=labels.folds
    )
    one, other = (log_posterior(each).softmax(2) for each in (labels, renamed))
    assert torch.allclose(other[:, :, names], one, atol=1e-3)


def test_the_order_of_nodes_does_not_matter() -> None:
    labels = cross_fitted(PRIVATE, 1.0)
    order = np.random.default_rng(0).permutation(400)
    places = np.argsort(order)  # node order[i] becomes node i
    moved = replace(
        labels.perturbed,
        graph=Graph.from_edges(places[PRIVATE.graph.edges], num_nodes=400),
        features=labels.perturbed.features[order],
        labels=labels.perturbed.labels[order],
        has_features=labels.perturbed.has_features[order],
        has_label=labels.perturbed.has_label[order],
    )
    one = log_posterior(labels).softmax(2)
    other = log_posterior(CrossFitting(perturbed=moved, folds=labels.folds[order])).softmax(2)
    assert torch.allclose(other, one[order], atol=1e-3)


def test_a_report_that_a_training_set_leaves_out_reaches_it_by_the_attraction_alone() -> None:
    labels = cross_fitted(PRIVATE, 1.0)
    fold = (labels.folds == 2).numpy()
    reports = labels.perturbed.labels.copy()
    reports[fold] = np.roll(reports[fold], 1)  # class shares, and so the prior, stay the same
    other = CrossFitting(perturbed=replace(labels.perturbed, labels=reports), folds=labels.folds)
    model = block_model(PRIVATE.graph, labels.reports.prior, 0.5)
    before, after = (model.log_posterior(each.local_evidence, tolerance=0.0) for each in (labels, other))
    assert torch.equal(before[:, 2], after[:, 2])
    assert not torch.equal(before[:, -1], after[:, -1])
    learned = [model.learned(each.local_evidence[:, -1:])[0].attraction for each in (labels, other)]
    # 60 of 300 reports are exchanged. The attraction of 2,000 edges has a standard error of about
    # sqrt(0.7 * 0.3 / 2000) * 1.5 = 0.015 even if all classes were known.
    assert learned[0] == pytest.approx(learned[1], abs=4 * 0.015)


@pytest.mark.parametrize(("classes", "homophily"), [(2, 0.8), (4, 0.6), (6, 0.7)])
def test_the_attraction_is_learned(classes: int, homophily: float) -> None:
    private = csbm(2000, num_classes=classes, homophily=homophily, num_features=0, seed=1)
    labels = cross_fitted(private, 2.0)
    model, _ = block_model(private.graph, labels.reports.prior, 0.5).learned(labels.local_evidence[:, -1:])
    # An edge is within a class with probability t + (1 - t) / c. The share of 10,000 edges has a standard error of at
    # most 0.005; with classes that are known in part only, information is lost: four times that is allowed for.
    expected = (private.homophily - 1 / classes) / (1 - 1 / classes)
    assert model.attraction == pytest.approx(expected, abs=4 * 0.005 * classes / (classes - 1))


def test_classes_have_the_names_that_reports_give_them() -> None:
    """Ten communities hold about 225 reports each. These name its class 31 times more often than another class.

    The difference has a standard deviation of 11, and there are 90 pairs: messages alone exchange some of them.
    """
    private = csbm(3000, num_classes=10, homophily=0.6, mean_degree=10.0, num_features=0, seed=0)
    labels = cross_fitted(private, 0.5)
    assert labels.reports.sizes_are_alike
    model, _ = block_model(private.graph, torch.full((10,), 0.1), 0.5).learned(labels.local_evidence[:, -1:])
    posterior = model.log_posterior(labels.local_evidence).softmax(2).double()
    scores = torch.einsum("vkx,vkz->kxz", posterior, labels.local_evidence.double())
    for training_set in scores:
        kept = training_set.diagonal().sum()
        for one, other in itertools.combinations(range(10), 2):
            exchanged = training_set[one, other] + training_set[other, one]
            assert training_set[one, one] + training_set[other, other] >= exchanged - 1e-6 * kept


@pytest.mark.parametrize(("shares", "homophily"), [((0.7, 0.2, 0.07, 0.03), 0.8), ((0.4, 0.3, 0.2, 0.1), 0.6)])
def test_classes_that_differ_in_size_and_degree_are_found_as_if_the_model_were_known(
    shares: tuple[float, ...], homophily: float
) -> None:
    """All pairs within a class are equally likely, so large classes have more neighbours: degrees tell about them."""
    to_optimum, degrees_ignored = [], []
    for seed in range(2):
        private = csbm(2000, num_classes=4, homophily=homophily, class_shares=shares, num_features=0, seed=seed)
        labels, split = cross_fitted(private, 1.0, seed), Split.random(2000, seed=seed)
        prior = torch.tensor(shares)
        chance = float(prior.square().sum())
        affinity = torch.full((4, 4), (1 - homophily) / (1 - chance)).fill_diagonal_(homophily / chance)
        known = BlockModel(
            graph=private.graph, prior=prior, weights=torch.full((2000,), 10.0), attraction=1.0, affinity=affinity
        )
        optimum = known.log_posterior(labels.local_evidence[:, -1:], max_sweeps=100)
        learned = degree_model_log_posterior(labels, estimate_class_affinity(labels))
        right = [
            (each[split.test] == private.labels[split.test]).mean()
            for each in (found[:, -1].argmax(1).numpy() for found in (learned, optimum, log_posterior(labels)))
        ]
        to_optimum.append(right[0] - right[1])
        degrees_ignored.append(right[2] - right[1])
    # A node of 1,000 counts if the two disagree: a standard error of sqrt(0.1 / 1000) = 0.01 for one node of ten.
    assert np.mean(to_optimum) > -3 * 0.01 > np.mean(degrees_ignored)


def test_degrees_that_say_nothing_leave_the_prior() -> None:
    """A ring has equal degrees: columns beyond the first are 0, and the ends of edges have the shares of all nodes."""
    graph = Graph.from_edges([list(range(30)), [(node + 1) % 30 for node in range(30)]], num_nodes=30)
    prior = torch.tensor([0.7, 0.2, 0.1])
    bias = torch.tensor([[0.0, 0.0, 0.0], [1.0, -2.0, 3.0], [2.0, 0.5, -1.0]])
    model = replace(block_model(graph, prior, 0.5), degree_bias=bias)
    assert torch.allclose(model.node_prior.exp(), prior.expand(30, 3))
    assert torch.allclose(model.end_shares, prior)


def test_classes_that_avoid_each_other_are_found() -> None:
    private = csbm(1000, num_classes=2, homophily=0.15, num_features=0, seed=0)
    labels = cross_fitted(private, 1.0)
    found = log_posterior(labels)[:, -1].argmax(1).numpy()
    # A node has ten neighbours. Most of them are of its class with probability P(Binomial(10, 0.15) > 5) = 0.001, half
    # of them with 0.008: with all classes of neighbours known, 0.995 is possible.
    assert (found == private.labels).mean() > 0.9


def test_uninformative_reports_on_a_graph_without_classes_give_the_prior() -> None:
    private = csbm(2000, num_classes=3, homophily=1 / 3, num_features=0, seed=0)
    labels = cross_fitted(private, 1e-4)
    model = block_model(private.graph, labels.reports.prior, 0.1)
    found = model.log_posterior(labels.local_evidence).softmax(2)
    assert torch.allclose(found, labels.reports.prior.expand_as(found), atol=1e-2)


def test_without_privacy_a_report_decides() -> None:
    labels = cross_fitted(PRIVATE, math.inf)
    found = log_posterior(labels)[labels.reports.nodes, -1].argmax(1).numpy()
    assert (found == PRIVATE.labels[labels.reports.nodes.numpy()]).all()


def test_the_field_keeps_one_class_from_taking_over() -> None:
    private = csbm(2000, num_classes=4, homophily=0.5, num_features=0, seed=0)
    labels = cross_fitted(private, 0.5)
    model = block_model(private.graph, torch.full((4,), 1 / 4), 1 / 3)
    without = replace(model, weights=torch.full((2000,), 1e-9))
    shares = [
        torch.bincount(each.log_posterior(labels.local_evidence, max_sweeps=60)[:, -1].argmax(1), minlength=4) / 2000
        for each in (model, without)
    ]
    assert shares[0].max() < 0.4 < 0.9 < shares[1].max()


def test_on_its_own_graphs_it_is_near_the_optimum_and_above_the_control() -> None:
    to_optimum, to_control = [], []
    for seed in range(3):
        private = csbm(2000, num_classes=4, homophily=0.55, num_features=0, seed=seed)
        labels, split = cross_fitted(private, 1.0, seed), Split.random(2000, seed=seed)
        attraction = (0.55 - 0.25) / 0.75
        optimum = BlockModel(
            graph=private.graph,
            prior=torch.full((4,), 0.25),
            weights=torch.full((2000,), 10.0),
            attraction=attraction,
        ).log_posterior(labels.local_evidence, max_sweeps=100)
        control = StructureOnly().fit(labels.perturbed, split).predict()
        ours = log_posterior(labels)[:, -1].argmax(1).numpy()
        right = [
            (each[split.test] == private.labels[split.test]).mean()
            for each in (ours, optimum[:, -1].argmax(1).numpy(), control)
        ]
        to_optimum.append(right[0] - right[1])
        to_control.append(right[0] - right[2])
    # 500 test nodes in three draws; a node counts if the two disagree. The standard error of a difference is at most
    # sqrt(share that disagrees / 1500): 0.009 for one node of eight, 0.02 for six of ten.
    assert np.mean(to_optimum) > -4 * 0.009
    assert np.mean(to_control) > 4 * 0.02


def test_a_class_that_reports_rule_out_leaves_the_model_finite() -> None:
    graph, evidence = PRIVATE.graph, torch.zeros(400, 1, 3)
    evidence[:, 0, 0] = -200.0
    model = replace(block_model(graph, torch.full((3,), 1 / 3), 0.5), degree_bias=torch.zeros(3, 3), exchangeable=False)
    learned, beliefs = model.learned(evidence)
    assert torch.isfinite(learned.ratios).all()
    assert (beliefs.softmax(2)[:, 0, 0] < 1e-30).all()
