"""The hidden layer of many replicas, made and used tile by tile: what belongs to a tile stays in the cache."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from veilgraph.distributed.autograd import applied
from veilgraph.models.engine.backbones import HIDDEN

_CACHE_LINE = 16  # 32-bit numbers
_TILE_UNITS = 2**18
"""So many hidden units stay in a core's cache; of many fewer, calls would take longer than what they compute."""


_PART_NODES, _MOST_PARTS = 512, 256
"""What one of a GPU's processors adds up, and what they all need to be busy."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Thinned:
    """Replicas of a group that drop units.

    Attributes:
        replicas: within the group.
        places: among all replicas that drop units.
        masks: that they have; one for all of them on a processor.
    """

    replicas: slice
    places: slice
    masks: slice | Tensor


@dataclass(frozen=True, kw_only=True, eq=False)
class _Group:
    """Replicas that go through the layer together, and the inputs that they see."""

    inputs: slice
    replicas: slice
    thinned: tuple[_Thinned, ...]

    def thinned_by(self, masks: Tensor | None, nodes: slice) -> Iterator[tuple[_Thinned, Tensor]]:
        """Those that drop units, each with its masks of some nodes; nobody without masks."""
        if masks is not None:
            for each in self.thinned:
                yield each, masks[each.masks, :, nodes]


class HiddenLayer:
    r"""What the second layer adds up: :math:`W_2 H` with :math:`H = M \circ \mathrm{relu}(W_1 X^T + b)`.

    Units that were dropped and units below zero are both zero in H, so the gradient asks H alone:
    :math:`\partial H = (W_2^T G) \circ [H > 0]`.

    W_2 may lead into the second layer in two ways. What comes in the first is propagated and has a row for each node,
    [nodes, replicas * classes], as sparse products want it; the second is left as products of matrices make it,
    [replicas * classes, nodes].

    Args:
        inputs: X, [inputs, nodes, columns]; successive replicas share one.
        mask_of: which of the masks M each replica has; None where it drops nothing.
        block: how many nodes' hidden units may be held at once; None for all. Otherwise they are made once more in the
            backward pass (Chen et al. 2016), so that gradients are those of the whole graph.
    """

    def __init__(self, inputs: Tensor, mask_of: Sequence[int | None], *, block: int | None = None) -> None:
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
        """What each way leads to, from all units.

        A gradient is that of the latest call, whose hidden units are kept in the place of those before.

        Args:
            first: W_1, [replicas, units, columns].
            bias: b, [replicas, units, 1].
            second: W_2, [replicas, ways, classes, units].
        """
        return self._outputs(first, bias, second, second[:0], None)[0]

    def both_outputs(
        self, first: Tensor, bias: Tensor, second: Tensor, second_of_all: Tensor, masks: Tensor
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """From those units alone that masks leave; and without a gradient from all, of replicas that drop some.

        Args:
            first: as above.
            bias: as above.
            second: as above, for the units that are left.
            second_of_all: for all units, of the replicas that drop some.
            masks: M, [distinct, units, nodes], 0 where a unit is dropped and 1 elsewhere.
        """
        return self._outputs(first, bias, second, second_of_all.detach(), masks)

    def forward(
        self, first: Tensor, bias: Tensor, second: Tensor, second_of_all: Tensor, masks: Tensor | None, *, call: object
    ) -> tuple[Tensor, ...]:
        """From the units that masks leave, and after it from all. None calls without a gradient."""
        self._latest, keep = (self._latest if call is None else call), self._keeps and call is not None
        first, bias = self._by_input(first), self._by_input(bias)
        thinned, complete = self._room(second), self._room(second_of_all)
        for nodes in self._tiles:
            of_some, of_all = (_products(weights, nodes) for weights in (second, second_of_all))
            for group in self._groups:
                hidden = self._made(group, nodes, first, bias, keep=keep)
                for each, left in group.thinned_by(masks, nodes):
                    _multiply(second_of_all[each.places], hidden[each.replicas], of_all[:, each.places])
                    hidden[each.replicas].mul_(left)
                _multiply(second[group.replicas], hidden, of_some[:, group.replicas])
            _write(of_some, thinned, nodes)
            _write(of_all, complete, nodes)
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
        first, bias, ways = self._by_input(first), self._by_input(bias), second.flatten(1, 2)
        of_first, of_bias, of_second = torch.zeros_like(first), torch.zeros_like(bias), torch.zeros_like(ways)
        for nodes in self._tiles:
            upper = _read(gradients, second, nodes).flatten(1, 2)
            for group in self._groups:
                hidden = self._remembered(group, nodes, first, bias, masks)
                _add_product(of_second[group.replicas], upper[group.replicas], hidden.mT)
                lower = torch.bmm(ways[group.replicas].mT, upper[group.replicas])
                lower = torch.ops.aten.threshold_backward(lower, hidden, 0).view(-1, first.shape[1], lower.shape[2])
                _add_product(of_first[group.inputs], lower, self._inputs[group.inputs, nodes])
                of_bias[group.inputs] += lower.sum(dim=2, keepdim=True)
        return of_first, of_bias, of_second

    def _outputs(self, *arguments: Tensor | None) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        call = object() if torch.is_grad_enabled() else None  # which tells calls with a gradient from each other
        found: tuple[Tensor, ...] = applied(_Outputs, self, call, *arguments)
        ways = len(found) // 2
        return found[:ways], found[ways:]

    def _room(self, second: Tensor) -> tuple[Tensor, ...]:
        """For what each way leads to: for every node a row, or a column."""
        replicas, ways, classes, _ = second.shape
        columns = replicas * classes
        return second.new_empty(self.nodes, columns), *second.new_empty(ways - 1, columns, self.nodes)

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
        for each, left in group.thinned_by(masks, nodes):
            hidden[each.replicas].mul_(left)
        return hidden


def _add_product(sums: Tensor, left: Tensor, right: Tensor) -> None:
    """Add left @ right, a sum over nodes.

    A result so small keeps few of a GPU's processors busy, so they add up different nodes.

    Args:
        sums: [groups, rows, columns].
        left: [groups, rows, nodes].
        right: [groups, nodes, columns].
    """
    nodes = left.shape[2]
    if (parts := _parts(nodes, left.device)) > 1:
        even = nodes - nodes % parts
        rows = _apart(left[:, :, :even], parts)
        if right.stride(1) == 1:  # a transpose, which is taken apart as it lies in memory
            columns = _apart(right[:, :even].mT, parts).mT
        else:
            columns = right[:, :even].reshape(len(rows), -1, right.shape[2])
        sums += torch.bmm(rows, columns).view(len(left), parts, *sums.shape[1:]).sum(dim=1)
        left, right = left[:, :, even:], right[:, even:]
    sums.baddbmm_(left, right)


def _parts(nodes: int, device: torch.device) -> int:
    return 1 if device.type == "cpu" else min(_MOST_PARTS, nodes // _PART_NODES)


def _apart(units: Tensor, parts: int) -> Tensor:
    """From [groups, units, nodes] to [groups * parts, units, nodes of a part]."""
    groups, rows, _ = units.shape
    return units.view(groups, rows, parts, -1).transpose(1, 2).reshape(groups * parts, rows, -1)


def _products(second: Tensor, nodes: slice) -> Tensor:
    """Room for W_2 H of some nodes, [ways, replicas, classes, nodes]."""
    replicas, ways, classes, _ = second.shape
    return second.new_empty(ways, replicas, classes, nodes.stop - nodes.start)


def _multiply(second: Tensor, hidden: Tensor, out: Tensor) -> None:
    for way, result in enumerate(out):
        torch.bmm(second[:, way], hidden, out=result)


def _write(products: Tensor, outputs: Sequence[Tensor], nodes: slice) -> None:
    """W_2 H of some nodes to where it belongs."""
    columns = products.flatten(1, 2)
    outputs[0][nodes] = columns[0].T
    for output, found in zip(outputs[1:], columns[1:], strict=True):
        output[:, nodes] = found


def _read(gradients: Sequence[Tensor], second: Tensor, nodes: slice) -> Tensor:
    """The gradient of W_2 H of some nodes from where it is, [replicas, ways, classes, nodes]."""
    replicas, ways, classes, _ = second.shape
    upper = second.new_empty(replicas, ways, classes, nodes.stop - nodes.start)
    upper[:, 0] = gradients[0][nodes].reshape(-1, replicas, classes).permute(1, 2, 0)
    for way, gradient in enumerate(gradients[1:], start=1):
        upper[:, way] = gradient[:, nodes].reshape(replicas, classes, -1)
    return upper


def _tile_nodes(inputs: Tensor, replicas: int) -> int:
    """On a processor as many nodes as the cores' caches hold of an input's replicas, on a GPU all.

    An odd number of cache lines: rows that are a power of two apart would fall upon the same places of a cache.
    """
    if inputs.device.type != "cpu":
        return inputs.shape[1]
    units = HIDDEN * replicas // len(inputs)
    lines = max(1, _TILE_UNITS * torch.get_num_threads() // (units * _CACHE_LINE))
    return (lines - 1 + lines % 2) * _CACHE_LINE


def _groups(inputs: int, mask_of: Sequence[int | None], device: torch.device) -> Iterator[_Group]:
    """On a processor one input's replicas after the other's, on a GPU all at once."""
    together, sharing = 1 if device.type == "cpu" else inputs, len(mask_of) // inputs
    for start in range(0, inputs, together):
        replicas = slice(start * sharing, (start + together) * sharing)
        before = sum(mask is not None for mask in mask_of[: replicas.start])
        thinned = tuple(_thinned(mask_of[replicas], before, device))
        yield _Group(inputs=slice(start, start + together), replicas=replicas, thinned=thinned)


def _thinned(mask_of: Sequence[int | None], before: int, device: torch.device) -> Iterator[_Thinned]:
    """On a processor successive replicas with one mask, which is never copied; on a GPU all at once."""
    if device.type != "cpu":
        yield _Thinned(replicas=slice(None), places=slice(None), masks=torch.tensor(mask_of, device=device))
        return
    start = 0
    for mask, alike in itertools.groupby(mask_of):
        stop = start + len(list(alike))
        if mask is not None:
            places = slice(before, before := before + stop - start)
            yield _Thinned(replicas=slice(start, stop), places=places, masks=slice(mask, mask + 1))
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
        ctx.mark_non_differentiable(*results[second.shape[1] :])
        return results

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        first, bias, second, masks = ctx.saved_tensors
        found = ctx.layer.backward(gradients[: second.shape[1]], first, bias, second, masks, call=ctx.call)
        of_first, of_bias, of_second = found
        return None, None, of_first.view_as(first), of_bias.view_as(bias), of_second.view_as(second), None, None
