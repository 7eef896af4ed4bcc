"""UPGNet: node feature regularization and a high-order aggregator before the GNN."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from studies.rivals.graph_filter import mean_of_powers
from studies.rivals.propagated_features import PropagatedFeatures
from veilgraph.errors import FitError
from veilgraph.models.engine.backbones import BackboneFactory


@dataclass(kw_only=True)
class UPGNet(PropagatedFeatures):
    r"""He et al., "Going Deeper into Locally Differentially Private Graph Neural Networks", ICML 2025.

    Estimates that randomization made large are shrunk (node feature regularization, NFR: the proximal step of an L1
    penalty), and means over all neighbourhoods up to K hops replace the last one (high-order aggregator, HOA):

    .. math:: h = \frac 1 K \sum_{k=1}^K S^k\, \mathrm{sign}(\tilde x) \max(|\tilde x| - \tau B, 0)

    B is the largest estimate that a report can give. Its authors randomize numbers by the piecewise or the multi-bit
    mechanism. Features here are 0 or 1, and whatever is private about one bit can be simulated from one randomized bit
    at the same epsilon (Kairouz, Oh and Viswanath 2014). So reports are those of multi-bit, whose answers all have the
    size B: NFR multiplies the inputs by 1 - tau. The piecewise mechanism has at least 4/3 of its variance there. Its
    authors keep labels in the clear; here randomized labels are used by forward correction.

    Args:
        feature_hops: K.
        threshold: tau, as a share of B.

    >>> UPGNet().backbone
    'gcn'
    """

    name: ClassVar[str] = "upgnet"

    backbone: str | BackboneFactory = "gcn"
    weight_decay: float = 0.001
    epochs: int = 200
    feature_hops: int = 64
    threshold: float = 0.5

    def filter_weights(self) -> Sequence[float]:
        """Return those of the mean of S, ..., S^K."""
        return mean_of_powers(self.feature_hops)

    def denoise(self, values: Tensor, bound: float) -> Tensor:
        """Return the values after node feature regularization."""
        return soft_threshold(values, self.threshold * bound)

    def input_settings(self) -> Hashable:
        """Return K and tau."""
        return self.feature_hops, self.threshold

    def check_settings(self) -> None:
        """Raise FitError if a setting is out of range."""
        super().check_settings()
        if not 0 <= self.threshold < 1:
            raise FitError(f"threshold is {self.threshold}: it must be 0 or more and below 1")


def soft_threshold(values: Tensor, threshold: float) -> Tensor:
    r"""Return :math:`\mathrm{sign}(x) \max(|x| - t, 0)`, which minimises :math:`\frac 1 2 (z - x)^2 + t |z|` over z.

    >>> soft_threshold(torch.tensor([-3.0, 0.5, 2.0]), 1.0)
    tensor([-2.,  0.,  1.])
    """
    return torch.nn.functional.softshrink(values, threshold)
