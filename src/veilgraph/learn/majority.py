"""The largest class for everyone: what can be had without features and without edges."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray

from veilgraph.errors import FitError
from veilgraph.frequency import estimate_frequencies, project_to_simplex
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.learn.method import Method, check_fit_input
from veilgraph.reconstruct.labels import one_hot_labels


@dataclass(kw_only=True)
class MajorityClass(Method):
    """Every node gets the debiased distribution of all label reports.

    >>> MajorityClass().uses_features
    False
    """

    name: ClassVar[str] = "majority"
    uses_features: ClassVar[bool] = False

    _distribution: NDArray[np.float32] | None = field(init=False, default=None, repr=False)
    _num_nodes: int = field(init=False, default=0, repr=False)

    def fit(self, perturbed: PerturbedGraph, split: Split) -> Self:
        """Estimate the share of each class from all label reports."""
        check_fit_input(perturbed, split)
        reports = one_hot_labels(perturbed)
        shares = estimate_frequencies(reports.sum(0) / reports.sum(), perturbed.label_mechanism.channel)
        self._distribution = project_to_simplex(shares.to(torch.float32).unsqueeze(0)).numpy()
        self._num_nodes = perturbed.graph.num_nodes
        return self

    def predict_proba(self, perturbed: PerturbedGraph | None = None) -> NDArray[np.float32]:
        """The same distribution for every node."""
        if self._distribution is None:
            raise FitError("MajorityClass was not fitted yet: call fit(perturbed, split) first")
        nodes = self._num_nodes if perturbed is None else perturbed.graph.num_nodes
        return self._distribution.repeat(nodes, axis=0)
