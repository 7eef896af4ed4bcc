"""LPGNN: multi-bit features, K-hop aggregation, label denoising and forward correction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from veilgraph.errors import FitError
from veilgraph.frequency import expected_observation, multi_bit_values
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.learn.gnn import GNNMethod
from veilgraph.mechanisms import MultiBit
from veilgraph.reconstruct.labels import one_hot_labels
from veilgraph.reconstruct.operators import GraphOperators
from veilgraph.reconstruct.propagation import check_hops

_FLOOR = 1e-12


@dataclass(kw_only=True)
class LPGNN(GNNMethod):
    r"""Sajadmanesh and Gatica-Perez, "Locally Private Graph Neural Networks", CCS 2021.

    Features are the unbiased values of multi-bit reports, aggregated over K_x hops of
    :math:`S = D^{-1/2} A D^{-1/2}` (KProp). Labels are denoised by K_y hops and an argmax. Predictions are passed
    through the label channel P (forward correction) and the same K_y hops before they are compared:

    .. math:: \mathcal L = - \frac{1}{|V_{train}|} \sum_v \ln [S^{K_y} \hat Y P]_{v, \tilde y_v},
        \qquad \tilde y_v = \arg\max [S^{K_y} Y']_v

    A training node that no label report reaches in K_y hops has no denoised label and no term in the loss.

    Args:
        feature_hops: K_x.
        label_hops: K_y.
        forward_correction: pass predictions through the label channel.
    """

    name: ClassVar[str] = "lpgnn"

    feature_hops: int = 16
    label_hops: int = 8
    forward_correction: bool = True

    def _inputs(self, perturbed: PerturbedGraph, operators: GraphOperators) -> Tensor:
        mechanism = perturbed.feature_mechanism
        if not isinstance(mechanism, MultiBit):
            raise FitError(f"LPGNN needs multi-bit reports, not those of {type(mechanism).__name__}")
        reports = torch.from_numpy(perturbed.features).to(operators.device, torch.float32)
        values = multi_bit_values(reports, mechanism)
        values[~torch.from_numpy(perturbed.has_features).to(operators.device)] = 0
        return k_hops(operators.symmetric, values, self.feature_hops)

    def _loss(self, perturbed: PerturbedGraph, split: Split, operators: GraphOperators) -> Callable[[Tensor], Tensor]:
        matrix, channel = operators.symmetric, perturbed.label_mechanism.channel
        nodes = torch.from_numpy(split.train & perturbed.has_label).to(operators.device)
        propagated = k_hops(matrix, one_hot_labels(perturbed).to(operators.device), self.label_hops)
        nodes &= propagated.sum(dim=1) > 0
        if not nodes.any():
            raise FitError(f"no label report is {self.label_hops} hops from a training node: choose other label_hops")
        denoised = propagated[nodes].argmax(dim=1, keepdim=True)

        def loss(logits: Tensor) -> Tensor:
            probabilities = logits.softmax(dim=1)
            if self.forward_correction:
                probabilities = expected_observation(probabilities, channel)
            expected = k_hops(matrix, probabilities, self.label_hops)[nodes]
            return -expected.gather(1, denoised).clamp(min=_FLOOR).log().mean()

        return loss


def k_hops(matrix: Tensor, columns: Tensor, hops: int) -> Tensor:
    """The matrix applied `hops` times."""
    for _ in range(check_hops(hops)):
        columns = matrix @ columns
    return columns
