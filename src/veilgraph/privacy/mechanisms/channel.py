"""The probability of each report given each value, for one feature or the label."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property


@dataclass(frozen=True, kw_only=True)
class SymmetricChannel:
    r"""A value is reported as itself with probability `keep`, as each other value with probability `other`.

    GRR has keep = p and other = q. GRR-FS, seen one feature at a time, is the same channel diluted by uniform
    padding. Estimators need nothing else of a mechanism.

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
        """keep - other: how much of a change in true frequency is visible in reports."""
        return self.keep - self.other

    @property
    def matrix(self) -> tuple[tuple[Fraction, ...], ...]:
        """Row v, column r: probability of report r given value v."""
        values = range(self.domain_size)
        return tuple(tuple(self.keep if v == r else self.other for r in values) for v in values)

    def diluted(self, rate: Fraction) -> SymmetricChannel:
        """The channel applied with probability `rate`, a uniform value reported otherwise."""
        padding = (1 - rate) / self.domain_size
        return SymmetricChannel(
            domain_size=self.domain_size,
            keep=rate * self.keep + padding,
            other=rate * self.other + padding,
        )
