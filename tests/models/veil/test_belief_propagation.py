"""Belief propagation: exact on trees, independent training sets, amplification by a known gain."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from veilgraph.graph import Graph
from veilgraph.models.veil.belief_propagation import BeliefPropagation, degree_scaled_strengths
from veilgraph.reconstruct.operators import GraphOperators


def random_tree(nodes: int, rng: np.random.Generator) -> Graph:
    parents = [int(rng.integers(0, node)) for node in range(1, nodes)]
    return Graph.from_edges([list(range(1, nodes)), parents], num_nodes=nodes)


def random_affinity(prior: Tensor, rng: np.random.Generator) -> Tensor:
    """Return a symmetric matrix whose rows have mean 1 under the prior, by scaling rows and columns in turn."""
    matrix = torch.from_numpy(np.exp(rng.normal(size=(len(prior), len(prior))))).float()
    matrix = matrix + matrix.T
    for _ in range(200):
        scale = (matrix @ prior).rsqrt()
        matrix = scale.unsqueeze(1) * matrix * scale
    return matrix


def enumerated(graph: Graph, prior: Tensor, factors: list[Tensor], evidence: Tensor) -> Tensor:
    """Return posterior marginals [nodes, classes] by summing over every assignment of classes."""
    nodes, classes = evidence.shape
    marginals = torch.zeros(nodes, classes, dtype=torch.float64)
    for assignment in itertools.product(range(classes), repeat=nodes):
        weight = sum(float(evidence[v, x] + prior[x].log()) for v, x in enumerate(assignment))
        for (u, v), factor in zip(graph.edges.T, factors, strict=True):
            weight += float(factor[assignment[u], assignment[v]].log())
        for v, x in enumerate(assignment):
            marginals[v, x] += np.exp(weight)
    return marginals / marginals.sum(1, keepdim=True)


@settings(max_examples=10, deadline=None)
@given(st.integers(2, 6), st.integers(2, 3), st.booleans(), st.integers(0, 2**32 - 1))
def test_on_a_tree_beliefs_are_the_exact_posterior(nodes: int, classes: int, learned: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_tree(nodes, rng)
    prior = torch.from_numpy(rng.dirichlet(np.full(classes, 3.0))).float()
    affinity = random_affinity(prior, rng) if learned else None
    strengths = torch.from_numpy(rng.uniform(0.1, 0.9, size=graph.num_edges)).float()
    evidence = torch.from_numpy(rng.normal(size=(nodes, classes))).float()
    propagation = BeliefPropagation(graph=graph, prior=prior, edge_strengths=strengths, affinity=affinity)
    found = propagation.propagate(evidence.unsqueeze(1), [nodes], damping=0.0)[nodes].squeeze(1).softmax(dim=1)
    matrix = torch.diag(1 / prior) if affinity is None else affinity
    expected = enumerated(graph, prior, [1 + t * (matrix - 1) for t in strengths], evidence)
    assert torch.allclose(found.double(), expected, atol=2e-4)


def test_training_sets_do_not_affect_each_other() -> None:
    graph = random_tree(8, np.random.default_rng(0))
    evidence = torch.randn(8, 3, 2, generator=torch.Generator().manual_seed(0))
    propagation = BeliefPropagation(graph=graph, prior=torch.tensor([0.4, 0.6]), edge_strengths=torch.full((7,), 0.5))
    together = propagation.propagate(evidence, [5])[5]
    for index in range(3):
        alone = propagation.propagate(evidence[:, index : index + 1], [5])[5]
        assert torch.allclose(together[:, index], alone[:, 0], atol=1e-6)


def test_a_node_without_neighbours_keeps_prior_and_evidence() -> None:
    graph = Graph.from_edges([[0], [1]], num_nodes=3)
    evidence = torch.zeros(3, 1, 2)
    evidence[2, 0, 1] = 1.0
    prior = torch.tensor([0.3, 0.7])
    propagation = BeliefPropagation(graph=graph, prior=prior, edge_strengths=torch.full((1,), 0.9))
    beliefs = propagation.propagate(evidence, [4])[4]
    assert torch.allclose(beliefs[2, 0], prior.log() + evidence[2, 0])


@pytest.mark.parametrize("degree", [2, 10, 40])
def test_an_iteration_amplifies_weak_evidence_by_the_gain_at_any_density(degree: int) -> None:
    # On a ring lattice all degrees are equal, so S keeps constant evidence: one iteration adds gain times it.
    nodes, gain, weak = 101, 2.0, 0.01
    pairs = [(v, (v + step) % nodes) for v in range(nodes) for step in range(1, degree // 2 + 1)]
    graph = Graph.from_edges(np.array(pairs).T, num_nodes=nodes)
    evidence = torch.tensor([weak, -weak]).repeat(nodes, 1, 1)
    strengths = degree_scaled_strengths(GraphOperators(graph), gain, maximum=1.0)
    propagation = BeliefPropagation(graph=graph, prior=torch.tensor([0.5, 0.5]), edge_strengths=strengths)
    beliefs = propagation.propagate(evidence, [1])[1]
    spread = (beliefs[:, 0, 0] - beliefs[:, 0, 1]) / (2 * weak)
    assert torch.allclose(spread, torch.tensor(1 + gain), rtol=1e-2)


def test_strengths_are_capped() -> None:
    star = Graph.from_edges([[0, 0, 0, 4], [1, 2, 3, 5]], num_nodes=6)
    assert degree_scaled_strengths(GraphOperators(star), 1.0, maximum=0.9).tolist() == pytest.approx(
        [3**-0.5] * 3 + [0.9]
    )


@pytest.mark.parametrize("classes", [2, 3, 70])
@pytest.mark.parametrize("learned", [False, True])
def test_results_do_not_depend_on_the_size_of_blocks(classes: int, learned: bool) -> None:
    rng = np.random.default_rng(0)
    graph = Graph.from_edges(rng.integers(0, 40, size=(2, 150)), num_nodes=40)
    prior = torch.from_numpy(rng.dirichlet(np.full(classes, 3.0))).float()
    affinity = random_affinity(prior, rng) if learned else None
    strengths = degree_scaled_strengths(GraphOperators(graph), 2.0, maximum=0.9)
    propagation = BeliefPropagation(graph=graph, prior=prior, edge_strengths=strengths, affinity=affinity)
    evidence = torch.from_numpy(rng.normal(size=(40, 4, classes))).float()
    whole = propagation.propagate(evidence, [1, 6])
    parts = replace(propagation, block_entries=1, max_block_width=1).propagate(evidence, [1, 6])
    for iterations in (1, 6):
        assert torch.allclose(whole[iterations], parts[iterations], rtol=1e-3, atol=1e-4)
