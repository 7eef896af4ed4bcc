"""Symmetric channel: probability of each report given each value, for one feature or the label."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property


@dataclass(frozen=True, kw_only=True)
class SymmetricChannel:
    r"""A channel that reports the true value with probability `keep`, each other value with probability `other`.

    GRR has keep = p and other = q. One feature of GRR-FS has the same channel, diluted by uniform padding. A report of
    subset selection names several classes, and the probabilities are those of naming a class. Estimators need nothing
    else of a mechanism.

    Args:
        domain_size: number of values.
        keep: probability of reporting the true value.
        other: probability of reporting each value that is not the true one.

    >>> channel = SymmetricChannel(domain_size=2, keep=Fraction(3, 4), other=Fraction(1, 4))
    >>> channel.gain
    Fraction(1, 2)
    >>> channel.diluted(Fraction(1, 5)).gain
    Fraction(1, 10)
    """

    domain_size: int
    keep: Fraction
    other: Fraction

    @cached_property
    def gain(self) -> Fraction:
        """keep - other: the change in reports per change in true frequency."""
        return self.keep - self.other

    @property
    def row_sum(self) -> Fraction:
        """Sum of the probabilities of one row: 1, or the number of classes that a set names."""
        return self.keep + (self.domain_size - 1) * self.other

    @property
    def matrix(self) -> tuple[tuple[Fraction, ...], ...]:
        """Probability of report r (column) given value v (row)."""
        values = range(self.domain_size)
        return tuple(tuple(self.keep if v == r else self.other for r in values) for v in values)

    def diluted(self, rate: Fraction) -> SymmetricChannel:
        """Return the channel that is applied with probability `rate`, and reports a uniform value otherwise."""
        padding = (1 - rate) / self.domain_size
        return SymmetricChannel(
            domain_size=self.domain_size,
            keep=rate * self.keep + padding,
            other=rate * self.other + padding,
        )
