"""GNNs for randomized labels whose inputs are public attributes."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from studies.rivals.forward_correction import ForwardCorrectedGNN
from studies.rivals.rtgnn import RTGNN
from veilgraph.errors import FitError
from veilgraph.graph import PerturbedGraph, PublicAttributes
from veilgraph.reconstruct.attribute_components import MAX_COMPONENTS, smoothed_components
from veilgraph.reconstruct.operators import GraphOperators


@dataclass(kw_only=True)
class PublicGNN(ForwardCorrectedGNN):
    r"""A GNN with forward correction (Patrini et al. 2017) on principal components of public attributes.

    Its inputs are the scores of the leading components of the centred attributes X, [nodes, components], each times its
    singular value relative to the first one. Attributes are known of everyone, so they are exact and cost no epsilon.

    Args:
        components: Number of components, at most 128.

    >>> PublicGNN().uses_features
    False
    """

    name: ClassVar[str] = "public_gnn"
    uses_features: ClassVar[bool] = False

    components: int = 64

    def network_inputs(self, perturbed: PerturbedGraph, operators: GraphOperators) -> Tensor:
        """Return the scaled scores of the leading components, [nodes, components]."""
        found = smoothed_components(_public(perturbed), operators, hops=0)
        count = self.input_columns(perturbed)
        scores = found.scores.new_zeros(perturbed.graph.num_nodes, count)
        known = found.singular_values[:count] / found.singular_values[0]
        scores[:, : len(known)] = found.scores[:, :count] * known
        return scores

    def input_columns(self, perturbed: PerturbedGraph) -> int:
        """Return the number of components; attributes of fewer columns have columns of 0 beside them."""
        return self.components

    def input_settings(self) -> Hashable:
        """Return the number of components."""
        return self.components

    def check_settings(self) -> None:
        """Raise FitError if there are no components, or more than are computed."""
        super().check_settings()
        if not 1 <= self.components <= MAX_COMPONENTS:
            raise FitError(f"components is {self.components}: it must be between 1 and {MAX_COMPONENTS}")


@dataclass(kw_only=True)
class PublicRTGNN(PublicGNN, RTGNN):
    """RTGNN (Qian et al. 2023) with a known channel, on public attributes instead of positions in the graph.

    >>> PublicRTGNN(components=16).input_settings()
    16
    """

    name: ClassVar[str] = "public_rtgnn"


def _public(perturbed: PerturbedGraph) -> PublicAttributes:
    if perturbed.public is None:
        raise FitError("no public attributes: these methods read nothing else about the nodes")
    return perturbed.public
