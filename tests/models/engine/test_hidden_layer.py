"""The hidden layer against the formula, differentiated by torch."""

from __future__ import annotations

import gc

import pytest
import torch
from torch import Tensor

from veilgraph.models.engine.backbones import HIDDEN
from veilgraph.models.engine.hidden_layer import TILE_UNITS, HiddenLayer, add_product, tile_nodes

NODES, COLUMNS, CLASSES = 23, 5, 3
MASK_INDEX = [0, 0, 1, None, 1, 1]
MASKED = torch.tensor([0, 1, 2, 4, 5])


def drawn(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def weights_of(terms: int) -> tuple[Tensor, Tensor, Tensor]:
    replicas = len(MASK_INDEX)
    first, bias = drawn(replicas, HIDDEN, COLUMNS, seed=1), drawn(replicas, HIDDEN, 1, seed=2)
    second = drawn(replicas, terms, CLASSES, HIDDEN, seed=3)
    return first.requires_grad_(), bias.requires_grad_(), second.requires_grad_()


def hidden_formula(inputs: Tensor, first: Tensor, bias: Tensor, second: Tensor, masks: Tensor | None = None) -> Tensor:
    """Compute W_2 (M * relu(W_1 X^T + b)) in ordinary torch operations, [terms, replicas, classes, nodes]."""
    inputs = inputs.repeat_interleave(len(first) // len(inputs), dim=0)
    units = torch.relu(first @ inputs.mT + bias)
    return second.transpose(0, 1) @ (units if masks is None else units * masks)


def live_numbers() -> int:
    """Return how many numbers all tensors of this process hold."""
    gc.collect()
    return sum(each.numel() for each in gc.get_objects() if type(each) is Tensor)


def stacked(outputs: tuple[Tensor, ...]) -> Tensor:
    """Return a layer's outputs in the shape of the formula."""
    columns = torch.stack([outputs[0].T, *outputs[1:]])
    return columns.view(len(columns), -1, CLASSES, columns.shape[2])


@pytest.mark.parametrize("terms", [1, 2])
@pytest.mark.parametrize("sharing", [1, 2, 3, 6])
@pytest.mark.parametrize(("block", "tile"), [(None, 10**6), (None, 1), (7, 10**6), (1, 10**6)])
def test_outputs_and_gradients_are_those_of_the_formula(terms: int, sharing: int, block: int | None, tile: int) -> None:
    inputs, weights = drawn(len(MASK_INDEX) // sharing, NODES, COLUMNS, seed=0), weights_of(terms)
    masks = (drawn(2, HIDDEN, NODES, seed=4) > 0).to(torch.float64)
    each_mask = torch.stack([torch.ones_like(masks[0]) if mask is None else masks[mask] for mask in MASK_INDEX])
    scales = drawn(len(MASK_INDEX), 1, 1, 1, seed=5).abs()
    layer = HiddenLayer(inputs, MASK_INDEX, block_nodes=block, tile_units=tile)
    first, bias, second = weights
    for _ in range(2):  # stored units of the first pass must not change the second
        outputs = layer(first, bias, second * scales, masks=masks, second_unmasked=second[MASKED])
        masked, unmasked = map(stacked, outputs)
        expected = hidden_formula(inputs, first, bias, second * scales, each_mask)
        assert torch.allclose(masked, expected, rtol=0, atol=1e-12)
        assert torch.allclose(unmasked, hidden_formula(inputs, *weights)[:, MASKED], rtol=0, atol=1e-12)
        assert not unmasked.requires_grad
        direction = drawn(*expected.shape, seed=6)
        found = torch.autograd.grad((masked * direction).sum(), weights)
        for one, other in zip(found, torch.autograd.grad((expected * direction).sum(), weights), strict=True):
            assert torch.allclose(one, other, rtol=0, atol=1e-12)
            assert one.abs().max() > 0.1


@pytest.mark.parametrize("nodes", [4096, 10**5])
@pytest.mark.parametrize("replicas", [1, 4, 5])
def test_rows_of_a_tile_do_not_compete_for_the_same_cache_sets(nodes: int, replicas: int) -> None:
    size = tile_nodes(torch.empty(1, nodes, 1), replicas)
    lines, rest = divmod(size, 16)
    assert rest == 0
    assert lines % 2 == 1
    assert size * replicas * HIDDEN <= TILE_UNITS * torch.get_num_threads()


@pytest.mark.parametrize("block", [None, 7])
def test_without_masks_all_units_have_a_gradient(block: int | None) -> None:
    inputs, weights = drawn(3, NODES, COLUMNS, seed=0), weights_of(2)
    outputs = stacked(HiddenLayer(inputs, MASK_INDEX, block_nodes=block)(*weights)[0])
    expected = hidden_formula(inputs, *weights)
    assert torch.allclose(outputs, expected, rtol=0, atol=1e-12)
    for one, other in zip(
        torch.autograd.grad(outputs.square().sum(), weights),
        torch.autograd.grad(expected.square().sum(), weights),
        strict=True,
    ):
        assert torch.allclose(one, other, rtol=1e-10, atol=1e-10)


def test_hidden_units_of_all_nodes_are_stored_only_without_blocks() -> None:
    inputs, weights = drawn(3, NODES, COLUMNS, seed=0), weights_of(2)
    held = []
    for block in (None, 7):
        layer = HiddenLayer(inputs, MASK_INDEX, block_nodes=block)
        before = live_numbers()
        layer(*weights)
        held.append(live_numbers() - before)
    assert held == [len(MASK_INDEX) * HIDDEN * NODES, 0]


@pytest.mark.parametrize("block", [None, 7])
def test_a_gradient_is_right_or_refused_after_other_passes(block: int | None) -> None:
    inputs, weights = drawn(3, NODES, COLUMNS, seed=0), weights_of(2)
    layer = HiddenLayer(inputs, MASK_INDEX, block_nodes=block)
    expected = torch.autograd.grad(stacked(layer(*weights)[0]).sum(), weights)
    earlier = stacked(layer(*weights)[0]).sum()
    with torch.no_grad():  # other weights, without a gradient
        layer(*(2 * each for each in weights))
    for one, other in zip(torch.autograd.grad(earlier, weights), expected, strict=True):
        assert torch.equal(one, other)
    earlier = stacked(layer(*weights)[0]).sum()
    layer(*weights)
    with pytest.raises(RuntimeError, match="replaced by those of a later one"):
        torch.autograd.grad(earlier, weights)


@pytest.mark.parametrize("nodes", [7, 8, 23, 100])
def test_a_sum_over_nodes_is_the_same_in_parts(nodes: int) -> None:
    left, units, rows = drawn(3, 4, nodes, seed=0), drawn(3, 5, nodes, seed=1), drawn(3, nodes, 6, seed=2)
    for right in (units.mT, rows):
        for parts in (1, 3, 7):
            sums = left.new_ones(3, 4, right.shape[2])
            add_product(sums, left, right, parts=parts)
            assert torch.allclose(sums, 1 + left @ right, atol=1e-5)
