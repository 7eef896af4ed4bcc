"""One fit over several processes: the leader hands out parts of the graph, all train, the leader has the result."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import FitError
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.learn.backbones import CONVOLUTIONS
from veilgraph.learn.checkpoint import Checkpoint
from veilgraph.learn.gnn import GNNMethod
from veilgraph.learn.method import check_fit_input
from veilgraph.processes import Processes
from veilgraph.progress import say
from veilgraph.reconstruct.partition import GraphPart, partition

Fitted = TypeVar("Fitted", bound=GNNMethod)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Share:
    """What one process is to do.

    Attributes:
        method: not yet fitted.
        perturbed: the reports of the nodes of its part.
        split: of the same nodes.
        checkpoint: to go on from.
    """

    method: GNNMethod
    perturbed: PerturbedGraph
    split: Split
    checkpoint: Checkpoint | None

    def fit(self) -> GNNMethod:
        """Together with the other processes, which do the same with their shares at the same time."""
        return self.method.fit(self.perturbed, self.split, checkpoint=self.checkpoint)


def fit_spread(
    processes: Processes,
    method: Fitted,
    perturbed: PerturbedGraph,
    split: Split,
    *,
    checkpoint: Checkpoint | None = None,
) -> Fitted:
    """Lead a fit: the same as `method.fit` in one process, up to the rounding of sums.

    Args:
        processes: all of the run; the others are in `follow`.
        method: not yet fitted.
        perturbed: the reports on the whole graph.
        split: of its nodes.
        checkpoint: where an interrupted fit left off, whatever its number of processes was.
    """
    if method.backbone not in CONVOLUTIONS:
        raise FitError(
            f"the backbone {method.backbone!r} walks along edges and needs the whole graph in one process: "
            f"choose {' or '.join(sorted(CONVOLUTIONS))}, or start without torchrun"
        )
    check_fit_input(perturbed, split)
    method._check_settings()
    parts = partition(perturbed.graph, processes.count, num_clusters=method.bag_counts())
    say(f"partition: {_in_words(parts)}")
    for rank in range(1, processes.count):
        reader = None if checkpoint is None else checkpoint.reader()
        processes.send(_share(method, perturbed, split, parts[rank], reader), to=rank)
    probabilities = _share(method, perturbed, split, parts[0], checkpoint).fit().predict_proba()
    whole = np.empty((perturbed.graph.num_nodes, probabilities.shape[1]), dtype=probabilities.dtype)
    whole[parts[0].numbers] = probabilities
    for rank in range(1, processes.count):
        whole[parts[rank].numbers] = processes.receive(rank)
    method._probabilities = whole
    return method


def follow(processes: Processes) -> None:
    """Take part in a fit that another process leads."""
    share: _Share = processes.receive()
    processes.send(share.fit().predict_proba(), to=0)


def _share(
    method: GNNMethod, perturbed: PerturbedGraph, split: Split, part: GraphPart, checkpoint: Checkpoint | None
) -> _Share:
    def here(rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return rows[part.numbers]

    return _Share(
        method=method,
        perturbed=replace(
            perturbed,
            graph=part,
            features=perturbed.features[part.numbers],
            labels=perturbed.labels[part.numbers],
            has_features=here(perturbed.has_features),
            has_label=here(perturbed.has_label),
        ),
        split=Split(train=here(split.train), validation=here(split.validation), test=here(split.test)),
        checkpoint=checkpoint,
    )


def _in_words(parts: list[GraphPart]) -> str:
    nodes, boundary = (max(numbers) for numbers in zip(*[(p.num_nodes, p.boundary) for p in parts], strict=True))
    return f"{len(parts)} parts of at most {nodes:,} nodes, which exchange at most {boundary:,} rows in each product"
