"""The hidden layer against the formula, differentiated by torch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from veilgraph.models.engine import hidden_layer as hidden
from veilgraph.models.engine.backbones import HIDDEN
from veilgraph.models.engine.hidden_layer import HiddenLayer

NODES, COLUMNS, CLASSES = 23, 5, 3
MASK_OF = [0, 0, 1, None, 1, 1]
THINNED = torch.tensor([0, 1, 2, 4, 5])


def drawn(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def weights_of(ways: int) -> tuple[Tensor, Tensor, Tensor]:
    replicas = len(MASK_OF)
    first, bias = drawn(replicas, HIDDEN, COLUMNS, seed=1), drawn(replicas, HIDDEN, 1, seed=2)
    second = drawn(replicas, ways, CLASSES, HIDDEN, seed=3)
    return first.requires_grad_(), bias.requires_grad_(), second.requires_grad_()


def written_out(inputs: Tensor, first: Tensor, bias: Tensor, second: Tensor, masks: Tensor | None = None) -> Tensor:
    """W_2 (M relu(W_1 X + b)), [ways, replicas, classes, nodes]."""
    each = inputs.repeat_interleave(len(first) // len(inputs), dim=0)
    units = torch.relu(first @ each.mT + bias)
    return second.transpose(0, 1) @ (units if masks is None else units * masks)


def stacked(outputs: tuple[Tensor, ...]) -> Tensor:
    """The same from the layer's outputs, of which the first has a row for each node."""
    columns = torch.stack([outputs[0].T, *outputs[1:]])
    return columns.view(len(columns), -1, CLASSES, columns.shape[2])


@pytest.mark.parametrize("ways", [1, 2])
@pytest.mark.parametrize("sharing", [1, 2, 3, 6])
@pytest.mark.parametrize(("block", "tile"), [(None, 10**6), (None, 1), (7, 10**6), (1, 10**6)])
def test_outputs_and_gradients_are_those_of_the_formula(
    ways: int, sharing: int, block: int | None, tile: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hidden, "_TILE_UNITS", tile)
    inputs, weights = drawn(len(MASK_OF) // sharing, NODES, COLUMNS, seed=0), weights_of(ways)
    masks = (drawn(2, HIDDEN, NODES, seed=4) > 0).to(torch.float64)
    each_mask = torch.stack([torch.ones_like(masks[0]) if mask is None else masks[mask] for mask in MASK_OF])
    scales = drawn(len(MASK_OF), 1, 1, 1, seed=5).abs()
    layer = HiddenLayer(inputs, MASK_OF, block=block)
    first, bias, second = weights
    for _ in range(2):  # what the first pass left behind must not matter to the second
        thinned, complete = (
            stacked(each) for each in layer.both_outputs(first, bias, second * scales, second[THINNED], masks)
        )
        expected, whole = written_out(inputs, first, bias, second * scales, each_mask), written_out(inputs, *weights)
        assert torch.allclose(thinned, expected, rtol=0, atol=1e-12)
        assert torch.allclose(complete, whole[:, THINNED], rtol=0, atol=1e-12)
        assert not complete.requires_grad
        direction = drawn(*expected.shape, seed=6)
        found = torch.autograd.grad((thinned * direction).sum(), weights)
        for one, other in zip(found, torch.autograd.grad((expected * direction).sum(), weights), strict=True):
            assert torch.allclose(one, other, rtol=0, atol=1e-12)
            assert one.abs().max() > 0.1


@pytest.mark.parametrize("nodes", [4096, 10**5])
@pytest.mark.parametrize("replicas", [1, 4, 5])
def test_a_tiles_rows_do_not_fall_upon_the_same_places_of_a_cache(nodes: int, replicas: int) -> None:
    size = hidden._tile_nodes(torch.empty(1, nodes, 1), replicas)
    lines, rest = divmod(size, 16)
    assert rest == 0
    assert lines % 2 == 1
    assert size * replicas * HIDDEN <= hidden._TILE_UNITS * torch.get_num_threads()


@pytest.mark.parametrize("block", [None, 7])
def test_without_masks_all_units_have_a_gradient(block: int | None) -> None:
    inputs, weights = drawn(3, NODES, COLUMNS, seed=0), weights_of(2)
    outputs = stacked(HiddenLayer(inputs, MASK_OF, block=block).outputs(*weights))
    expected = written_out(inputs, *weights)
    assert torch.allclose(outputs, expected, rtol=0, atol=1e-12)
    for one, other in zip(
        torch.autograd.grad(outputs.square().sum(), weights),
        torch.autograd.grad(expected.square().sum(), weights),
        strict=True,
    ):
        assert torch.allclose(one, other, rtol=1e-10, atol=1e-10)


def test_hidden_units_of_all_nodes_are_held_only_where_memory_allows_it() -> None:
    inputs, weights = drawn(3, NODES, COLUMNS, seed=0), weights_of(2)
    layers = [HiddenLayer(inputs, MASK_OF, block=block) for block in (None, 7)]
    for layer in layers:
        layer.outputs(*weights)
    held = [sum(units.numel() for units in layer._kept.values()) for layer in layers]
    assert held == [len(MASK_OF) * HIDDEN * NODES, 0]


@pytest.mark.parametrize("block", [None, 7])
def test_a_gradient_is_right_or_refused_whatever_else_was_computed_since(block: int | None) -> None:
    inputs, weights = drawn(3, NODES, COLUMNS, seed=0), weights_of(2)
    layer = HiddenLayer(inputs, MASK_OF, block=block)
    expected = torch.autograd.grad(stacked(layer.outputs(*weights)).sum(), weights)
    earlier = stacked(layer.outputs(*weights)).sum()
    with torch.no_grad():  # other weights, without a gradient
        layer.outputs(*(2 * each for each in weights))
    for one, other in zip(torch.autograd.grad(earlier, weights), expected, strict=True):
        assert torch.equal(one, other)
    earlier = stacked(layer.outputs(*weights)).sum()
    layer.outputs(*weights)
    with pytest.raises(RuntimeError, match="replaced by those of a later one"):
        torch.autograd.grad(earlier, weights)


@pytest.mark.parametrize("nodes", [7, 8, 23, 100])
def test_a_sum_over_nodes_is_the_same_in_parts(nodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    left, units, rows = drawn(3, 4, nodes, seed=0), drawn(3, 5, nodes, seed=1), drawn(3, nodes, 6, seed=2)
    for right in (units.mT, rows):
        for parts in (1, 3, 7):
            monkeypatch.setattr(hidden, "_parts", lambda nodes, device, parts=parts: parts)
            sums = left.new_ones(3, 4, right.shape[2])
            hidden._add_product(sums, left, right)
            assert torch.allclose(sums, 1 + left @ right, atol=1e-5)
