"""The privacy budget that a collection asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral

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


def check_features_budget(epsilon_x: float | None, sampled: int | None) -> None:
    """Refuse a budget of features without the number of those that are sampled, and the reverse.

    >>> check_features_budget(1.0, None)
    Traceback (most recent call last):
    veilgraph.errors.BudgetError: epsilon_x and sampled belong together: give both, or neither to collect no features
    """
    if (epsilon_x is None) != (sampled is None):
        raise BudgetError("epsilon_x and sampled belong together: give both, or neither to collect no features")


_MISSING = float("nan")  # an object of its own
"""The budget of a label that was not given."""


@dataclass(frozen=True)
class PrivacyBudget:
    """Parameters of the paper's mechanisms, which decide what a report may reveal.

    The guarantee that follows from them is a `veilgraph.privacy.accounting.Guarantee`.

    Args:
        epsilon_x: budget of each sampled feature; None, the default, collects no features.
        epsilon_y: budget of the label, always given.
        sampled: m, the number of features that each person samples, given together with `epsilon_x`.

    >>> PrivacyBudget(epsilon_x=1.0, epsilon_y=3.0, sampled=10)
    PrivacyBudget(epsilon_x=1.0, epsilon_y=3.0, sampled=10)
    >>> PrivacyBudget(epsilon_y=2.0).collects_features
    False
    """

    epsilon_x: float | None = None
    epsilon_y: float = _MISSING
    sampled: int | None = None

    def __post_init__(self) -> None:
        if self.epsilon_y is _MISSING:
            raise BudgetError("epsilon_y is missing: give the budget of the label, such as epsilon_y=1.0")
        check_epsilon(self.epsilon_y, "epsilon_y")
        check_features_budget(self.epsilon_x, self.sampled)
        if self.epsilon_x is not None:
            check_epsilon(self.epsilon_x, "epsilon_x")
        if self.sampled is not None and (not isinstance(self.sampled, Integral) or self.sampled < 1):
            raise BudgetError(f"sampled is {self.sampled!r}: give a whole number of features, at least 1")

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

    @classmethod
    def of_one_collection(
        cls, *, totals: Sequence[float], epsilon_x: float | None, epsilon_y: float | None, sampled: int
    ) -> PrivacyBudget | None:
        """Return the budget of one collection, or None if totals of a privacy curve are asked for.

        The label is always reported, so features need its epsilon, too. Totals and a budget exclude each other.

        >>> PrivacyBudget.of_one_collection(totals=(), epsilon_x=2.0, epsilon_y=1.0, sampled=10)
        PrivacyBudget(epsilon_x=2.0, epsilon_y=1.0, sampled=10)
        """
        if epsilon_x is None and epsilon_y is None:
            return None
        if totals:
            raise BudgetError("totals draw the curve, epsilon_x and epsilon_y describe one collection: give either")
        if epsilon_y is None:
            raise BudgetError("epsilon_x is given without epsilon_y: the label is reported, too, so give both")
        return cls(epsilon_y=epsilon_y) if epsilon_x is None else cls(epsilon_x, epsilon_y, sampled)


@dataclass(frozen=True, kw_only=True)
class RoundBudget:
    """How often everything is asked, and the budgets of one round's report; the default asks once.

    Args:
        rounds: number of rounds of a series; None asks once.
        values: number of different values of a person that are answered, for each question.
        round_epsilon: budget of the label in a round's report; default: half of that of its permanent answer.
        round_epsilon_x: budget of a feature in a round's report; default: half of that of its permanent answer.

    >>> RoundBudget(round_epsilon=1.0)
    Traceback (most recent call last):
    veilgraph.errors.BudgetError: a budget of each round needs a number of rounds: give rounds
    """

    rounds: int | None = None
    values: int = 2
    round_epsilon: float | None = None
    round_epsilon_x: float | None = None

    def __post_init__(self) -> None:
        if self.rounds is None and (self.round_epsilon is not None or self.round_epsilon_x is not None):
            raise BudgetError("a budget of each round needs a number of rounds: give rounds")

    @property
    def asks_once(self) -> bool:
        """Whether everything is asked once, and not in rounds."""
        return self.rounds is None

    def of_label(self, epsilon_y: float) -> float:
        """Return the budget of the label in a round's report.

        >>> RoundBudget(rounds=4).of_label(2.0), RoundBudget(rounds=4, round_epsilon=0.5).of_label(2.0)
        (1.0, 0.5)
        """
        return epsilon_y / 2 if self.round_epsilon is None else self.round_epsilon

    def of_feature(self, epsilon_x: float) -> float:
        """Return the budget of a feature in a round's report."""
        return epsilon_x / 2 if self.round_epsilon_x is None else self.round_epsilon_x


ONCE = RoundBudget()
"""Everything is asked once."""
