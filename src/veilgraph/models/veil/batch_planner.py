"""Which fits share label reports, and how many are in flight at once."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TypeVar

import torch

from veilgraph.errors import FitError
from veilgraph.graph import PerturbedGraph
from veilgraph.models.base import FitTask, Method
from veilgraph.models.engine.device import resolve_device
from veilgraph.models.veil.cross_fitting import HeldOutLabels

V = TypeVar("V", bound=Method)

_EDGE_ARRAYS, _NODE_ARRAYS = 3, 100


def plan_sharing(runs: Sequence[FitTask[V]], memory: int) -> Iterator[list[list[FitTask[V]]]]:
    """Batches of runs on one graph, in groups of the same label reports and seed, within threads and memory."""
    for groups in _grouped(runs):
        most = _most_at_once(groups[0][0], memory)
        yield from (groups[start : start + most] for start in range(0, len(groups), most))


def _grouped(runs: Sequence[FitTask[V]]) -> Iterator[list[list[FitTask[V]]]]:
    by_place: dict[Hashable, dict[Hashable, list[FitTask[V]]]] = {}
    for run in runs:
        reports = run.perturbed
        place = reports.graph, resolve_device(run.method.parameters()["device"]), reports.schema.num_classes
        shared = (
            reports.labels.tobytes(),
            reports.has_label.tobytes(),
            reports.label_mechanism,
            run.method.parameters()["seed"],
        )
        by_place.setdefault(place, {}).setdefault(shared, []).append(run)
    return (list(groups.values()) for groups in by_place.values())


def _most_at_once(run: FitTask[Method], memory: int) -> int:
    """As many fits as there are threads and memory for; a GPU is kept busy by one."""
    need = bytes_needed(run.perturbed)
    if need > memory:
        raise FitError(
            f"one fit needs about {need / 2**20:.1f} MiB and {memory / 2**20:.1f} MiB are allowed: allow more memory"
        )
    threads = torch.get_num_threads() if resolve_device(run.method.parameters()["device"]).type == "cpu" else 1
    return min(threads, memory // need)


def bytes_needed(perturbed: PerturbedGraph) -> int:
    """What a fit takes, in bytes: messages of every belief propagation, and views in every stage of making them."""
    columns = (HeldOutLabels.most_folds(perturbed) + 1) * perturbed.schema.num_classes
    messages, beliefs = 2 * perturbed.graph.num_edges * columns, perturbed.graph.num_nodes * columns
    return 4 * (_EDGE_ARRAYS * messages + _NODE_ARRAYS * beliefs)
