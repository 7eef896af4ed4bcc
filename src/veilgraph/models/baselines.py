"""A GNN directly on the reports, as if they were the truth."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.errors import FitError
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.models.base import Method, Run, check_fit_input, training_nodes
from veilgraph.models.engine.gnn_method import GNNMethod
from veilgraph.models.engine.losses import cross_entropy, weighted_targets
from veilgraph.models.engine.node_subset import Asked
from veilgraph.privacy.frequency import estimate_frequencies
from veilgraph.reconstruct.features import one_hot_reports
from veilgraph.reconstruct.labels import one_hot_labels
from veilgraph.reconstruct.operators import GraphOperators
from veilgraph.reconstruct.simplex import project_to_simplex


@dataclass(kw_only=True)
class PlainGNN(GNNMethod):
    """No reconstruction: one-hot reports in, reported labels as targets (the paper's GraphSAGE baseline).

    On reports made with an infinite epsilon this is the non-private GNN.
    """

    name: ClassVar[str] = "plain"

    def _inputs(self, perturbed: PerturbedGraph, operators: GraphOperators) -> Tensor:
        return one_hot_reports(perturbed, operators.device, operators.communicator)

    def _input_settings(self) -> Hashable:
        return None

    @classmethod
    def _loss(cls, runs: Sequence[Run], operators: GraphOperators, asked: Asked) -> Callable[[Tensor], Tensor]:
        labels = torch.from_numpy(np.stack([run.perturbed.labels for run in runs])).to(operators.device)
        nodes = torch.from_numpy(training_nodes(runs)).to(operators.device)
        classes = runs[0].perturbed.schema.num_classes
        targets = asked.pick(weighted_targets(labels, nodes, classes, operators.communicator))
        return lambda logits: operators.communicator.all_reduce_sum(cross_entropy(logits.log_softmax(dim=1), targets))


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
