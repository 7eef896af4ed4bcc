"""GNNs on multi-bit features that a filter of the graph smooths, with forward correction of the labels."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from studies.rivals.forward_correction import ForwardCorrectedGNN
from studies.rivals.graph_filter import graph_filter
from veilgraph.graph import PerturbedGraph
from veilgraph.models.lpgnn import ReadsMultiBit
from veilgraph.privacy.mechanisms import MultiBit
from veilgraph.reconstruct.operators import GraphOperators


@dataclass(kw_only=True)
class PropagatedFeatures(ReadsMultiBit, ForwardCorrectedGNN):
    r"""A GNN on :math:`\sum_k w_k S^k \tilde x`, with :math:`S = D^{-1/2} A D^{-1/2}` and unbiased :math:`\tilde x`.

    A subclass says what the weights w are.
    """

    @abstractmethod
    def filter_weights(self) -> Sequence[float]:
        """Return the weights w_0, w_1, ... of the powers of S."""

    def denoise(self, values: Tensor, bound: float) -> Tensor:
        """Return the values that are propagated.

        Args:
            values: estimates on the scale of -1 to 1, [nodes, features].
            bound: the largest absolute value that an estimate can have.
        """
        return values

    def network_inputs(self, perturbed: PerturbedGraph, operators: GraphOperators) -> Tensor:
        """Return the filtered estimates, [nodes, features]."""
        mechanism = self.multi_bit_mechanism(perturbed)
        values = unit_values(perturbed, mechanism, operators.device)
        return graph_filter(operators.symmetric, self.denoise(values, 1 / _gain(mechanism)), self.filter_weights())


def unit_values(perturbed: PerturbedGraph, mechanism: MultiBit, device: torch.device) -> Tensor:
    r"""Estimate features without bias on the scale of -1 (lower end) to 1 (upper end), [nodes, features].

    .. math:: \tilde x = \frac{d}{m} \cdot \frac{e^\epsilon + 1}{e^\epsilon - 1}\, x'

    A feature that was not sampled is 0, and so is a node that reported nothing.
    """
    reports = torch.from_numpy(perturbed.features).to(device, torch.float32) / _gain(mechanism)
    return reports * torch.from_numpy(perturbed.has_features).to(device).unsqueeze(1)


def _gain(mechanism: MultiBit) -> float:
    return float(mechanism.answering_rate * mechanism.channel(0).gain)
