"""One fit over several processes: each holds its part of the graph, the leader has the result.

Someone must hold the whole graph to cut it. That is a process that ends before training begins.
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
from veilgraph.models.base import DEFAULT_MEMORY, FitTask, check_fit_input
from veilgraph.models.engine.backbones import CONVOLUTIONS
from veilgraph.models.engine.gnn_method import GNNMethod
from veilgraph.progress import say
from veilgraph.reconstruct.operators import operators_of

About = TypeVar("About")
Telling = Callable[[], AbstractContextManager[Any]]


def fit_spread(
    processes: ProcessGroup,
    prepare: Callable[[], tuple[FitTask[GNNMethod], About]],
    *,
    memory: int = DEFAULT_MEMORY,
    telling: Telling = nullcontext,
) -> tuple[GNNMethod, About]:
    """Lead a fit: the same as fitting in one process, up to the rounding of sums.

    Args:
        processes: all of the run; the others are in `follow`.
        prepare: makes the fit on the whole graph, and something to hand back with the result. It is called in a
            process of its own, which cuts the graph and ends; it must be a function of a module, or a partial of one.
        memory: of this process, for inputs and hidden units, in bytes.
        telling: surrounds what may take long, here and in that process.
    """
    cutting = partial(_cut, prepare, processes.world_size, telling)
    with closing(stream_from_worker_process(cutting, "reading and cutting the graph")) as cut:
        about: About = unpickle_trusted(next(cut))
        for rank in range(1, processes.world_size):
            processes.send_pickled(next(cut), to=rank)
        run: FitTask[GNNMethod] = unpickle_trusted(next(cut))
        next(cut, None)  # nothing more: its process has ended
    with telling():
        numbers, probabilities = _fitted(run, memory)
    method, nodes = run.method, _part(run).whole
    del run  # the part may go: what is put together is of the whole graph's size
    method.probabilities_ = np.empty((nodes, probabilities.shape[1]), dtype=probabilities.dtype)
    method.probabilities_[numbers] = probabilities
    for rank in range(1, processes.world_size):
        numbers, probabilities = processes.receive(rank)
        method.probabilities_[numbers] = probabilities
    return method, about


def follow(processes: ProcessGroup, *, memory: int = DEFAULT_MEMORY) -> None:
    """Take part in a fit that another process leads.

    Args:
        processes: all of the run.
        memory: of this process, for inputs and hidden units, in bytes.
    """
    processes.send(_fitted(processes.receive(), memory), to=0)


def _fitted(run: FitTask[GNNMethod], memory: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Fit a part, together with the other processes; its nodes' numbers in the whole graph, and their probabilities."""
    run.method.fit(run.perturbed, run.split, checkpoint=run.checkpoint, memory=memory)
    operators_of.cache_clear()  # matrices of the part, which nobody will ask for again
    return _part(run).numbers, run.method.predict_proba()


def _part(run: FitTask[GNNMethod]) -> GraphPart:
    return cast(GraphPart, run.perturbed.graph)


def _cut(prepare: Callable[[], tuple[FitTask[GNNMethod], object]], count: int, telling: Telling) -> Iterator[object]:
    """What comes with the result; then a part of the fit for each process, the leader's last: it has to pass all on."""
    run, about = prepare()
    _check(run)
    with telling():
        yield about
        yield from _parts(run, count)


def _check(run: FitTask[GNNMethod]) -> None:
    if run.method.backbone not in CONVOLUTIONS:
        raise FitError(
            f"the backbone {run.method.backbone!r} walks along edges and needs the whole graph in one process: "
            f"choose {' or '.join(sorted(CONVOLUTIONS))}, or start without torchrun"
        )
    check_fit_input(run.perturbed, run.split)
    run.method._check_settings()


def _parts(run: FitTask[GNNMethod], count: int) -> Iterator[FitTask[GNNMethod]]:
    partition = Partition(run.perturbed.graph, count, num_clusters=run.method.bag_counts())
    say(
        f"partition: {count} parts of at most {partition.most_nodes:,} nodes, "
        f"which exchange at most {partition.most_borrowed:,} rows in each product"
    )
    reader = None if run.checkpoint is None else run.checkpoint.reader()
    for rank in range(1, count):
        yield replace(_part_of(run, partition[rank]), checkpoint=reader)
    yield _part_of(run, partition[0])


def _part_of(run: FitTask[GNNMethod], part: GraphPart) -> FitTask[GNNMethod]:
    def here(rows: NDArray[Any]) -> NDArray[Any]:
        return rows[part.numbers]

    whole, split = run.perturbed, run.split
    perturbed = replace(
        whole,
        graph=part,
        features=here(whole.features),
        labels=here(whole.labels),
        has_features=here(whole.has_features),
        has_label=here(whole.has_label),
    )
    parted = Split(train=here(split.train), validation=here(split.validation), test=here(split.test))
    return replace(run, perturbed=perturbed, split=parted)
