"""A GNN directly on the reports, as if they were the truth."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from veilgraph.graph import PerturbedGraph
from veilgraph.learn.asked import Asked
from veilgraph.learn.gnn import GNNMethod
from veilgraph.learn.losses import cross_entropy, weighted_targets
from veilgraph.learn.method import Run, training_nodes
from veilgraph.reconstruct.features import one_hot_reports
from veilgraph.reconstruct.operators import GraphOperators


@dataclass(kw_only=True)
class PlainGNN(GNNMethod):
    """No reconstruction: one-hot reports in, reported labels as targets (the paper's GraphSAGE baseline).

    On reports made with an infinite epsilon this is the non-private GNN.
    """

    name: ClassVar[str] = "plain"

    def _inputs(self, perturbed: PerturbedGraph, operators: GraphOperators) -> Tensor:
        return one_hot_reports(perturbed, operators.device, operators.peers)

    def _input_settings(self) -> Hashable:
        return None

    @classmethod
    def _loss(cls, runs: Sequence[Run], operators: GraphOperators, asked: Asked) -> Callable[[Tensor], Tensor]:
        labels = torch.from_numpy(np.stack([run.perturbed.labels for run in runs])).to(operators.device)
        nodes = torch.from_numpy(training_nodes(runs)).to(operators.device)
        classes = runs[0].perturbed.schema.num_classes
        targets = asked.pick(weighted_targets(labels, nodes, classes, operators.peers))
        return lambda logits: operators.peers.total(cross_entropy(logits.log_softmax(dim=1), targets))
