"""The hidden layer of many replicas, made and used tile by tile: what belongs to a tile stays in the cache."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from veilgraph.learn.backbones import HIDDEN
from veilgraph.learn.transposition import copy_transposed, transposed

_TILE_NODES = 4096
"""Hidden units of so many nodes, of the few replicas that share an input, stay in a core's cache; of many fewer, calls
would take longer than what they compute."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Tile:
    """Some inputs, the replicas that see them, and some nodes; and which of these replicas share which mask."""

    inputs: slice
    replicas: slice
    nodes: slice
    masks: tuple[tuple[slice, slice | Tensor], ...]

    def drop(self, hidden: Tensor, masks: Tensor) -> None:
        """Zero what masks drop."""
        here = masks[:, :, self.nodes]
        for replicas, which in self.masks:
            hidden[replicas].mul_(here[which])


class HiddenLayer:
    r"""What the second layer is to propagate: :math:`H^T W_2^T` with :math:`H = M \circ \mathrm{relu}(W_1 X^T + b)`.

    Units that were dropped and units below zero are both zero in H, so the gradient asks H alone:
    :math:`\partial H = (W_2^T G^T) \circ [H > 0]`.

    Args:
        inputs: X, [inputs, nodes, columns]; successive replicas share one.
        mask_of: which of the masks M each replica has.
        block: how many nodes' hidden units may be held at once; None for all. Otherwise they are made once more in the
            backward pass (Chen et al. 2016), so that gradients are those of the whole graph.
    """

    def __init__(self, inputs: Tensor, mask_of: Sequence[int], *, block: int | None = None) -> None:
        self._inputs = inputs
        self._tiles = list(_tiles(inputs, mask_of, block))
        self._kept: dict[_Tile, Tensor] | None = {} if block is None else None

    @property
    def nodes(self) -> int:
        """How many."""
        return self._inputs.shape[1]

    def outputs(self, first: Tensor, bias: Tensor, second: Tensor) -> tuple[Tensor, ...]:
        """[inputs, nodes, replicas of an input * classes] for each way in which they enter, from all units.

        Args:
            first: W_1, [replicas, units, columns].
            bias: b, [replicas, units, 1].
            second: W_2, [ways, replicas, classes, units].
        """
        found: tuple[Tensor, ...] = _Outputs.apply(self, first, bias, second, None, None)  # type: ignore[no-untyped-call]
        return found

    def both_outputs(
        self, first: Tensor, bias: Tensor, second: Tensor, masks: Tensor, scales: Tensor
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """The same without a gradient; and with one, from those units alone that masks leave.

        Args:
            first: as above.
            bias: as above.
            second: as above.
            masks: M, [distinct, units, nodes], 0 where a unit is dropped and 1 elsewhere.
            scales: what makes up for dropped units, [replicas, 1, 1].
        """
        found: tuple[Tensor, ...] = _Outputs.apply(  # type: ignore[no-untyped-call]
            self, first, bias, second * scales, second.detach(), masks
        )
        return found[len(second) :], found[: len(second)]

    def forward(
        self, first: Tensor, bias: Tensor, second: Tensor, second_of_all: Tensor | None, masks: Tensor | None
    ) -> tuple[Tensor, ...]:
        """From the units that masks leave; after it, if there are masks, from all."""
        thinned, first, bias = self._room(second), self._by_input(first), self._by_input(bias)
        complete = () if second_of_all is None else self._room(second)
        for tile in self._tiles:
            hidden = self._made(tile, first, bias)
            if second_of_all is not None and masks is not None:
                _write(complete, tile, second_of_all, hidden)
                tile.drop(hidden, masks)
            _write(thinned, tile, second, hidden)
        return *thinned, *complete

    def backward(
        self, gradients: Sequence[Tensor], first: Tensor, bias: Tensor, second: Tensor, masks: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Of W_1, b and W_2."""
        first, bias = self._by_input(first), self._by_input(bias)
        of_first, of_bias, of_second = torch.zeros_like(first), torch.zeros_like(bias), torch.zeros_like(second)
        for tile in self._tiles:
            hidden = self._remembered(tile, first, bias, masks)
            lower = torch.zeros_like(hidden)
            for way, gradient in enumerate(gradients):
                upper = transposed(gradient[tile.inputs, tile.nodes]).view(len(hidden), -1, hidden.shape[2])
                of_second[way, tile.replicas].baddbmm_(upper, hidden.mT)
                lower.baddbmm_(second[way, tile.replicas].mT, upper)
            lower.mul_(hidden.sign_())
            lower = lower.view(-1, first.shape[1], lower.shape[2])
            of_first[tile.inputs].baddbmm_(lower, self._inputs[tile.inputs, tile.nodes])
            of_bias[tile.inputs] += lower.sum(dim=2, keepdim=True)
        return of_first, of_bias, of_second

    def _room(self, second: Tensor) -> tuple[Tensor, ...]:
        ways, replicas, classes, _ = second.shape
        inputs = len(self._inputs)
        return tuple(second.new_empty(inputs, self.nodes, replicas // inputs * classes) for _ in range(ways))

    def _by_input(self, weights: Tensor) -> Tensor:
        """Replicas that share an input are one wider layer."""
        return weights.reshape(len(self._inputs), -1, weights.shape[2])

    def _made(self, tile: _Tile, first: Tensor, bias: Tensor) -> Tensor:
        """Units before any is dropped, [replicas, units, nodes]."""
        inputs = self._inputs[tile.inputs, tile.nodes].mT
        room = None if self._kept is None else self._kept.get(tile)
        units = torch.baddbmm(bias[tile.inputs], first[tile.inputs], inputs, out=room).relu_()
        if self._kept is not None:
            self._kept[tile] = units
        return units.view(-1, HIDDEN, units.shape[2])

    def _remembered(self, tile: _Tile, first: Tensor, bias: Tensor, masks: Tensor | None) -> Tensor:
        """Units after some were dropped."""
        if self._kept is not None:
            return self._kept[tile].view(-1, HIDDEN, self._kept[tile].shape[2])
        hidden = self._made(tile, first, bias)
        if masks is not None:
            tile.drop(hidden, masks)
        return hidden


def _write(outputs: Sequence[Tensor], tile: _Tile, second: Tensor, hidden: Tensor) -> None:
    for output, weights in zip(outputs, second, strict=True):
        target = output[tile.inputs, tile.nodes]
        found = torch.bmm(weights[tile.replicas], hidden).view(len(target), -1, hidden.shape[2])
        copy_transposed(target, found)


def _tiles(inputs: Tensor, mask_of: Sequence[int], block: int | None) -> Iterator[_Tile]:
    """On a processor an input's replicas and as many nodes as its cache holds; on a GPU all that memory allows."""
    count, nodes, _ = inputs.shape
    on_cpu, sharing = inputs.device.type == "cpu", len(mask_of) // count
    together, size = (1, min(_TILE_NODES, block or nodes)) if on_cpu else (count, block or nodes)
    for start in range(0, count, together):
        replicas = slice(start * sharing, (start + together) * sharing)
        masks = tuple(_shared_masks(list(mask_of[replicas]), inputs.device))
        for low in range(0, nodes, size):
            part = slice(low, min(low + size, nodes))
            yield _Tile(inputs=slice(start, start + together), replicas=replicas, nodes=part, masks=masks)


def _shared_masks(mask_of: list[int], device: torch.device) -> Iterator[tuple[slice, slice | Tensor]]:
    """On a processor successive replicas with one mask, which is never copied; on a GPU all at once."""
    if device.type != "cpu":
        yield slice(None), torch.tensor(mask_of, device=device)
        return
    start = 0
    for mask, group in itertools.groupby(mask_of):
        stop = start + len(list(group))
        yield slice(start, stop), slice(mask, mask + 1)
        start = stop


class _Outputs(torch.autograd.Function):
    """The layer for torch's automatic differentiation, which would keep every array on the way for itself."""

    @staticmethod
    def forward(
        ctx: Any,
        layer: HiddenLayer,
        first: Tensor,
        bias: Tensor,
        second: Tensor,
        second_of_all: Tensor | None,
        masks: Tensor | None,
    ) -> tuple[Tensor, ...]:
        ctx.layer = layer
        ctx.save_for_backward(first, bias, second, masks)
        ctx.set_materialize_grads(False)
        results = layer.forward(first, bias, second, second_of_all, masks)
        ctx.mark_non_differentiable(*results[len(second) :])
        return results

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        first, bias, second, masks = ctx.saved_tensors
        found = ctx.layer.backward(gradients[: len(second)], first, bias, second, masks)
        of_first, of_bias, of_second = found
        return None, of_first.view_as(first), of_bias.view_as(bias), of_second, None, None
