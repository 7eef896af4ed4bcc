"""A GNN directly on the reports, as if they were the truth."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.graph import PerturbedGraph, Split
from veilgraph.models.base import FitTask, Method, check_fit_input, check_is_fitted, training_nodes
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
    def _loss(
        cls, tasks: Sequence[FitTask[Self]], operators: GraphOperators, asked: Asked
    ) -> Callable[[Tensor], Tensor]:
        labels = torch.from_numpy(np.stack([task.perturbed.labels for task in tasks])).to(operators.device)
        nodes = torch.from_numpy(training_nodes(tasks)).to(operators.device)
        classes = tasks[0].perturbed.schema.num_classes
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

    distribution_: NDArray[np.float32] = field(init=False, repr=False, compare=False)
    num_nodes_: int = field(init=False, repr=False, compare=False)

    def fit(self, perturbed: PerturbedGraph, split: Split) -> Self:
        """Estimate the share of each class from all label reports."""
        check_fit_input(perturbed, split)
        reports = one_hot_labels(perturbed)
        shares = estimate_frequencies(reports.sum(0) / reports.sum(), perturbed.label_mechanism.channel)
        self.distribution_ = project_to_simplex(shares.to(torch.float32).unsqueeze(0)).numpy()
        self.num_nodes_ = perturbed.graph.num_nodes
        return self

    def predict_proba(self, perturbed: PerturbedGraph | None = None) -> NDArray[np.float32]:
        """The same distribution for every node."""
        check_is_fitted(self)
        nodes = self.num_nodes_ if perturbed is None else perturbed.graph.num_nodes
        return self.distribution_.repeat(nodes, axis=0)
