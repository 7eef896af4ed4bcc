"""The output layer against the formula, differentiated by torch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from veilgraph.graph import Graph
from veilgraph.models.engine.node_subset import ALL_NODES, NodeSubset
from veilgraph.models.engine.output_layer import OutputLayer, output_formula, permuted, transposed
from veilgraph.reconstruct.operators import GraphOperators

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
    expected = nodes.select(output_formula(product.matrix.to_dense(), *terms))
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
