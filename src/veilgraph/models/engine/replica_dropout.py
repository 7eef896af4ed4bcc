"""Dropout for many replicas, with masks that depend on each replica's seed alone."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from veilgraph.distributed.communicator import LOCAL, Communicator

_LEVELS = 256
_MASKS = 1
_WORD_BYTES = 8
_STEP = "step"


class ReplicaDropout:
    """Dropout masks with one probability and one seed for each replica.

    The masks of a replica depend on its seed, not on the replicas that it is trained with: replicas with the same seed
    have the same masks, as in separate fits. A random byte decides whether a unit is dropped, so that probabilities are
    rounded to multiples of 1/256.

    Args:
        probabilities: dropout probability of each replica.
        seeds: seed of each replica.
        device: device of the masks.
        communicator: collective operations over the processes that share the graph. A unit's mask depends on its node
            and not on the process. On shards it is a hash of seed, step, node and unit; otherwise there is one process,
            which draws masks from a stream.

    Attributes:
        active: whether any replica drops units.
        generators: generators of the masks, one for each distinct seed.
        mask_index: index of each replica's mask; replicas with the same seed and probability share a mask. It is None
            for a replica without dropout on a CPU. A GPU masks all replicas in one operation, these with ones.
        masked_replicas: indices of the replicas that have a mask.
        scales: factors that keep the mean of sums over units, [replicas, 1, 1, 1].

    >>> dropout = ReplicaDropout([0.0, 0.5, 0.0], [0, 0, 0], torch.device("cpu"))
    >>> dropout.scales.flatten().tolist(), dropout.mask_index, dropout.masked_replicas.tolist()
    ([1.0, 2.0, 1.0], [None, 0, None], [1])
    >>> dropout.masks(units=2, nodes=3).unique().tolist()
    [0.0, 1.0]
    """

    def __init__(
        self, probabilities: list[float], seeds: list[int], device: torch.device, communicator: Communicator = LOCAL
    ) -> None:
        self._communicator, self._step = communicator, 0
        distinct = sorted(set(seeds))
        self._mask_seeds = [_mask_seed(seed) for seed in distinct]
        self.generators = [torch.Generator(device).manual_seed(_mask_seed(seed)) for seed in distinct]
        dropped = [min(round(probability * _LEVELS), _LEVELS - 1) for probability in probabilities]
        self.active = any(dropped)
        self.scales = torch.tensor([_LEVELS / (_LEVELS - levels) for levels in dropped], device=device).view(
            -1, 1, 1, 1
        )
        needed = list(zip((distinct.index(seed) for seed in seeds), dropped, strict=True))
        masked = [levels > 0 or device.type != "cpu" for levels in dropped]
        self._distinct = list(dict.fromkeys(itertools.compress(needed, masked)))
        self.mask_index = [
            self._distinct.index(each) if has else None for each, has in zip(needed, masked, strict=True)
        ]
        self.masked_replicas = torch.tensor(masked, device=device).nonzero().flatten()
        self._generator_of = torch.tensor([generator for generator, _ in self._distinct], device=device)
        thresholds = torch.tensor([levels for _, levels in self._distinct], dtype=torch.uint8, device=device)
        self._thresholds = thresholds.view(-1, 1, 1)

    @property
    def state(self) -> dict[str, Tensor]:
        """States of the generators, by name; of counters, the number of masks that were drawn."""
        if self._communicator.counted_nodes is not None:
            return {_STEP: torch.tensor(self._step)}
        return {f"generator.{i}": generator.get_state() for i, generator in enumerate(self.generators)}

    def resume(self, state: Mapping[str, Tensor]) -> None:
        """Restore the states of the generators, or the counter."""
        if self._communicator.counted_nodes is not None:
            self._step = int(state[_STEP])
            return
        for i, generator in enumerate(self.generators):
            generator.set_state(state[f"generator.{i}"])

    def masks(self, units: int, nodes: int) -> Tensor:
        """Draw new masks [distinct, units, nodes]: 0 where a unit is dropped and 1 elsewhere."""
        if (numbers := self._communicator.counted_nodes) is not None:
            self._step += 1
            bits = torch.stack([counted_bytes(numbers, units, seed, self._step) for seed in self._mask_seeds])
        else:
            drawn = (random_bytes(generator, units * nodes)[: units * nodes] for generator in self.generators)
            bits = torch.stack([each.view(units, nodes) for each in drawn])
        if bits.device.type != "cpu":
            return (bits[self._generator_of] >= self._thresholds).to(torch.float32)
        # numpy compares and converts bytes five times as fast as torch.
        kept = np.empty((len(self._distinct), units, nodes), dtype=np.bool_)
        for row, (generator, levels) in enumerate(self._distinct):
            np.greater_equal(bits[generator].numpy(), np.uint8(levels), out=kept[row])
        return torch.from_numpy(kept.astype(np.float32))


def counted_bytes(numbers: Tensor, units: int, seed: int, step: int) -> Tensor:
    """Return a random byte for each unit and node, `[units, nodes]`: the bytes of `counter_words`, on any device.

    Args:
        numbers: numbers of the nodes in the whole graph, `[nodes]`.
        units: number of units.
        seed: seed of the masks.
        step: number of the mask.

    >>> whole = counted_bytes(torch.arange(4), 3, seed=0, step=1)
    >>> torch.equal(counted_bytes(torch.tensor([2, 3]), 3, seed=0, step=1), whole[:, 2:])
    True
    """
    key = np.random.SeedSequence([seed, step]).generate_state(2, np.uint64).view(np.int64).tolist()
    words = _mixed(numbers ^ key[0]) ^ key[1]
    blocks = [
        _mixed(words + block).view(torch.uint8).view(-1, _WORD_BYTES) for block in range(-(-units // _WORD_BYTES))
    ]
    return torch.cat(blocks, dim=1).T[:units].contiguous()


def _mixed(words: Tensor) -> Tensor:
    """Mix the bits of 64-bit words as `veilgraph.graph.counters.mix` does; torch has no unsigned shift."""
    mixed = words + _signed(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> shift & (1 << 64 - shift) - 1)) * _signed(factor)
    return mixed ^ (mixed >> 31 & (1 << 33) - 1)


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def random_bytes(generator: torch.Generator, min_count: int) -> Tensor:
    """Draw at least `min_count` random bytes, eight at a time."""
    words = torch.empty(-(-min_count // 8), dtype=torch.int64, device=generator.device)
    return words.random_(-(2**63), None, generator=generator).view(torch.uint8)


def _mask_seed(seed: int) -> int:
    """Derive a seed for masks: masks must be independent of the initial weights, which use the seed itself."""
    return int(np.random.SeedSequence([seed, _MASKS]).generate_state(1)[0])
