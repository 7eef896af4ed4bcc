"""A GNN directly on the reports, as if they were the truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from veilgraph.graph import PerturbedGraph, Split
from veilgraph.learn.gnn import GNNMethod
from veilgraph.reconstruct.features import one_hot_reports
from veilgraph.reconstruct.operators import GraphOperators


@dataclass(kw_only=True)
class PlainGNN(GNNMethod):
    """No reconstruction: one-hot reports in, reported labels as targets (the paper's GraphSAGE baseline).

    On reports made with an infinite epsilon this is the non-private GNN.
    """

    name: ClassVar[str] = "plain"

    def _inputs(self, perturbed: PerturbedGraph, operators: GraphOperators) -> Tensor:
        return one_hot_reports(perturbed, operators.device)

    def _loss(self, perturbed: PerturbedGraph, split: Split, operators: GraphOperators) -> Callable[[Tensor], Tensor]:
        nodes = torch.from_numpy(split.train & perturbed.has_label).to(operators.device)
        targets = torch.from_numpy(perturbed.labels).to(operators.device)[nodes]
        return lambda logits: cross_entropy(logits[nodes], targets)
