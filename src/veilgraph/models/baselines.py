"""Baselines: a GNN on the reports as they are, and the most frequent class."""

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
from veilgraph.models.base import FitTask, Method, begin_fit, check_is_fitted, training_nodes
from veilgraph.models.engine.gnn_method import GNNMethod
from veilgraph.models.engine.losses import cross_entropy, reported_targets
from veilgraph.models.engine.output_layer import NodeSubset
from veilgraph.models.saved_state import FittedState
from veilgraph.privacy.frequency import estimate_frequencies
from veilgraph.reconstruct.features import one_hot_features
from veilgraph.reconstruct.labels import named_classes, project_to_simplex
from veilgraph.reconstruct.operators import GraphOperators


@dataclass(kw_only=True)
class PlainGNN(GNNMethod):
    """A GNN without reconstruction: one-hot reports as inputs, reported labels as targets (the paper's baseline).

    The classes that a label report names share its weight.

    On reports of an infinite epsilon this is the non-private GNN.
    """

    name: ClassVar[str] = "plain"
    uses_public: ClassVar[bool] = True

    def network_inputs(self, perturbed: PerturbedGraph, operators: GraphOperators) -> Tensor:
        """Return the one-hot feature reports [nodes, columns]."""
        return one_hot_features(perturbed, operators.device, operators.communicator)

    def input_settings(self) -> Hashable:
        """Return a constant: inputs depend on the reports alone."""
        return None

    @classmethod
    def make_loss(
        cls, tasks: Sequence[FitTask[Self]], operators: GraphOperators, nodes: NodeSubset
    ) -> Callable[[Tensor], Tensor]:
        """Return the cross-entropy of the training nodes' reported labels."""
        training = torch.from_numpy(training_nodes(tasks)).to(operators.device)
        reports = [task.perturbed for task in tasks]
        targets = nodes.select(reported_targets(reports, training, operators.communicator))
        return lambda logits: operators.communicator.all_reduce_sum(cross_entropy(logits.log_softmax(dim=1), targets))


@dataclass(kw_only=True)
class MajorityClass(Method):
    """The debiased distribution of all label reports, for every node alike.

    >>> MajorityClass().uses_features
    False
    """

    name: ClassVar[str] = "majority"
    uses_features: ClassVar[bool] = False

    distribution_: NDArray[np.float32] = field(init=False, repr=False, compare=False)
    num_nodes_: int = field(init=False, repr=False, compare=False)

    def fit(self, perturbed: PerturbedGraph, split: Split) -> Self:
        """Estimate the share of each class from all label reports."""
        begin_fit(self, perturbed, split)
        self.distribution_ = class_shares(perturbed)
        self.num_nodes_ = perturbed.graph.num_nodes
        return self

    def restore(self, state: FittedState) -> None:
        """Set the fitted attributes; refuse more or fewer distributions than one."""
        super().restore(state)
        if len(self.distribution_) != 1:
            raise FitError(f"its distribution has {len(self.distribution_)} rows, not 1")

    def predict_proba(self, perturbed: PerturbedGraph | None = None) -> NDArray[np.float32]:
        """Return the same class distribution for every node, [nodes, classes]."""
        check_is_fitted(self)
        nodes = self.num_nodes_ if perturbed is None else perturbed.graph.num_nodes
        return self.distribution_.repeat(nodes, axis=0)


def class_shares(perturbed: PerturbedGraph) -> NDArray[np.float32]:
    """Estimate the share of each class among all people from all label reports, [1, classes]."""
    named = named_classes(perturbed).sum(0) / int(perturbed.has_label.sum())
    shares = estimate_frequencies(named, perturbed.label_mechanism.channel)
    return np.asarray(project_to_simplex(shares.to(torch.float32).unsqueeze(0)).numpy())
