"""PageRank views: debiased shares around a node, with their effective sample sizes."""

from __future__ import annotations

import numpy as np
import torch

from veilgraph.datasets import csbm
from veilgraph.experiments import simulate
from veilgraph.graph import Split
from veilgraph.models.veil.cross_fitting import CrossFitting
from veilgraph.models.veil.pagerank import RANGES, pagerank_views
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.reconstruct.operators import GraphOperators

PRIVATE = csbm(150, num_classes=3, num_features=2, seed=0)
PERTURBED = simulate(PRIVATE, PrivacyBudget(1.0, 1.0, 1), Split.random(150, seed=0), rng=np.random.default_rng(0))
LABELS = CrossFitting.random(PERTURBED, seed=0)
OPERATORS = GraphOperators(PRIVATE.graph)


def weights(restart: float, steps: int) -> torch.Tensor:
    matrix, identity = OPERATORS.symmetric.matrix.to_dense(), torch.eye(150)
    found = identity
    for _ in range(steps):
        found = (1 - restart) * matrix @ found + restart * identity
    return found


def test_excess_is_the_debiased_share_around_a_node_less_the_overall_share() -> None:
    found = pagerank_views(LABELS, OPERATORS, seed=0)
    assert tuple(found) == RANGES
    for (restart, steps), view in found.items():
        scores = weights(restart, steps) @ LABELS.reports_of(slice(None))[:, -1]
        shares = scores / scores.sum(1, keepdim=True)
        expected = (shares - LABELS.reports.report_shares) / (LABELS.reports.keep - LABELS.reports.other)
        assert torch.allclose(view.excess[:, -1], expected, atol=1e-3)


def test_effective_sizes_leave_a_nodes_own_weight_out_and_are_right_on_average() -> None:
    matrix = weights(0.1, 16)
    reporting = torch.from_numpy(PERTURBED.has_label).float()
    squares = matrix.square().sum(1) - matrix.diag().square()
    expected = (matrix @ reporting).square() / (reporting.mean() * squares)
    found = torch.stack(
        [1 / pagerank_views(LABELS, OPERATORS, seed=seed)[0.1, 16].effective_sizes[:, -1] for seed in range(8)]
    )
    # A sum of squares from 16 signs has a relative standard deviation of about sqrt(2 / 16), over 8 seeds 0.125.
    assert torch.allclose(found.mean(0) * expected, torch.tensor(1.0), atol=5 * 0.125)


def test_maximal_caution_gives_the_prior() -> None:
    view = pagerank_views(LABELS, OPERATORS, seed=0)[0.5, 4]
    prior = torch.tensor([0.2, 0.3, 0.5])
    cautious = view.log_probabilities(prior, (1.0, 1e12)).exp()
    assert torch.allclose(cautious, prior.expand_as(cautious), atol=1e-3)
