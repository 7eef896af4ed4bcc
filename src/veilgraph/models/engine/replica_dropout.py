"""Dropout for many replicas, each with the masks that its own seed gives."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from veilgraph.distributed.communicator import LOCAL, Communicator

_LEVELS = 256
_MASKS = 1


class ReplicaDropout:
    """Drops each unit with its replica's probability.

    A replica's masks depend on its seed alone, not on which replicas it is trained with; replicas of one seed have
    the same masks, as separate runs with that seed would. A random byte decides a unit, so a probability is rounded
    to a multiple of 1/256.

    Args:
        probabilities: one for each replica.
        seeds: one for each replica.
        device: where masks are drawn.
        communicator: collective operations over the processes that share the graph. A unit's mask depends on its node
            and not on the process: every process draws the masks of all nodes and selects its own.

    Attributes:
        active: whether any replica drops anything.
        generators: of the masks, one for each distinct seed.
        mask_of: which of the masks each replica has; those that share seed and probability share one. None where
            nothing is dropped; but a GPU masks all replicas in one operation, and these with ones.
        thinned: the replicas that have a mask.
        scales: what makes up for the units that are missing, so that sums over units keep their mean.

    >>> dropout = ReplicaDropout([0.0, 0.5, 0.0], [0, 0, 0], torch.device("cpu"))
    >>> dropout.scales.flatten().tolist(), dropout.mask_of, dropout.thinned.tolist()
    ([1.0, 2.0, 1.0], [None, 0, None], [1])
    >>> dropout.masks(units=2, nodes=3).unique().tolist()
    [0.0, 1.0]
    """

    def __init__(
        self, probabilities: list[float], seeds: list[int], device: torch.device, communicator: Communicator = LOCAL
    ) -> None:
        self._communicator = communicator
        distinct = sorted(set(seeds))
        self.generators = [torch.Generator(device).manual_seed(_stream(seed)) for seed in distinct]
        dropped = [min(round(probability * _LEVELS), _LEVELS - 1) for probability in probabilities]
        self.active = any(dropped)
        self.scales = torch.tensor([_LEVELS / (_LEVELS - levels) for levels in dropped], device=device).view(
            -1, 1, 1, 1
        )
        needed = list(zip((distinct.index(seed) for seed in seeds), dropped, strict=True))
        masked = [levels > 0 or device.type != "cpu" for levels in dropped]
        self._distinct = list(dict.fromkeys(itertools.compress(needed, masked)))
        self.mask_of = [self._distinct.index(each) if has else None for each, has in zip(needed, masked, strict=True)]
        self.thinned = torch.tensor(masked, device=device).nonzero().flatten()
        self._stream_of = torch.tensor([stream for stream, _ in self._distinct], device=device)
        thresholds = torch.tensor([levels for _, levels in self._distinct], dtype=torch.uint8, device=device)
        self._thresholds = thresholds.view(-1, 1, 1)

    @property
    def state(self) -> dict[str, Tensor]:
        """Where the generators are."""
        return {f"generator.{i}": generator.get_state() for i, generator in enumerate(self.generators)}

    def resume(self, state: Mapping[str, Tensor]) -> None:
        """Put the generators where they were."""
        for i, generator in enumerate(self.generators):
            generator.set_state(state[f"generator.{i}"])

    def masks(self, units: int, nodes: int) -> Tensor:
        """[distinct, units, nodes]: 1 where a unit stays and 0 where it is dropped."""
        draw = self._here if not self._communicator.is_local else self._all
        bits = torch.stack([draw(generator, units, nodes) for generator in self.generators])
        if bits.device.type != "cpu":
            return (bits[self._stream_of] >= self._thresholds).to(torch.float32)
        # numpy compares and converts bytes five times as fast as torch does.
        kept = np.empty((len(self._distinct), units, nodes), dtype=np.bool_)
        for row, (stream, levels) in enumerate(self._distinct):
            np.greater_equal(bits[stream].numpy(), np.uint8(levels), out=kept[row])
        return torch.from_numpy(kept.astype(np.float32))

    def _all(self, generator: torch.Generator, units: int, nodes: int) -> Tensor:
        return _bytes(generator, units * nodes)[: units * nodes].view(units, nodes)

    def _here(self, generator: torch.Generator, units: int, nodes: int) -> Tensor:
        """The same bytes for the nodes that are here; one unit of all nodes after another, where that draws the same.

        A GPU's generator gives other numbers in pieces than at once.
        """
        whole = self._communicator.global_nodes(nodes)
        if generator.device.type != "cpu":
            return self._communicator.select_local(self._all(generator, units, whole))
        here, left = torch.empty(units, nodes, dtype=torch.uint8), torch.empty(0, dtype=torch.uint8)
        for unit in here:
            drawn = torch.cat([left, _bytes(generator, whole - len(left))])
            unit.copy_(self._communicator.select_local(drawn[:whole]))
            left = drawn[whole:]
        return here


def _bytes(generator: torch.Generator, least: int) -> Tensor:
    """Random bytes, eight at a time, at least as many as asked for."""
    words = torch.empty(-(-least // 8), dtype=torch.int64, device=generator.device)
    return words.random_(-(2**63), None, generator=generator).view(torch.uint8)


def _stream(seed: int) -> int:
    """A seed for masks: the same one gives the initial weights, and masks must not follow from those."""
    return int(np.random.SeedSequence([seed, _MASKS]).generate_state(1)[0])
