"""Bag proportions: means of randomized labels, debiased, on the simplex; bags without labels are left out."""

from __future__ import annotations

import numpy as np
import torch
from scipy.linalg import block_diag

from tests.reconstruct.test_labels import CLASSES, labelled_graph
from veilgraph.graph import Graph
from veilgraph.privacy.frequency import estimate_frequencies
from veilgraph.privacy.mechanisms import GRR
from veilgraph.reconstruct import bag_proportions
from veilgraph.reconstruct.bags import bags_of_draws
from veilgraph.reconstruct.labels import project_to_simplex

RING = Graph.from_edges([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]], num_nodes=6)
CLUSTERS = np.array([0, 0, 0, 2, 2, 5])
LABELS = np.array([0, 0, 1, 2, 2, 1])


def test_a_proportion_is_the_debiased_mean_of_its_members() -> None:
    everyone = np.ones(6, dtype=np.bool_)
    bags = bag_proportions(labelled_graph(RING, LABELS, everyone), CLUSTERS, everyone)
    channel = GRR(CLASSES, 1.0).channel
    observed = torch.tensor([[2 / 3, 1 / 3, 0], [0, 0, 1], [0, 1, 0]])
    assert torch.allclose(bags.proportions, project_to_simplex(estimate_frequencies(observed, channel)), atol=1e-6)
    assert bags.sizes.tolist() == [3, 2, 1]


def test_only_labelled_members_count_and_empty_bags_have_no_proportion() -> None:
    members = np.array([True, False, True, False, False, False])
    labelled = np.array([True, True, True, False, True, True])
    bags = bag_proportions(labelled_graph(RING, LABELS, labelled), CLUSTERS, members)
    assert bags.sizes.tolist() == [2]
    assert torch.allclose(bags.membership.to_dense(), torch.tensor([[0.5, 0, 0.5, 0, 0, 0]]))


def test_proportions_are_distributions_even_where_estimates_are_not() -> None:
    everyone = np.ones(6, dtype=np.bool_)
    bags = bag_proportions(labelled_graph(RING, LABELS, everyone, epsilon=0.1), CLUSTERS, everyone)
    assert (bags.proportions >= 0).all()
    assert torch.allclose(bags.proportions.sum(1), torch.ones(3))
    assert (bags.standard_errors > 0).all()


def test_bags_of_several_draws_are_those_of_each_one_after_another() -> None:
    rng = np.random.default_rng(0)
    draws = [labelled_graph(RING, rng.permutation(LABELS), rng.random(6) < 0.7, epsilon=each) for each in (0.5, 1, 3)]
    clusters = [CLUSTERS, np.zeros(6, dtype=np.int64), CLUSTERS[::-1].copy()]
    members, estimate = [rng.random(6) < 0.8 for _ in draws], [True, False, True]
    together = bags_of_draws(draws, clusters, members, estimate=estimate)
    alone = [
        bag_proportions(perturbed, parts, chosen, estimate=use)
        for perturbed, parts, chosen, use in zip(draws, clusters, members, estimate, strict=True)
    ]
    assert together.draws.tolist() == [draw for draw, bags in enumerate(alone) for _ in bags.sizes]
    whole = block_diag(*[bags.membership.to_dense().numpy() for bags in alone])
    assert np.array_equal(together.membership.to_dense().numpy(), whole)
    for name in ("proportions", "standard_errors", "sizes"):
        assert torch.allclose(getattr(together, name), torch.cat([getattr(bags, name) for bags in alone]))
