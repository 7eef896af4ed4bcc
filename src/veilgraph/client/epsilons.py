"""Sums and texts of epsilons, which are never below the exact values."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction
from typing import NamedTuple

# Tolerance of stated epsilons, relative above 1: they are doubles as text, which agree far better with the exact ones.
_TOLERANCE = Decimal("1e-9")


class ListCost(NamedTuple):
    """Epsilons of an answer about a neighbour list."""

    any_lists: Decimal
    """For two lists of any length; infinite if whole lists are not protected."""
    one_entry: Decimal
    """For two lists, one with a neighbour more. A relationship that both ends report costs twice as much."""


def log_odds(odds: Fraction) -> Decimal:
    """Return ln of a likelihood ratio."""
    return (Decimal(odds.numerator) / odds.denominator).ln()


def total_epsilon(epsilons: Iterable[Decimal]) -> Decimal:
    """Return the sum of epsilons, rounded up, whatever the digits of the caller's decimal context."""
    with localcontext(prec=60, rounding=ROUND_CEILING):
        return sum(epsilons, Decimal(0))


def shown(epsilon: Decimal) -> str:
    """Write four decimals, rounded up: a person is never told less than a report costs."""
    return f"{epsilon.quantize(Decimal('0.0001'), ROUND_CEILING):f}"


def slack(epsilon: Decimal) -> Decimal:
    """Return how far a stated epsilon may be from the exact one."""
    return _TOLERANCE * max(Decimal(1), epsilon)


def rounded_up(epsilon: Decimal) -> str:
    """Write 18 decimals, rounded up."""
    with localcontext(prec=60):
        finite = epsilon.is_finite()
        return f"{epsilon.quantize(Decimal('1e-18'), rounding=ROUND_CEILING):f}" if finite else "Infinity"
