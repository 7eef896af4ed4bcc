"""Contamination: a share of the label reports that were not randomized, and the classes that they name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Contamination:
    r"""Huber's contamination model of the label reports.

    .. math:: P(y' | x) = (1 - a) P_0(y' | x) + a \sum_{t \in y'} r_t \Big/ \binom{k-1}{w-1}

    P_0 is the stated mechanism. A report that was not randomized names a target class t with probability r_t, whatever
    the true class is; if it names w classes, the others are random.

    Attributes:
        share: a, the share of the reports that were not randomized.
        targets: r, their distribution over target classes.
        set_size: w, the number of classes that a report names.

    >>> Contamination(share=0.2, targets=(0.0, 0.0, 1.0)).likelihood(torch.tensor([[0, 1, 0], [0, 0, 1]]))
    tensor([0.0000, 0.2500])
    """

    share: float
    targets: tuple[float, ...]
    set_size: int = 1

    def likelihood(self, named: Tensor) -> Tensor:
        """Return a / (1 - a) r(y') for indicators of named classes [reports, classes].

        It is relative to the likelihoods of the stated mechanism, up to their common factor: those stay as they are.
        """
        distribution = torch.tensor(self.targets, device=named.device)
        return self.share / (1 - self.share) * (named.to(distribution) @ distribution)

    @cached_property
    def named_shares(self) -> tuple[float, ...]:
        """Shares of the reports that were not randomized that name each class, [classes]; they sum to w."""
        others = (self.set_size - 1) / (len(self.targets) - 1)
        return tuple(target + (1 - target) * others for target in self.targets)

    def honest_shares(self, shares: Tensor) -> Tensor:
        """Return the shares of the randomized reports that name each class, from those of all reports [classes]."""
        unrandomized = torch.tensor(self.named_shares).to(shares)
        return ((shares - self.share * unrandomized) / (1 - self.share)).clamp(min=0)
