"""The output layer against the formula, differentiated by torch; selection and scattering of node values."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.support.partition import Partition
from veilgraph.graph import Graph
from veilgraph.models.engine.output_layer import ALL_NODES, NodeSubset, OutputLayer, needed_nodes, permuted, transposed
from veilgraph.reconstruct.operators import GraphOperators, PartOperators

NODES, COLUMNS = 6, 5
OPERATORS = GraphOperators(Graph.from_edges([[0, 0, 1, 2, 3], [1, 2, 2, 3, 4]], NODES))  # node 5 is isolated
SOME = NodeSubset(torch.tensor([1, 3, 5]))


def drawn(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).requires_grad_()


@pytest.mark.parametrize("nodes", [ALL_NODES, SOME])
@pytest.mark.parametrize("own", [False, True])
def test_logits_and_gradients_are_those_of_the_formula(nodes: NodeSubset, own: bool) -> None:
    product = OPERATORS.neighbours
    terms = (drawn(NODES, COLUMNS, seed=0), *([drawn(COLUMNS, NODES, seed=1)] if own else []))
    expected = nodes.select(sum(terms[1:], (product.matrix.to_dense() @ terms[0]).T))
    found = OutputLayer(product, nodes)(*terms)
    # Sums of at most four numbers of size 1, in another order.
    assert torch.allclose(found, expected, rtol=0, atol=1e-6)
    direction = torch.randn(expected.shape, generator=torch.Generator().manual_seed(2))
    gradients = (torch.autograd.grad((each * direction).sum(), terms) for each in (found, expected))
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-6)


def test_gradients_undo_transposition_and_permutation() -> None:
    order = torch.tensor([2, 0, 3, 1])
    values, direction = drawn(4, 3, seed=0), torch.randn(3, 4, generator=torch.Generator().manual_seed(1))
    found = transposed(permuted(values, order, order.argsort()))
    assert torch.equal(found, values[order].T)
    (gradient,) = torch.autograd.grad((found * direction).sum(), values)
    assert torch.equal(gradient[order], direction.T)


def operators(nodes: int) -> GraphOperators:
    return GraphOperators(Graph.from_edges([range(nodes - 1), range(1, nodes)], nodes))


@given(st.integers(1, 4), st.integers(2, 12), st.integers(0, 2**32 - 1))
def test_every_needed_value_is_selected_at_its_position(replicas: int, nodes: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    needed = [random.random(nodes) < 0.3 for _ in range(replicas)]
    subset = needed_nodes(needed, operators(nodes))
    values = torch.from_numpy(random.random((replicas, 2, nodes)))
    selected = subset.select(values)
    assert selected.shape == (replicas, 2, subset.size(nodes))
    for mask in needed:
        marked = torch.from_numpy(np.flatnonzero(mask))
        assert torch.equal(selected[..., subset.positions(marked)], values[..., marked])


def test_only_needed_values_are_selected() -> None:
    subset = needed_nodes([np.array([True, False, False]), np.array([False, False, True])], operators(3))
    assert subset.select(torch.tensor([[1, 2, 3], [4, 5, 6]])).tolist() == [[1, 3], [4, 6]]


def test_all_nodes_leave_values_and_positions_unchanged() -> None:
    values, nodes = torch.rand(2, 3, 4), torch.tensor([1, 3])
    assert ALL_NODES.select(values) is values
    assert ALL_NODES.positions(nodes) is nodes
    assert ALL_NODES.size(4) == 4


def test_parts_of_a_graph_and_gpus_need_all_nodes() -> None:
    graph = operators(3).graph
    assert needed_nodes([np.array([True, False, False])], PartOperators(Partition(graph, 1)[0])) is ALL_NODES
    assert needed_nodes([np.array([True, False, False])], GraphOperators(graph, "cuda")) is ALL_NODES
