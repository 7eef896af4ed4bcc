"""The privacy budget that a collection asks for."""

from __future__ import annotations

import math
from dataclasses import dataclass

from veilgraph.errors import BudgetError
from veilgraph.privacy.epsilon import NOT_PRIVATE, check_epsilon
from veilgraph.privacy.notebook_table import html_table


def check_sampled(sampled: int, num_features: int) -> int:
    """Return `sampled` if this number of features can be sampled from `num_features`.

    >>> check_sampled(10, 5)
    Traceback (most recent call last):
    veilgraph.errors.BudgetError: sampled is 10 but there are 5 features: choose 1 to 5
    """
    if not 1 <= sampled <= num_features:
        raise BudgetError(f"sampled is {sampled} but there are {num_features} features: choose 1 to {num_features}")
    return int(sampled)


@dataclass(frozen=True)
class PrivacyBudget:
    """Parameters of the paper's mechanisms, which decide what a report may reveal.

    The guarantee that follows from them is a `veilgraph.privacy.accounting.Guarantee`.

    Args:
        epsilon_x: budget of each sampled feature; None, the default, collects no features.
        epsilon_y: budget of the label, always given.
        sampled: m, the number of features that each person samples; more than there are means all of them. It is given
            together with `epsilon_x`.

    >>> PrivacyBudget(epsilon_x=1.0, epsilon_y=3.0, sampled=10)
    PrivacyBudget(epsilon_x=1.0, epsilon_y=3.0, sampled=10)
    >>> PrivacyBudget(epsilon_y=2.0).collects_features
    False
    """

    epsilon_x: float | None = None
    epsilon_y: float = math.nan  # not a number, so a budget without it is refused
    sampled: int | None = None

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon_y, "epsilon_y")
        if (self.epsilon_x is None) != (self.sampled is None):
            raise BudgetError("epsilon_x and sampled belong together: give both, or neither to collect no features")
        if self.epsilon_x is not None:
            check_epsilon(self.epsilon_x, "epsilon_x")
        if self.sampled is not None and (self.sampled != int(self.sampled) or self.sampled < 1):
            raise BudgetError(f"sampled is {self.sampled}: give a whole number of features, at least 1")

    def _repr_html_(self) -> str:
        relation, features = "user level (any two records)", {"features": "none are asked for"}
        if self.epsilon_x is not None and self.sampled is not None:
            together = f"{self.epsilon_x * self.sampled:g} together, {relation}"
            features = {"epsilon_x": f"{self.epsilon_x:g} for each of {self.sampled} sampled features; {together}"}
        label = f"{self.epsilon_y:g}, {relation}"
        return html_table("Privacy budget", {"epsilon_y, of the label": label} | features)

    @property
    def collects_features(self) -> bool:
        """Whether reports hold features."""
        return self.epsilon_x is not None

    @classmethod
    def not_private(cls, num_features: int) -> PrivacyBudget:
        """Return the budget without randomization: every report is the record. For ceilings in simulations only."""
        if num_features == 0:
            return cls(epsilon_y=NOT_PRIVATE)
        return cls(epsilon_x=NOT_PRIVATE, epsilon_y=NOT_PRIVATE, sampled=num_features)
