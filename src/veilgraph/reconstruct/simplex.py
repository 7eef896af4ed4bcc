"""Projection of estimated frequencies onto the probability simplex."""

from __future__ import annotations

import torch
from torch import Tensor


def project_to_simplex(estimates: Tensor) -> Tensor:
    """Return the nearest distribution in Euclidean distance, for each row (Held, Wolfe and Crowder 1974).

    >>> project_to_simplex(torch.tensor([[1.2, -0.1, -0.1], [0.2, 0.3, 0.5]]))
    tensor([[1.0000, 0.0000, 0.0000],
            [0.2000, 0.3000, 0.5000]])
    """
    # Adding a number to a whole row does not move its projection; near 0 the differences are exact.
    estimates = estimates - estimates.amax(dim=-1, keepdim=True)
    ordered = estimates.sort(dim=-1, descending=True).values
    ranks = torch.arange(1, estimates.shape[-1] + 1, device=estimates.device, dtype=estimates.dtype)
    excess = (ordered.cumsum(-1) - 1) / ranks
    support = (ordered > excess).sum(-1, keepdim=True)
    return (estimates - excess.gather(-1, support - 1)).clamp(min=0)
