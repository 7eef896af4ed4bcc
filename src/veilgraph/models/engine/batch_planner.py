"""Plans which fits are trained together: those with one graph and one network shape, as many as memory allows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch

from veilgraph.errors import FitError
from veilgraph.graph import PerturbedGraph
from veilgraph.models.engine.attention import attention_bytes
from veilgraph.models.engine.backbones import HIDDEN
from veilgraph.reconstruct.operators import operators_of

Task = TypeVar("Task")

BLOCK_NODES = 2**16
"""Nodes of a block where memory is short: enough hidden units to keep a GPU busy. A CPU uses smaller tiles anyway."""

CACHE_BYTES = 128 * 2**20
"""Size of a batch on a CPU: replicas beyond a few times the cache gain nothing from each other."""


@dataclass(frozen=True, kw_only=True)
class MemoryEstimate:
    """Memory that one fit needs.

    Attributes:
        input_bytes: bytes of one network input.
        replica_bytes: bytes of one replica in training, without its input.
        block_nodes: number of nodes whose hidden units are held at once; None for all.
    """

    input_bytes: int
    replica_bytes: int
    block_nodes: int | None


def estimate_memory(
    perturbed: PerturbedGraph,
    columns: int,
    memory: int,
    device: torch.device,
    *,
    supports_blocks: bool,
    attention: bool = False,
    block_nodes: int = BLOCK_NODES,
) -> MemoryEstimate:
    """Estimate the memory of one fit; hidden units are computed in blocks of nodes if all at once do not fit.

    Args:
        perturbed: the reports to fit.
        columns: number of columns of the network inputs.
        memory: memory limit, in bytes.
        device: device of the fit.
        supports_blocks: whether the network can be computed in blocks; attention and torch modules cannot.
        attention: whether the network is GAT, which has hidden units of edges.
        block_nodes: number of nodes in a block.
    """
    nodes, classes = perturbed.graph.num_nodes, perturbed.schema.num_classes
    # Counts of 32-bit numbers for each node. Inputs: the propagated and the plain half of the stacked input, and one
    # half before it is stacked; a GPU copies both halves once more to sum over nodes in parts. Replica: some arrays of
    # hidden units and of classes. In blocks, only the dropout mask has hidden units of all nodes.
    halves = 3 if device.type == "cpu" else 4
    inputs, whole, blocks = (
        4 * nodes * width for width in (halves * columns, 6 * (HIDDEN + classes), HIDDEN + 12 * classes)
    )
    if attention:
        whole += attention_bytes(operators_of(perturbed.graph, device), classes)
    if inputs + whole <= memory or nodes <= block_nodes or not supports_blocks:
        return MemoryEstimate(input_bytes=inputs, replica_bytes=whole, block_nodes=None)
    return MemoryEstimate(input_bytes=inputs, replica_bytes=blocks, block_nodes=block_nodes)


@dataclass(frozen=True, kw_only=True)
class Batch(Generic[Task]):
    """Tasks to train together.

    Attributes:
        tasks: the tasks in order; successive tasks share an input.
        sharing: number of tasks that share each input.
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
    cache_bytes: int = CACHE_BYTES,
) -> Iterator[Batch[Task]]:
    """Yield batches within the memory limit: tasks of one shape, with every input shared by equally many.

    Args:
        tasks: the tasks to plan.
        shape_of: key of the network shape; tasks can be trained together if it is equal.
        input_of: key of the network input; tasks share an input if it is equal.
        input_bytes: bytes of one input.
        replica_bytes: bytes of one replica in training, without its input.
        memory: memory limit of a batch, in bytes.
        device: device of the training.
        cache_bytes: size of a batch on a CPU.

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
    limit = max(min(memory, cache_bytes), input_bytes + replica_bytes) if device.type == "cpu" else memory
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


def _split_inputs(groups: Iterable[tuple[Task, ...]], max_tasks: int) -> list[tuple[Task, ...]]:
    """Split groups into parts of at most `max_tasks`, sorted by size so that equal sizes are neighbours."""
    parts = [group[start : start + max_tasks] for group in groups for start in range(0, len(group), max_tasks)]
    return sorted(parts, key=len, reverse=True)


def _grouped(tasks: Iterable[Task], key: Callable[[Task], Hashable]) -> list[tuple[Task, ...]]:
    groups: dict[Hashable, list[Task]] = {}
    for task in tasks:
        groups.setdefault(key(task), []).append(task)
    return [tuple(group) for group in groups.values()]
