"""The protocol of every method: fit on what the server knows, predict classes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from veilgraph.distributed.communicator import LOCAL, Communicator
from veilgraph.errors import FitError
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.models.checkpoint import Checkpoint
from veilgraph.privacy.budget import Guarantee

DEFAULT_MEMORY = 8 * 2**30
"""Bytes that fits which are trained together may take."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """A method and what it is to be fitted to.

    Attributes:
        method: whose class takes such runs together, and knows its settings.
        perturbed: the reports.
        split: of the nodes.
        checkpoint: where an interrupted fit left off, and where this one is to leave its state; such a run is trained
            by itself.
    """

    method: Any
    perturbed: PerturbedGraph
    split: Split
    checkpoint: Checkpoint | None = None


def training_nodes(runs: Sequence[Run]) -> NDArray[np.bool_]:
    """[runs, nodes]: whose reported labels train."""
    return np.stack([run.split.train & run.perturbed.has_label for run in runs])


class Method(ABC):
    """Trains on reports and public structure; never on a clean value.

    Attributes:
        name: of the method in tables.
        uses_features: whether the feature reports are needed at all. A method that does not use them spends no
            feature budget: a collection for it would not ask for them.
    """

    name: ClassVar[str]
    uses_features: ClassVar[bool] = True

    @abstractmethod
    def fit(self, perturbed: PerturbedGraph, split: Split) -> Self:
        """Learn from the reports; the split says whose labels train and whose select."""

    @abstractmethod
    def predict_proba(self, perturbed: PerturbedGraph | None = None) -> NDArray[np.float32]:
        """Class probabilities of every node: of the graph it was fitted on, or of another one."""

    @classmethod
    def fit_together(cls, runs: Sequence[Run], *, memory: int = DEFAULT_MEMORY) -> Iterator[Sequence[Run]]:
        """Fit many of this method, on one graph or several; each batch is handed back when it is done.

        The same as fitting each on its own. A method that can share work between them does.

        Args:
            runs: whose methods are of this class.
            memory: to stay within where fits are in flight at once, in bytes.
        """
        for run in runs:
            run.method.fit(run.perturbed, run.split)
            yield [run]

    @classmethod
    def start_together(
        cls, runs: Sequence[Run], *, memory: int = DEFAULT_MEMORY
    ) -> Iterator[Callable[[], Sequence[Run]]]:
        """`fit_together` for whoever has something else to do meanwhile.

        A batch may be under way on a GPU when it is handed back. Calling it waits until it is done.
        """
        for batch in cls.fit_together(runs, memory=memory):
            yield partial(tuple, batch)

    def bag_counts(self) -> tuple[int, ...]:
        """The numbers of clusters that a fit asks for, so that they can be made beforehand."""
        return ()

    def predict(self, perturbed: PerturbedGraph | None = None) -> NDArray[np.int64]:
        """The most likely class of every node."""
        return np.asarray(self.predict_proba(perturbed).argmax(axis=1))

    def epsilon_spent(self, guarantee: Guarantee) -> float:
        """User-level epsilon of the reports that this method needs."""
        return guarantee.total_user_level if self.uses_features else guarantee.label_user_level


def check_fit_input(perturbed: PerturbedGraph, split: Split, communicator: Communicator = LOCAL) -> None:
    """Refuse what nothing can be learned from."""
    if split.train.shape != (perturbed.graph.num_nodes,):
        raise FitError(f"the split is for {len(split.train)} nodes, the graph has {perturbed.graph.num_nodes}")
    if not _anywhere(split.train & perturbed.has_label, communicator):
        raise FitError("no labelled nodes among the training nodes: at least one must report its label")
    if not _anywhere(split.validation & perturbed.has_label, communicator):
        raise FitError("no labelled nodes among the validation nodes: selection needs at least one")


def _anywhere(nodes: NDArray[np.bool_], communicator: Communicator) -> bool:
    return bool(communicator.all_reduce_max(int(nodes.any())))
