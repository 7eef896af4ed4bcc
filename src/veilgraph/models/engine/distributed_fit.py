"""One fit over several processes: each process holds a part of the graph, and the leader gets the result.

Only a short-lived worker process ever holds the whole graph. It cuts the graph and ends before training begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from veilgraph.distributed.process_group import ProcessGroup
from veilgraph.distributed.worker_process import stream_from_worker_process, unpickle_trusted
from veilgraph.errors import FitError
from veilgraph.graph import Split
from veilgraph.graph.partition import GraphPart, Partition
from veilgraph.models.base import DEFAULT_MEMORY, FitTask, begin_fit
from veilgraph.models.engine.backbones import CONVOLUTIONS
from veilgraph.models.engine.gnn_method import GNNMethod
from veilgraph.progress import say
from veilgraph.reconstruct.operators import operators_of

Extra = TypeVar("Extra")
ProgressContext = Callable[[], AbstractContextManager[Any]]
"""Makes a context that shows progress messages of slow work."""


def fit_distributed(
    processes: ProcessGroup,
    prepare: Callable[[], tuple[FitTask[GNNMethod], Extra]],
    *,
    memory: int = DEFAULT_MEMORY,
    progress_context: ProgressContext = nullcontext,
) -> tuple[GNNMethod, Extra]:
    """Lead a fit over all processes; the result equals that of one process, up to the rounding of sums.

    Args:
        processes: the process group; all other processes call `join_fit`.
        prepare: returns the task on the whole graph, and an object to return with the result. It runs in a worker
            process, so that it must be a function of a module, or a partial of one.
        memory: limit of this process for inputs and hidden units, in bytes.
        progress_context: context around slow work, here and in the worker process.

    Returns:
        The fitted method, and the object that came with the task.
    """
    cutting = partial(_cut, prepare, processes.world_size, progress_context)
    with closing(stream_from_worker_process(cutting, "reading and cutting the graph")) as cut:
        extra: Extra = unpickle_trusted(next(cut))
        for rank in range(1, processes.world_size):
            processes.send_pickled(next(cut), to=rank)
        task: FitTask[GNNMethod] = unpickle_trusted(next(cut))
        next(cut, None)  # no more items: the worker process has ended
    with progress_context():
        nodes, probabilities = _fit_part(task, memory)
    method, num_nodes = task.method, _part(task).num_global_nodes
    del task  # free the part before the result of the whole graph is allocated
    method.probabilities_ = np.empty((num_nodes, probabilities.shape[1]), dtype=probabilities.dtype)
    method.probabilities_[nodes] = probabilities
    for rank in range(1, processes.world_size):
        nodes, probabilities = processes.receive(rank)
        method.probabilities_[nodes] = probabilities
    return method, extra


def join_fit(processes: ProcessGroup, *, memory: int = DEFAULT_MEMORY) -> None:
    """Take part in a fit that another process leads with `fit_distributed`.

    Args:
        processes: the process group.
        memory: limit of this process for inputs and hidden units, in bytes.
    """
    processes.send(_fit_part(processes.receive(), memory), to=0)


def _fit_part(task: FitTask[GNNMethod], memory: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Fit a part together with the other processes; return its node indices in the whole graph and probabilities."""
    task.method.fit(task.perturbed, task.split, checkpoint=task.checkpoint, memory=memory)
    operators_of.cache_clear()  # matrices of the part, which are not needed any more
    return _part(task).global_ids, task.method.predict_proba()


def _part(task: FitTask[GNNMethod]) -> GraphPart:
    return cast(GraphPart, task.perturbed.graph)


def _cut(
    prepare: Callable[[], tuple[FitTask[GNNMethod], object]], count: int, progress_context: ProgressContext
) -> Iterator[object]:
    """Yield the extra object, then the task of each process, the leader's last because it forwards the others."""
    task, extra = prepare()
    _check(task)
    with progress_context():
        yield extra
        yield from _tasks_of_parts(task, count)


def _check(task: FitTask[GNNMethod]) -> None:
    if task.method.backbone not in CONVOLUTIONS:
        raise FitError(
            f"the backbone {task.method.backbone!r} walks along edges and needs the whole graph in one process: "
            f"choose {' or '.join(sorted(CONVOLUTIONS))}, or start without torchrun"
        )
    begin_fit(task.method, task.perturbed, task.split)
    task.method.check_settings()


def _tasks_of_parts(task: FitTask[GNNMethod], count: int) -> Iterator[FitTask[GNNMethod]]:
    partition = Partition(task.perturbed.graph, count, num_clusters=task.method.bag_counts())
    say(
        f"partition: {count} parts of at most {partition.max_part_nodes:,} nodes, "
        f"which exchange at most {partition.max_halo_size:,} rows in each product"
    )
    reader = None if task.checkpoint is None else task.checkpoint.reader()
    for rank in range(1, count):
        yield replace(_task_of_part(task, partition[rank]), checkpoint=reader)
    yield _task_of_part(task, partition[0])


def _task_of_part(task: FitTask[GNNMethod], part: GraphPart) -> FitTask[GNNMethod]:
    def local(rows: NDArray[Any]) -> NDArray[Any]:
        return rows[part.global_ids]

    whole, split = task.perturbed, task.split
    perturbed = replace(
        whole,
        graph=part,
        features=local(whole.features),
        feature_waves=None,
        labels=local(whole.labels),
        has_features=local(whole.has_features),
        has_label=local(whole.has_label),
    )
    local_split = Split(train=local(split.train), validation=local(split.validation), test=local(split.test))
    return replace(task, perturbed=perturbed, split=local_split)
