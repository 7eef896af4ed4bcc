"""The hidden layer of many replicas, computed tile by tile so that intermediate arrays stay in the CPU's cache."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from veilgraph.models.engine.backbones import HIDDEN
from veilgraph.reconstruct.sparse import FusedFunction

TILE_UNITS = 2**18
"""Hidden units of a tile that fit into the cache of one core. Much smaller tiles would spend their time in calls."""

_CACHE_LINE = 16  # 32-bit numbers
_PART_NODES, _MAX_PARTS = 512, 256  # nodes that one multiprocessor of a GPU sums over, and parts that keep all busy

Outputs = tuple[Tensor, ...]
"""The aggregated term, [nodes, replicas * classes], and the own term, [replicas * classes, nodes], if there is one."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _MaskedReplicas:
    """Replicas of a group that have dropout masks.

    Attributes:
        replicas: their indices within the group.
        positions: their indices among all replicas with masks.
        masks: indices of their masks; on a CPU, one mask for all of them.
    """

    replicas: slice
    positions: slice
    masks: slice | Tensor


@dataclass(frozen=True, kw_only=True, eq=False)
class _Group:
    """Replicas that are computed together.

    Attributes:
        inputs: indices of their inputs.
        replicas: their indices among all replicas.
        masked: those with dropout masks.
    """

    inputs: slice
    replicas: slice
    masked: tuple[_MaskedReplicas, ...]

    def masks_of(self, masks: Tensor | None, nodes: slice) -> Iterator[tuple[_MaskedReplicas, Tensor]]:
        """Yield the replicas with masks, each with its masks of some nodes."""
        if masks is not None:
            for each in self.masked:
                yield each, masks[each.masks, :, nodes]


class HiddenLayer:
    r"""The two terms that the output layer adds: :math:`W_2 H` with :math:`H = M \circ \mathrm{relu}(W_1 X^T + b)`.

    Dropped units and negative units are both zero in H, so that the gradient needs H alone:
    :math:`\partial H = (W_2^T G) \circ [H > 0]`.

    The aggregated term has a row for each node, as sparse products need it. The own term has a column for each node, as
    matrix products return it.

    Args:
        inputs: X, [inputs, nodes, columns]; successive replicas share an input.
        mask_index: index of each replica's dropout mask; None for a replica without dropout.
        block_nodes: number of nodes whose hidden units are held at once; None for all. In blocks, the backward pass
            computes hidden units a second time (Chen et al. 2016); gradients are computed on the whole graph.
        tile_units: hidden units of a tile for each core of a CPU.
    """

    def __init__(
        self,
        inputs: Tensor,
        mask_index: Sequence[int | None],
        *,
        block_nodes: int | None = None,
        tile_units: int = TILE_UNITS,
    ) -> None:
        self.inputs = inputs
        self.groups = list(_groups(len(inputs), mask_index, inputs.device))
        size = min(block_nodes or self.nodes, tile_nodes(inputs, len(mask_index), tile_units))
        self.tiles = [slice(low, min(low + size, self.nodes)) for low in range(0, self.nodes, size)]
        self._stores_units, self._stored = block_nodes is None, dict[tuple[_Group, int], Tensor]()
        self._latest_pass: object = None

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return self.inputs.shape[1]

    def __call__(
        self,
        first: Tensor,
        bias: Tensor,
        second: Tensor,
        *,
        masks: Tensor | None = None,
        second_unmasked: Tensor | None = None,
    ) -> tuple[Outputs, Outputs]:
        """Return the outputs with dropout, and those without dropout and without a gradient.

        Only the latest call with a gradient can be differentiated, because its hidden units overwrite earlier ones.

        Args:
            first: W_1, [replicas, units, columns].
            bias: b, [replicas, units, 1].
            second: W_2, [replicas, terms, classes, units].
            masks: M, [distinct, units, nodes], 0 where a unit is dropped and 1 elsewhere; None for no dropout.
            second_unmasked: W_2 of the replicas with masks, for their outputs without dropout; None for none.
        """
        unmasked = second[:0] if second_unmasked is None else second_unmasked
        this_pass = object() if torch.is_grad_enabled() else None
        outputs = _HiddenFunction.apply(self, this_pass, first, bias, second, unmasked.detach(), masks)
        terms = second.shape[1]
        return outputs[:terms], outputs[terms:]

    def begin_pass(self, this_pass: object) -> None:
        """Note a forward pass with a gradient; None is a pass without."""
        if this_pass is not None:
            self._latest_pass = this_pass

    def check_pass(self, this_pass: object) -> None:
        """Raise RuntimeError if the hidden units of this pass are not stored any more."""
        if this_pass is not self._latest_pass:
            raise RuntimeError("the hidden units of this pass were replaced by those of a later one")

    def by_input(self, weights: Tensor) -> Tensor:
        """Merge the weights of replicas with the same input into one wider layer, [inputs, rows, columns]."""
        return weights.reshape(len(self.inputs), -1, weights.shape[2])

    def units(self, group: _Group, nodes: slice, first: Tensor, bias: Tensor, *, store: bool) -> Tensor:
        """Compute hidden units before dropout, [replicas, units, nodes]; store them if memory allows it."""
        store = store and self._stores_units
        out = self._stored.get((group, nodes.start)) if store else None
        inputs = self.inputs[group.inputs, nodes].mT
        units = torch.baddbmm(bias[group.inputs], first[group.inputs], inputs, out=out).relu_()
        if store:
            self._stored[group, nodes.start] = units
        return units.view(-1, HIDDEN, units.shape[2])

    def stored_units(self, group: _Group, nodes: slice, first: Tensor, bias: Tensor, masks: Tensor | None) -> Tensor:
        """Return hidden units after dropout, [replicas, units, nodes]: stored ones, or computed again."""
        if self._stores_units:
            units = self._stored[group, nodes.start]
            return units.view(-1, HIDDEN, units.shape[2])
        hidden = self.units(group, nodes, first, bias, store=False)
        for each, mask in group.masks_of(masks, nodes):
            hidden[each.replicas].mul_(mask)
        return hidden


class _HiddenFunction(FusedFunction):
    """The kernel of the hidden layer and its gradient; automatic differentiation would store every array."""

    @staticmethod
    def forward(
        ctx: Any,
        layer: HiddenLayer,
        this_pass: object,
        first: Tensor,
        bias: Tensor,
        second: Tensor,
        second_unmasked: Tensor,
        masks: Tensor | None,
    ) -> tuple[Tensor, ...]:
        ctx.layer, ctx.this_pass = layer, this_pass
        ctx.save_for_backward(first, bias, second, masks)
        ctx.set_materialize_grads(False)
        layer.begin_pass(this_pass)
        first, bias = layer.by_input(first), layer.by_input(bias)
        masked_outputs, unmasked_outputs = (_new_outputs(each, layer.nodes) for each in (second, second_unmasked))
        for nodes in layer.tiles:
            masked = _TileOutputs.of(second, masked_outputs, nodes)
            unmasked = _TileOutputs.of(second_unmasked, unmasked_outputs, nodes)
            for group in layer.groups:
                hidden = layer.units(group, nodes, first, bias, store=this_pass is not None)
                for each, mask in group.masks_of(masks, nodes):
                    unmasked.multiply(each.positions, hidden[each.replicas])
                    hidden[each.replicas].mul_(mask)
                masked.multiply(group.replicas, hidden)
            masked.write()
            unmasked.write()
        ctx.mark_non_differentiable(*unmasked_outputs)
        return *masked_outputs, *unmasked_outputs

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        layer: HiddenLayer = ctx.layer
        layer.check_pass(ctx.this_pass)
        first, bias, second, masks = ctx.saved_tensors
        shapes = first.shape, bias.shape, second.shape
        first, bias, stacked_second = layer.by_input(first), layer.by_input(bias), second.flatten(1, 2)
        of_first, of_bias, of_second = (torch.zeros_like(each) for each in (first, bias, stacked_second))
        for nodes in layer.tiles:
            upper = _read_gradients(gradients[: second.shape[1]], second, nodes).flatten(1, 2)
            for group in layer.groups:
                hidden = layer.stored_units(group, nodes, first, bias, masks)
                add_product(of_second[group.replicas], upper[group.replicas], hidden.mT)
                lower = torch.bmm(stacked_second[group.replicas].mT, upper[group.replicas])
                lower = torch.ops.aten.threshold_backward(lower, hidden, 0).view(-1, first.shape[1], lower.shape[2])
                add_product(of_first[group.inputs], lower, layer.inputs[group.inputs, nodes])
                of_bias[group.inputs] += lower.sum(dim=2, keepdim=True)
        found = (each.view(shape) for each, shape in zip((of_first, of_bias, of_second), shapes, strict=True))
        return None, None, *found, None, None


def add_product(sums: Tensor, left: Tensor, right: Tensor, *, parts: int | None = None) -> None:
    """Add left @ right, a sum over nodes, to `sums` in place.

    The result is too small to keep all multiprocessors of a GPU busy, so that they sum over different nodes.

    Args:
        sums: [groups, rows, columns].
        left: [groups, rows, nodes].
        right: [groups, nodes, columns].
        parts: number of partial sums; None chooses it by the device.
    """
    nodes = left.shape[2]
    if parts is None:
        parts = 1 if left.device.type == "cpu" else min(_MAX_PARTS, nodes // _PART_NODES)
    if parts > 1:
        even = nodes - nodes % parts
        rows = _split_nodes(left[:, :, :even], parts)
        if right.stride(1) == 1:  # a transpose: split it along its memory layout
            columns = _split_nodes(right[:, :even].mT, parts).mT
        else:
            columns = right[:, :even].reshape(len(rows), -1, right.shape[2])
        sums += torch.bmm(rows, columns).view(len(left), parts, *sums.shape[1:]).sum(dim=1)
        left, right = left[:, :, even:], right[:, even:]
    sums.baddbmm_(left, right)


def tile_nodes(inputs: Tensor, replicas: int, tile_units: int = TILE_UNITS) -> int:
    """Return the nodes of a tile: on a CPU, as many as fit into the caches of all cores; on a GPU, all.

    It is an odd number of cache lines: rows whose distance is a power of two would compete for the same cache sets.
    """
    if inputs.device.type != "cpu":
        return inputs.shape[1]
    units = HIDDEN * replicas // len(inputs)
    lines = max(1, tile_units * torch.get_num_threads() // (units * _CACHE_LINE))
    return (lines - 1 + lines % 2) * _CACHE_LINE


def _split_nodes(units: Tensor, parts: int) -> Tensor:
    """Reshape [groups, units, nodes] to [groups * parts, units, nodes / parts]."""
    groups, rows, _ = units.shape
    return units.view(groups, rows, parts, -1).transpose(1, 2).reshape(groups * parts, rows, -1)


def _new_outputs(second: Tensor, nodes: int) -> Outputs:
    """Allocate the outputs of all nodes."""
    replicas, terms, classes, _ = second.shape
    columns = replicas * classes
    return second.new_empty(nodes, columns), *second.new_empty(terms - 1, columns, nodes)


@dataclass(frozen=True, kw_only=True, eq=False)
class _TileOutputs:
    """W_2 H of the nodes of a tile.

    Attributes:
        second: W_2, [replicas, terms, classes, units].
        aggregated: the aggregated term of all nodes, [nodes, replicas * classes].
        nodes: nodes of the tile.
        terms: every term of the tile, [replicas, classes, tile]. The own term is a view of the output of all nodes.
    """

    second: Tensor
    aggregated: Tensor
    nodes: slice
    terms: tuple[Tensor, ...]

    @classmethod
    def of(cls, second: Tensor, outputs: Outputs, nodes: slice) -> _TileOutputs:
        """Return the part of the outputs that belongs to a tile."""
        replicas, _, classes, _ = second.shape
        aggregated, *own = outputs
        product = second.new_empty(replicas, classes, nodes.stop - nodes.start)
        views = (each.view(replicas, classes, len(aggregated))[:, :, nodes] for each in own)
        return cls(second=second, aggregated=aggregated, nodes=nodes, terms=(product, *views))

    def multiply(self, replicas: slice, hidden: Tensor) -> None:
        """Compute the terms of some replicas from their hidden units, [replicas, units, tile]."""
        for index, term in enumerate(self.terms):
            torch.bmm(self.second[replicas, index], hidden, out=term[replicas])

    def write(self) -> None:
        """Transpose the aggregated term of the tile into the aggregated term of all nodes."""
        self.aggregated[self.nodes] = self.terms[0].flatten(0, 1).T


def _read_gradients(gradients: Sequence[Tensor], second: Tensor, nodes: slice) -> Tensor:
    """Copy the gradient of W_2 H of some nodes, [replicas, terms, classes, nodes], from the gradient of all nodes."""
    replicas, terms, classes, _ = second.shape
    upper = second.new_empty(replicas, terms, classes, nodes.stop - nodes.start)
    upper[:, 0] = gradients[0][nodes].reshape(-1, replicas, classes).permute(1, 2, 0)
    for term, gradient in enumerate(gradients[1:], start=1):
        upper[:, term] = gradient[:, nodes].reshape(replicas, classes, -1)
    return upper


def _groups(inputs: int, mask_index: Sequence[int | None], device: torch.device) -> Iterator[_Group]:
    """Yield one group for each input on a CPU, and one group of all replicas on a GPU."""
    together, sharing = 1 if device.type == "cpu" else inputs, len(mask_index) // inputs
    for start in range(0, inputs, together):
        replicas = slice(start * sharing, (start + together) * sharing)
        before = sum(mask is not None for mask in mask_index[: replicas.start])
        masked = tuple(_masked_replicas(mask_index[replicas], before, device))
        yield _Group(inputs=slice(start, start + together), replicas=replicas, masked=masked)


def _masked_replicas(mask_index: Sequence[int | None], before: int, device: torch.device) -> Iterator[_MaskedReplicas]:
    """Yield, on a CPU, successive replicas with the same mask, which is then never copied; on a GPU all at once."""
    if device.type != "cpu":
        yield _MaskedReplicas(
            replicas=slice(None), positions=slice(None), masks=torch.tensor(mask_index, device=device)
        )
        return
    start = 0
    for mask, same_mask in itertools.groupby(mask_index):
        stop = start + len(list(same_mask))
        if mask is not None:
            positions = slice(before, before := before + stop - start)
            yield _MaskedReplicas(replicas=slice(start, stop), positions=positions, masks=slice(mask, mask + 1))
        start = stop
