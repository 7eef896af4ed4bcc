"""Contamination: label reports that were not randomized, how many there are and which classes they name."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.errors import FitError
from veilgraph.models.saved_state import check_types


@dataclass(frozen=True, kw_only=True)
class Contamination:
    r"""Huber's contamination model of the label reports (Huber 1964).

    .. math:: P(y' | x) = (1 - a) P_0(y' | x) + a \sum_{t \in y'} r_t \Big/ \binom{k-1}{w-1}

    P_0 is the stated mechanism. A report that was not randomized names a target class t with probability r_t, whatever
    the true class is; if it names w classes, the others are random. The share a may depend on the degree of a node.

    Attributes:
        share: a, the share of all reports that were not randomized.
        targets: r, their distribution over target classes.
        set_size: w, the number of classes that a report names.
        degrees: Lowest degree of each group of nodes but the first; empty if a is the same for all.
        group_shares: a of each group.

    >>> lies = Contamination(share=0.2, targets=(0.0, 0.0, 1.0))
    >>> lies.likelihood(torch.tensor([[0, 1, 0], [0, 0, 1]]), torch.tensor([1, 1]))
    tensor([0.0000, 0.2500])
    """

    share: float
    targets: tuple[float, ...]
    set_size: int = 1
    degrees: tuple[int, ...] = ()
    group_shares: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not all(0 <= share < 1 for share in (self.share, *self.group_shares)):
            raise FitError(f"contaminated shares {(self.share, *self.group_shares)}: they are from 0 to below 1")
        if not (all(target >= 0 for target in self.targets) and math.isclose(sum(self.targets), 1, rel_tol=1e-4)):
            raise FitError(f"target classes have probabilities {self.targets}: they are positive and sum to 1")
        if not 1 <= self.set_size < len(self.targets):
            raise FitError(f"a report names {self.set_size} of {len(self.targets)} classes: it names fewer, and one")
        if self.group_shares and len(self.group_shares) != len(self.degrees) + 1:
            raise FitError(f"{len(self.degrees)} degrees separate {len(self.group_shares)} groups: one less is needed")

    @classmethod
    def from_dict(cls, described: dict[str, Any], num_classes: int) -> Contamination:
        """Return the contamination that `dataclasses.asdict` described; raise FitError for another form."""
        kinds = {"share": float, "targets": list[float], "set_size": int}
        kinds |= {"degrees": list[int], "group_shares": list[float]}
        check_types(described, kinds)
        if described.keys() != kinds.keys() or len(described["targets"]) != num_classes:
            raise FitError(f"its contamination is not one of {num_classes} classes")
        fields: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in described.items()
        }
        return cls(**fields)

    def shares_at(self, degrees: Tensor) -> Tensor:
        """Return a for nodes of the given degrees, [nodes]."""
        if not self.group_shares:
            return torch.full(degrees.shape, self.share, device=degrees.device)
        shares = torch.tensor(self.group_shares, device=degrees.device)
        return shares[degree_groups(degrees, self.degrees)]

    def likelihood(self, named: Tensor, degrees: Tensor) -> Tensor:
        """Return a / (1 - a) r(y') for indicators of named classes [reports, classes], [reports].

        It is relative to the likelihoods of the stated mechanism, up to their common factor: those stay as they are.
        """
        shares = self.shares_at(degrees)
        return shares / (1 - shares) * (named.to(shares) @ torch.tensor(self.targets, device=named.device))

    def mean_likelihood(self, named: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return `likelihood` of reports [reports, classes] with the share of all nodes, whatever their degree."""
        return np.asarray(self.share / (1 - self.share) * (named @ np.array(self.targets)))

    @cached_property
    def named_shares(self) -> tuple[float, ...]:
        """Shares of the reports that were not randomized that name each class, [classes]; they sum to w."""
        others = (self.set_size - 1) / (len(self.targets) - 1)
        return tuple(target + (1 - target) * others for target in self.targets)

    def honest_shares(self, shares: Tensor) -> Tensor:
        """Return the shares of the randomized reports that name each class, from those of all reports [classes]."""
        unrandomized = torch.tensor(self.named_shares).to(shares)
        return ((shares - self.share * unrandomized) / (1 - self.share)).clamp(min=0)


def degree_groups(degrees: Tensor, bounds: tuple[int, ...]) -> Tensor:
    """Return the group of each node, [nodes]: the number of bounds that its degree reaches.

    >>> degree_groups(torch.tensor([1, 3, 9]), (3, 8))
    tensor([0, 1, 2])
    """
    return torch.bucketize(degrees, torch.tensor(bounds, device=degrees.device), right=True)
