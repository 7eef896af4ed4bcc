"""The hidden layer of many replicas, made and used tile by tile: what belongs to a tile stays in the cache."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from veilgraph.learn.backbones import HIDDEN
from veilgraph.reconstruct.by_hand import applied

_TILE_UNITS = 2**18
"""So many hidden units stay in a core's cache; of many fewer, calls would take longer than what they compute."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Group:
    """Replicas that go through the layer together, and the inputs that they see."""

    inputs: slice
    replicas: slice
    masks: tuple[tuple[slice, slice | Tensor], ...]

    def multiply(self, weights: Tensor, hidden: Tensor, out: Tensor) -> None:
        """Each way's weights times the hidden units, into the places of these replicas."""
        for each, result in zip(weights, out, strict=True):
            torch.bmm(each[self.replicas], hidden, out=result[self.replicas])

    def drop(self, hidden: Tensor, masks: Tensor) -> None:
        """Zero what masks drop."""
        for replicas, which in self.masks:
            hidden[replicas].mul_(masks[which])


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
        self._groups = list(_groups(len(inputs), mask_of, inputs.device))
        size = min(block or self.nodes, _tile_nodes(inputs, len(mask_of)))
        self._tiles = [slice(low, min(low + size, self.nodes)) for low in range(0, self.nodes, size)]
        self._keeps, self._kept = block is None, dict[tuple[_Group, int], Tensor]()
        self._latest: object = None

    @property
    def nodes(self) -> int:
        """How many."""
        return self._inputs.shape[1]

    def outputs(self, first: Tensor, bias: Tensor, second: Tensor) -> tuple[Tensor, ...]:
        """[nodes, replicas * classes] for each way in which they enter the second layer, from all units.

        A gradient is that of the latest call, whose hidden units are kept in the place of those before.

        Args:
            first: W_1, [replicas, units, columns].
            bias: b, [replicas, units, 1].
            second: W_2, [ways, replicas, classes, units].
        """
        found: tuple[Tensor, ...] = applied(_Outputs, self, _call(), first, bias, second, None, None)
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
        found: tuple[Tensor, ...] = applied(
            _Outputs, self, _call(), first, bias, second * scales, second.detach(), masks
        )
        return found[len(second) :], found[: len(second)]

    def forward(
        self,
        first: Tensor,
        bias: Tensor,
        second: Tensor,
        second_of_all: Tensor | None,
        masks: Tensor | None,
        *,
        call: object,
    ) -> tuple[Tensor, ...]:
        """From the units that masks leave; after it, if there are masks, from all. None calls without a gradient."""
        self._latest, keep = (self._latest if call is None else call), self._keeps and call is not None
        thinned, first, bias = self._room(second), self._by_input(first), self._by_input(bias)
        complete = () if second_of_all is None else self._room(second)
        for nodes in self._tiles:
            of_some, of_all = (second.new_empty(*second.shape[:3], nodes.stop - nodes.start) for _ in range(2))
            for group in self._groups:
                hidden = self._made(group, nodes, first, bias, keep=keep)
                if second_of_all is not None and masks is not None:
                    group.multiply(second_of_all, hidden, of_all)
                    group.drop(hidden, masks[:, :, nodes])
                group.multiply(second, hidden, of_some)
            for outputs, found in ((thinned, of_some), (complete, of_all)):
                for output, columns in zip(outputs, found, strict=False):
                    output[nodes].copy_(columns.flatten(0, 1).T)
        return *thinned, *complete

    def backward(
        self,
        gradients: Sequence[Tensor],
        first: Tensor,
        bias: Tensor,
        second: Tensor,
        masks: Tensor | None,
        *,
        call: object,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Of W_1, b and W_2."""
        if call is not self._latest:
            raise RuntimeError("the hidden units of this pass were replaced by those of a later one")
        first, bias = self._by_input(first), self._by_input(bias)
        of_first, of_bias, of_second = torch.zeros_like(first), torch.zeros_like(bias), torch.zeros_like(second)
        for nodes in self._tiles:
            uppers = [gradient[nodes].T.contiguous().view(*second.shape[1:3], -1) for gradient in gradients]
            for group in self._groups:
                hidden = self._remembered(group, nodes, first, bias, masks)
                lower = torch.zeros_like(hidden)
                for way, upper in enumerate(uppers):
                    of_second[way, group.replicas].baddbmm_(upper[group.replicas], hidden.mT)
                    lower.baddbmm_(second[way, group.replicas].mT, upper[group.replicas])
                lower = lower.mul_(hidden.sign_()).view(-1, first.shape[1], lower.shape[2])
                of_first[group.inputs].baddbmm_(lower, self._inputs[group.inputs, nodes])
                of_bias[group.inputs] += lower.sum(dim=2, keepdim=True)
        return of_first, of_bias, of_second

    def _room(self, second: Tensor) -> tuple[Tensor, ...]:
        ways, replicas, classes, _ = second.shape
        return tuple(second.new_empty(self.nodes, replicas * classes) for _ in range(ways))

    def _by_input(self, weights: Tensor) -> Tensor:
        """Replicas that share an input are one wider layer."""
        return weights.reshape(len(self._inputs), -1, weights.shape[2])

    def _made(self, group: _Group, nodes: slice, first: Tensor, bias: Tensor, *, keep: bool) -> Tensor:
        """Units before any is dropped, [replicas, units, nodes]."""
        room = self._kept.get((group, nodes.start)) if keep else None
        inputs = self._inputs[group.inputs, nodes].mT
        units = torch.baddbmm(bias[group.inputs], first[group.inputs], inputs, out=room).relu_()
        if keep:
            self._kept[group, nodes.start] = units
        return units.view(-1, HIDDEN, units.shape[2])

    def _remembered(self, group: _Group, nodes: slice, first: Tensor, bias: Tensor, masks: Tensor | None) -> Tensor:
        """Units after some were dropped."""
        if self._keeps:
            units = self._kept[group, nodes.start]
            return units.view(-1, HIDDEN, units.shape[2])
        hidden = self._made(group, nodes, first, bias, keep=False)
        if masks is not None:
            group.drop(hidden, masks[:, :, nodes])
        return hidden


def _tile_nodes(inputs: Tensor, replicas: int) -> int:
    """On a processor as many nodes as the cores' caches hold of an input's replicas, on a GPU all."""
    if inputs.device.type != "cpu":
        return inputs.shape[1]
    units = HIDDEN * replicas // len(inputs)
    return max(1, _TILE_UNITS * torch.get_num_threads() // units)


def _groups(inputs: int, mask_of: Sequence[int], device: torch.device) -> Iterator[_Group]:
    """On a processor one input's replicas after the other's, on a GPU all at once."""
    together, sharing = 1 if device.type == "cpu" else inputs, len(mask_of) // inputs
    for start in range(0, inputs, together):
        replicas = slice(start * sharing, (start + together) * sharing)
        masks = tuple(_shared_masks(list(mask_of[replicas]), device))
        yield _Group(inputs=slice(start, start + together), replicas=replicas, masks=masks)


def _shared_masks(mask_of: list[int], device: torch.device) -> Iterator[tuple[slice, slice | Tensor]]:
    """On a processor successive replicas with one mask, which is never copied; on a GPU all at once."""
    if device.type != "cpu":
        yield slice(None), torch.tensor(mask_of, device=device)
        return
    start = 0
    for mask, alike in itertools.groupby(mask_of):
        stop = start + len(list(alike))
        yield slice(start, stop), slice(mask, mask + 1)
        start = stop


class _Outputs(torch.autograd.Function):
    """The layer for torch's automatic differentiation, which would keep every array on the way for itself."""

    @staticmethod
    def forward(ctx: Any, layer: HiddenLayer, call: object, *arguments: Tensor) -> tuple[Tensor, ...]:
        first, bias, second, _, masks = arguments
        ctx.layer, ctx.call = layer, call
        ctx.save_for_backward(first, bias, second, masks)
        ctx.set_materialize_grads(False)
        results = layer.forward(*arguments, call=call)
        ctx.mark_non_differentiable(*results[len(second) :])
        return results

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        first, bias, second, masks = ctx.saved_tensors
        found = ctx.layer.backward(gradients[: len(second)], first, bias, second, masks, call=ctx.call)
        of_first, of_bias, of_second = found
        return None, None, of_first.view_as(first), of_bias.view_as(bias), of_second, None, None


def _call() -> object:
    """What tells a call from others; None where no gradient is wanted."""
    return object() if torch.is_grad_enabled() else None
