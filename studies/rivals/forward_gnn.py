"""A GNN with forward correction, on reconstructed features or on positions in the graph."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from studies.rivals.forward_correction import ForwardCorrectedGNN
from veilgraph.graph import PerturbedGraph
from veilgraph.privacy.mechanisms import Mechanism
from veilgraph.reconstruct import reconstruct_features
from veilgraph.reconstruct.operators import GraphOperators

POSITIONS = 64
"""Number of eigenvectors that stand in for features where nobody was asked for any."""


@dataclass(kw_only=True)
class ForwardGNN(ForwardCorrectedGNN):
    """A GNN for noisy labels whose transition matrix is known.

    Its inputs are features that Algorithm 1 reconstructs. Where no features were collected, they are the leading
    eigenvectors of the graph: positions, which need no report.

    Args:
        feature_hops: K_x, the hops of Algorithm 1.

    >>> ForwardGNN().unmet_need(None) is None
    True
    """

    name: ClassVar[str] = "forward_gnn"

    feature_hops: int = 16

    @classmethod
    def unmet_need(cls, features: Mechanism | None) -> str | None:
        """Return None: without features, positions take their place."""
        return None

    def network_inputs(self, perturbed: PerturbedGraph, operators: GraphOperators) -> Tensor:
        """Return reconstructed features, or eigenvectors where there are none, [nodes, columns]."""
        if not perturbed.has_features.any():
            return operators.decompositions.eigenvectors(POSITIONS)
        return reconstruct_features(perturbed, self.feature_hops, mean=operators.mean).inputs("distribution")

    def input_columns(self, perturbed: PerturbedGraph) -> int:
        """Return the number of columns of the features, or of the eigenvectors."""
        collected = perturbed.has_features.any()
        return super().input_columns(perturbed) if collected else min(POSITIONS, perturbed.graph.num_nodes)

    def input_settings(self) -> Hashable:
        """Return K_x."""
        return self.feature_hops
