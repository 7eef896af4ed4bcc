r"""What a report may reveal: the budget that is asked for, and the guarantee that is given.

An epsilon means nothing without the pair of records it speaks about, so every figure here carries its
neighbour relation:

- *user level*: any two records. Whatever a person's features and label are, no report is more than
  ``exp(epsilon)`` times as likely as it would be with any other features and label.
- *attribute level*: two records that differ in one feature, the others being equal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import MAX_EMAX, ROUND_CEILING, Context, Decimal

from veilgraph.errors import BudgetError

NOT_PRIVATE = math.inf


def check_epsilon(epsilon: float, name: str = "epsilon") -> float:
    """Return `epsilon` if it is positive; infinity is allowed and means "not private".

    >>> check_epsilon(0.5)
    0.5
    >>> check_epsilon(0.0, "epsilon_x")
    Traceback (most recent call last):
    veilgraph.errors.BudgetError: epsilon_x is 0.0: it must be a number above 0 (infinity means not private)
    """
    if not epsilon > 0:
        raise BudgetError(f"{name} is {epsilon}: it must be a number above 0 (infinity means not private)")
    return float(epsilon)


def check_sampled(sampled: int, num_features: int) -> int:
    """Return `sampled` if a record of `num_features` features can have so many sampled.

    >>> check_sampled(10, 5)
    Traceback (most recent call last):
    veilgraph.errors.BudgetError: sampled is 10 but there are 5 features: choose 1 to 5
    """
    if not 1 <= sampled <= num_features:
        raise BudgetError(f"sampled is {sampled} but there are {num_features} features: choose 1 to {num_features}")
    return int(sampled)


@dataclass(frozen=True)
class PrivacyBudget:
    """What a collection asks for.

    Args:
        epsilon_x: budget of each sampled feature.
        epsilon_y: budget of the label.
        sampled: m, the number of features that a person samples.

    >>> PrivacyBudget(epsilon_x=1.0, epsilon_y=3.0, sampled=10)
    PrivacyBudget(epsilon_x=1.0, epsilon_y=3.0, sampled=10)
    """

    epsilon_x: float
    epsilon_y: float
    sampled: int

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon_x, "epsilon_x")
        check_epsilon(self.epsilon_y, "epsilon_y")
        if self.sampled != int(self.sampled) or self.sampled < 1:
            raise BudgetError(f"sampled is {self.sampled}: give a whole number of features, at least 1")

    @classmethod
    def not_private(cls, num_features: int) -> PrivacyBudget:
        """No randomization at all: every report is the record. For ceilings in simulations only."""
        return cls(epsilon_x=NOT_PRIVATE, epsilon_y=NOT_PRIVATE, sampled=num_features)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What one mechanism promises, computed from the integers that it compares.

    Attributes:
        user_level: epsilon for any two inputs.
        attribute_level: epsilon for each feature, the others being equal.
    """

    user_level: float
    attribute_level: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """What a whole report reveals at most: features and label together.

    Attributes:
        features: the feature mechanism's claim, or None where no features are collected.
        label: the label mechanism's claim, or None where no label is collected.
        unsound_theorem_1: the figure that the paper's Theorem 1 states for the features. It is *not* a
            guarantee: enumeration refutes it (see docs/explanation/privacy.md). It labels reproduced tables.
    """

    features: Claim | None
    label: Claim | None
    unsound_theorem_1: float | None = None

    @property
    def features_user_level(self) -> float:
        """User-level epsilon of the features; 0 where none are collected."""
        return self.features.user_level if self.features else 0.0

    @property
    def label_user_level(self) -> float:
        """User-level epsilon of the label; 0 where none is collected."""
        return self.label.user_level if self.label else 0.0

    @property
    def total_user_level(self) -> float:
        """User-level epsilon of the whole report: features and label compose by addition."""
        return self.features_user_level + self.label_user_level

    def as_dict(self) -> dict[str, object]:
        """JSON-ready, with the relation in every key."""
        return {
            "user_level": {
                "features": json_epsilon(self.features_user_level),
                "label": json_epsilon(self.label_user_level),
                "total": json_epsilon(self.total_user_level),
            },
            "attribute_level": {
                "features": [json_epsilon(e) for e in self.features.attribute_level] if self.features else [],
                "label": json_epsilon(self.label_user_level),
            },
            "theorem_1": None if self.unsound_theorem_1 is None else json_epsilon(self.unsound_theorem_1),
            "theorem_1_is_a_guarantee": False,
            "relations": {
                "user_level": "any two records",
                "attribute_level": "two records that differ in one feature",
            },
        }

    def in_words(self) -> list[str]:
        """Plain sentences for a person who has to sign it off.

        >>> label_only = Guarantee(features=None, label=Claim(user_level=1.0, attribute_level=(1.0,)))
        >>> print(label_only.in_words()[0])
        User level, any two records: epsilon = 1.0000 in total (features 0.0000, label 1.0000).
        """
        sentences = [
            "User level, any two records: "
            f"epsilon = {show_epsilon(self.total_user_level)} in total "
            f"(features {show_epsilon(self.features_user_level)}, label {show_epsilon(self.label_user_level)})."
        ]
        if math.isinf(self.total_user_level):
            sentences.append("This is not private: a report can give its record away completely.")
        else:
            sentences.append(
                "Whatever a person's record is, no report is more than "
                f"{_show_odds(self.total_user_level)} times as likely as it would be with any other record."
            )
        if self.features:
            low, high = min(self.features.attribute_level), max(self.features.attribute_level)
            ends = dict.fromkeys((show_epsilon(low), show_epsilon(high)))
            span = " to ".join(ends)
            sentences.append(f"Attribute level, two records that differ in one feature: epsilon = {span}.")
        if self.unsound_theorem_1 is not None:
            sentences.append(
                f"The paper's Theorem 1 would say {show_epsilon(self.unsound_theorem_1)} for the features. "
                "That figure is not a guarantee and is not used."
            )
        return sentences


def show_epsilon(epsilon: float) -> str:
    """Four decimals, rounded up, so that a printed guarantee is not below the computed one (to a billionth).

    >>> show_epsilon(0.28111), show_epsilon(math.inf)
    ('0.2812', 'not private')
    """
    if math.isinf(epsilon):
        return "not private"
    # A figure within a billionth of a round one is that round one: 9.999999999 is shown as 10.
    return f"{math.ceil(epsilon * 1e4 - 1e-5) / 1e4:.4f}"


def _show_odds(epsilon: float) -> str:
    """exp(epsilon) to three digits, rounded up for the same reason.

    >>> _show_odds(0.5), _show_odds(10.0), _show_odds(1000.0)
    ('1.65', '22,100', '1.98e+434')
    """
    odds = Decimal(epsilon).exp(Context(prec=28, Emax=MAX_EMAX))
    odds = Context(prec=3, rounding=ROUND_CEILING, Emax=MAX_EMAX).plus(odds)
    return f"{odds:,f}" if odds < 10**6 else f"{odds:.2e}"


def json_epsilon(epsilon: float) -> float | str:
    """JSON has no infinity; "not private" is what it means here."""
    return "not private" if math.isinf(epsilon) else epsilon


def theorem_1_figure(epsilon_x: float, sampled: int, num_features: int) -> float:
    r"""The figure of the paper's Theorem 1, ln(1 + (m/d)(e^(m epsilon_x) - 1)). Not a guarantee.

    The lemma behind it is about sampling *records*; sampling features of one record does not amplify the
    privacy of the record. The exact level is m * epsilon_x.

    >>> round(theorem_1_figure(1.0, sampled=10, num_features=53), 2)
    8.33
    >>> round(theorem_1_figure(0.1, sampled=10, num_features=53), 3)
    0.281
    """
    exponent = sampled * epsilon_x
    rate = sampled / num_features
    # e^exponent overflows a float beyond 709; there the one in the formula no longer counts.
    return exponent + math.log(rate) if exponent > 700 else math.log1p(rate * math.expm1(exponent))
