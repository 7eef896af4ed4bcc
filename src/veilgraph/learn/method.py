"""The protocol of every method: fit on what the server knows, predict classes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from veilgraph.budget import Guarantee
from veilgraph.errors import FitError
from veilgraph.graph import PerturbedGraph, Split


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

    def predict(self, perturbed: PerturbedGraph | None = None) -> NDArray[np.int64]:
        """The most likely class of every node."""
        return np.asarray(self.predict_proba(perturbed).argmax(axis=1))

    def epsilon_spent(self, guarantee: Guarantee) -> float:
        """User-level epsilon of the reports that this method needs."""
        return guarantee.total_user_level if self.uses_features else guarantee.label_user_level


def check_fit_input(perturbed: PerturbedGraph, split: Split) -> None:
    """Refuse what nothing can be learned from."""
    if split.train.shape != (perturbed.graph.num_nodes,):
        raise FitError(f"the split is for {len(split.train)} nodes, the graph has {perturbed.graph.num_nodes}")
    if not (split.train & perturbed.has_label).any():
        raise FitError("no labelled nodes among the training nodes: at least one must report its label")
    if not (split.validation & perturbed.has_label).any():
        raise FitError("no labelled nodes among the validation nodes: selection needs at least one")
