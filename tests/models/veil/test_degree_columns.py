"""Columns of degrees: standardised ranks, and nothing where degrees do not differ."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from tests.support.label_views import cross_fitted
from veilgraph.graph import Graph
from veilgraph.models.veil.degree_columns import degree_columns
from veilgraph.models.veil.opinion_pool import fit_pool
from veilgraph.reconstruct.operators import GraphOperators


def test_columns_are_uncorrelated_and_have_a_mean_square_of_one() -> None:
    graph = Graph.from_edges(np.random.default_rng(0).integers(0, 400, (2, 1600)), num_nodes=400)
    columns = degree_columns(GraphOperators(graph)).double()
    assert torch.allclose(columns.T @ columns / 400, torch.eye(3, dtype=torch.float64), atol=1e-6)


def test_ranks_of_different_degrees_are_bounded() -> None:
    # The half graph has every degree from 1 to 39, one of them twice: ranks are nearly uniform, on +-sqrt(3).
    pairs = [(u, v) for u in range(40) for v in range(u + 1, 40) if u + v >= 39]
    columns = degree_columns(GraphOperators(Graph.from_edges(np.array(pairs).T, num_nodes=40)))
    assert columns[:, 1].abs().max() < 3**0.5
    assert columns[:, 2].abs().max() < 5**0.5


def test_they_do_not_depend_on_the_names_of_the_nodes() -> None:
    rng = np.random.default_rng(1)
    edges, order = rng.integers(0, 50, (2, 200)), rng.permutation(50)
    first, second = (
        degree_columns(GraphOperators(Graph.from_edges(pairs, num_nodes=50))) for pairs in (edges, order[edges])
    )
    assert torch.equal(second[order], first)


def test_isolated_nodes_change_nothing_for_others() -> None:
    edges = np.random.default_rng(1).integers(0, 50, (2, 200))
    first, more = (degree_columns(GraphOperators(Graph.from_edges(edges, num_nodes=nodes))) for nodes in (50, 70))
    assert torch.equal(more[:50], first)
    assert (more[50:, 1] < first[:, 1].min()).all()


def test_a_pool_of_views_that_know_nothing_learns_that_hubs_have_another_class() -> None:
    _, labels = cross_fitted(3.0)
    high = labels.reports.degree_columns[:, 1] > 0
    classes = torch.where(high, 2, 0)
    told = labels.perturbed
    judged = replace(labels, perturbed=replace(told, labels=np.where(told.has_label, classes.numpy(), told.labels)))
    uninformed = torch.full((1, len(judged.reports.nodes), 3), 1 / 3).log()
    pool = fit_pool(uninformed, judged, torch.ones(1))
    found = pool.combine(uninformed, judged.reports.degree_columns[judged.reports.nodes]).argmax(1)
    assert (found == classes[judged.reports.nodes]).float().mean() > 0.9
