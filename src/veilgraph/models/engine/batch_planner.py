"""Which fits are trained together: those that share a graph and a shape, as many as memory allows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch

from veilgraph.errors import FitError

Task = TypeVar("Task")

_CACHE_BYTES = 128 * 2**20
"""On a processor, replicas beyond a few times its cache gain nothing from each other."""


@dataclass(frozen=True, kw_only=True)
class Batch(Generic[Task]):
    """Tasks to train together.

    Attributes:
        tasks: in order; successive ones share an input.
        sharing: how many share each input.
    """

    tasks: tuple[Task, ...]
    sharing: int


def plan_batches(
    tasks: Iterable[Task],
    *,
    shape_of: Callable[[Task], Hashable],
    input_of: Callable[[Task], Hashable],
    input_bytes: int,
    replica_bytes: int,
    memory: int,
    device: torch.device,
) -> Iterator[Batch[Task]]:
    """Batches of tasks of one shape, every input in it shared by equally many, within the memory.

    Args:
        tasks: any.
        shape_of: tasks can be trained together where this is the same.
        input_of: tasks share an input where this is the same.
        input_bytes: of one input.
        replica_bytes: of one replica in training, apart from its input.
        memory: to stay within, in bytes.
        device: where training happens.

    >>> batches = plan_batches("aabbc", shape_of=lambda task: 0, input_of=lambda task: task, input_bytes=1,
    ...                        replica_bytes=1, memory=6, device=torch.device("cpu"))
    >>> [(batch.tasks, batch.sharing) for batch in batches]
    [(('a', 'a', 'b', 'b'), 2), (('c',), 1)]
    """
    if input_bytes + replica_bytes > memory:
        raise FitError(
            f"one fit needs about {(input_bytes + replica_bytes) / 2**20:.1f} MiB and {memory / 2**20:.1f} MiB are "
            "allowed: allow more memory"
        )
    limit = max(min(memory, _CACHE_BYTES), input_bytes + replica_bytes) if device.type == "cpu" else memory
    for same_shape in _grouped(tasks, shape_of):
        together: list[tuple[Task, ...]] = []
        for sharing in _split_inputs(_grouped(same_shape, input_of), (limit - input_bytes) // replica_bytes):
            bytes_each = input_bytes + len(sharing) * replica_bytes
            if together and (len(together[0]) != len(sharing) or (len(together) + 1) * bytes_each > limit):
                yield _batch(together)
                together = []
            together.append(sharing)
        yield _batch(together)


def _batch(together: Sequence[tuple[Task, ...]]) -> Batch[Task]:
    return Batch(tasks=tuple(task for sharing in together for task in sharing), sharing=len(together[0]))


def _split_inputs(groups: Iterable[tuple[Task, ...]], most: int) -> list[tuple[Task, ...]]:
    """Groups of at most `most` tasks, equally large ones beside each other."""
    parts = [group[start : start + most] for group in groups for start in range(0, len(group), most)]
    return sorted(parts, key=len, reverse=True)


def _grouped(tasks: Iterable[Task], key: Callable[[Task], Hashable]) -> list[tuple[Task, ...]]:
    groups: dict[Hashable, list[Task]] = {}
    for task in tasks:
        groups.setdefault(key(task), []).append(task)
    return [tuple(group) for group in groups.values()]
