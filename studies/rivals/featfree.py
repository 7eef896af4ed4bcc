"""FeatFree and FeatFree-P: a GNN without any features, whose labels are private by forward correction."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from studies.rivals.forward_correction import ForwardCorrectedGNN
from veilgraph.errors import FitError
from veilgraph.graph import PerturbedGraph
from veilgraph.models.engine.backbones import BackboneFactory
from veilgraph.reconstruct.operators import GraphOperators

Smoother = Literal["hoa", "kprop"]


@dataclass(kw_only=True)
class FeatFree(ForwardCorrectedGNN):
    r"""The feature-free GNN of "Revisit-LDPGNN" (ZJU-TrustAID), made private in its labels.

    Features are replaced by values that nobody reports, and smoothed over the graph before the GNN:

    .. math:: X = \frac{1}{K} \sum_{k=1}^{K} S^k Z \;\text{(HOA)}, \qquad X = S^K Z \;\text{(KProp)}, \qquad
        S = D^{-1/2} A D^{-1/2}

    FeatFree draws Z from a standard normal distribution. FeatFree-P uses the identity, Z = I: inputs are the rows of
    the propagation operator, positions in the graph. The authors train on true labels; here the likelihood of the
    reports takes their place.

    Args:
        dimensions: columns of Z; 0 is the identity, with a column for each node.
        steps: K, the number of smoothing steps; 0 leaves Z as it is.
        smoother: "hoa", the mean over all numbers of steps (UPGNet), or "kprop", the last one (LPGNN).

    >>> FeatFree().uses_features
    False
    """

    name: ClassVar[str] = "featfree"
    uses_features: ClassVar[bool] = False

    backbone: str | BackboneFactory = "gcn"
    dimensions: int = 0
    steps: int = 16
    smoother: Smoother = "hoa"

    def network_inputs(self, perturbed: PerturbedGraph, operators: GraphOperators) -> Tensor:
        """Return the smoothed values [nodes, columns]."""
        return smoothed(self._values(perturbed, operators), self.steps, self.smoother, operators)

    def input_columns(self, perturbed: PerturbedGraph) -> int:
        """Return the number of columns of Z."""
        return self.dimensions or perturbed.graph.num_nodes

    def input_settings(self) -> Hashable:
        """Return what Z and its smoothing depend on; the identity does not depend on the seed."""
        return self.dimensions, self.steps, self.smoother, self.seed if self.dimensions else None

    def check_settings(self) -> None:
        """Raise FitError if a setting is out of range."""
        super().check_settings()
        for name, value in (("dimensions", self.dimensions), ("steps", self.steps)):
            if value < 0:
                raise FitError(f"{name} is {value}: it must be 0 or more")
        if self.smoother not in ("hoa", "kprop"):
            raise FitError(f"smoother is '{self.smoother}': choose hoa or kprop")

    def _values(self, perturbed: PerturbedGraph, operators: GraphOperators) -> Tensor:
        nodes = perturbed.graph.num_nodes
        if not self.dimensions:
            return torch.eye(nodes, device=operators.device)
        generator = torch.Generator().manual_seed(self.seed)
        return torch.randn(nodes, self.dimensions, generator=generator).to(operators.device)


def smoothed(values: Tensor, steps: int, smoother: Smoother, operators: GraphOperators) -> Tensor:
    """Smooth columns over the graph before a GNN, [nodes, columns].

    Args:
        values: [nodes, columns].
        steps: number of steps; 0 returns the values.
        smoother: "hoa" for the mean over 1 to `steps` steps, "kprop" for the last one.
        operators: matrices of the graph.
    """
    if smoother == "kprop" or steps == 0:
        return operators.symmetric(values, steps)
    total = torch.zeros_like(values)
    for _ in range(steps):
        values = operators.symmetric(values, 1)
        total += values
    return total / steps
