"""Belief propagation: exact on trees, the same whatever nodes and classes are called, of known gain."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import veilgraph.models.veil.belief_propagation as belief
from veilgraph.graph import Graph
from veilgraph.models.veil.belief_propagation import BeliefPropagation, copying_strengths


def random_tree(nodes: int, rng: np.random.Generator) -> Graph:
    parents = [int(rng.integers(0, node)) for node in range(1, nodes)]
    return Graph.from_edges([list(range(1, nodes)), parents], num_nodes=nodes)


def random_coupling(prior: Tensor, rng: np.random.Generator) -> Tensor:
    """Symmetric, with every row's mean under the prior equal to 1, by scaling rows and columns in turn."""
    matrix = torch.from_numpy(np.exp(rng.normal(size=(len(prior), len(prior))))).float()
    matrix = matrix + matrix.T
    for _ in range(200):
        scale = (matrix @ prior).rsqrt()
        matrix = scale.unsqueeze(1) * matrix * scale
    return matrix


def enumerated(graph: Graph, prior: Tensor, factors: list[Tensor], evidence: Tensor) -> Tensor:
    """Posterior marginals by summing over every assignment of classes."""
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
    coupling = random_coupling(prior, rng) if learned else None
    strengths = torch.from_numpy(rng.uniform(0.1, 0.9, size=graph.num_edges)).float()
    evidence = torch.from_numpy(rng.normal(size=(nodes, classes))).float()
    propagation = BeliefPropagation(graph=graph, prior=prior, strengths=strengths.repeat(2), coupling=coupling)
    found = propagation.sweep(evidence.unsqueeze(1), [nodes], damping=0.0)[nodes].squeeze(1).softmax(dim=1)
    matrix = torch.diag(1 / prior) if coupling is None else coupling
    expected = enumerated(graph, prior, [1 + t * (matrix - 1) for t in strengths], evidence)
    assert torch.allclose(found.double(), expected, atol=2e-4)


def test_versions_do_not_touch_each_other() -> None:
    graph = random_tree(8, np.random.default_rng(0))
    evidence = torch.randn(8, 3, 2, generator=torch.Generator().manual_seed(0))
    propagation = BeliefPropagation(graph=graph, prior=torch.tensor([0.4, 0.6]), strengths=torch.full((14,), 0.5))
    together = propagation.sweep(evidence, [5])[5]
    for version in range(3):
        alone = propagation.sweep(evidence[:, version : version + 1], [5])[5]
        assert torch.allclose(together[:, version], alone[:, 0], atol=1e-6)


def test_a_node_without_neighbours_keeps_prior_and_evidence() -> None:
    graph = Graph.from_edges([[0], [1]], num_nodes=3)
    evidence = torch.zeros(3, 1, 2)
    evidence[2, 0, 1] = 1.0
    prior = torch.tensor([0.3, 0.7])
    beliefs = BeliefPropagation(graph=graph, prior=prior, strengths=torch.full((2,), 0.9)).sweep(evidence, [4])[4]
    assert torch.allclose(beliefs[2, 0], prior.log() + evidence[2, 0])


@pytest.mark.parametrize("degree", [2, 10, 40])
def test_a_sweep_amplifies_faint_evidence_by_the_gain_at_any_density(degree: int) -> None:
    # On a ring lattice degrees are equal, so S keeps equal evidence everywhere as it is: one sweep adds gain times it.
    nodes, gain, faint = 101, 2.0, 0.01
    pairs = [(v, (v + step) % nodes) for v in range(nodes) for step in range(1, degree // 2 + 1)]
    graph = Graph.from_edges(np.array(pairs).T, num_nodes=nodes)
    evidence = torch.tensor([faint, -faint]).repeat(nodes, 1, 1)
    strengths = copying_strengths(graph, gain, most=1.0)
    propagation = BeliefPropagation(graph=graph, prior=torch.tensor([0.5, 0.5]), strengths=strengths)
    beliefs = propagation.sweep(evidence, [1])[1]
    spread = (beliefs[:, 0, 0] - beliefs[:, 0, 1]) / (2 * faint)
    assert torch.allclose(spread, torch.tensor(1 + gain), rtol=1e-2)


def test_strengths_are_capped() -> None:
    star = Graph.from_edges([[0, 0, 0, 4], [1, 2, 3, 5]], num_nodes=6)
    assert copying_strengths(star, 1.0, most=0.9).tolist() == pytest.approx(
        [3**-0.5] * 3 + [0.9] + [3**-0.5] * 3 + [0.9]
    )


@pytest.mark.parametrize("classes", [2, 3, 70])
@pytest.mark.parametrize("learned", [False, True])
def test_blocks_of_edges_and_of_versions_do_not_matter(
    classes: int, learned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    graph = Graph.from_edges(rng.integers(0, 40, size=(2, 150)), num_nodes=40)
    prior = torch.from_numpy(rng.dirichlet(np.full(classes, 3.0))).float()
    coupling = random_coupling(prior, rng) if learned else None
    strengths = copying_strengths(graph, 2.0, most=0.9)
    propagation = BeliefPropagation(graph=graph, prior=prior, strengths=strengths, coupling=coupling)
    evidence = torch.from_numpy(rng.normal(size=(40, 4, classes))).float()
    whole = propagation.sweep(evidence, [1, 6])
    monkeypatch.setattr(belief, "_BLOCK", {"cpu": 1})
    monkeypatch.setattr(belief, "_WIDE", 1)
    parts = propagation.sweep(evidence, [1, 6])
    for sweeps in (1, 6):
        assert torch.allclose(whole[sweeps], parts[sweeps], rtol=1e-3, atol=1e-4)
