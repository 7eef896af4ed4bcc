"""The types and ranges of a method's parameters, and the refusal of a value outside them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin

import numpy as np

from veilgraph.errors import FitError


@dataclass(frozen=True)
class Range:
    """The finite numbers that a parameter may take.

    Args:
        least: smallest number.
        above: whether the number must be larger than `least`.
        below: number that all are below.

    >>> 1.0 in Range(0, below=1), 0.5 in Range(0, below=1), str(Range(0, below=1))
    (False, True, 'of at least 0 and below 1')
    """

    least: float = 0
    above: bool = False
    below: float = math.inf

    def __contains__(self, value: float) -> bool:
        return (value > self.least if self.above else value >= self.least) and value < self.below

    def __str__(self) -> str:
        lowest = f"{'above' if self.above else 'of at least'} {self.least:g}"
        return lowest if math.isinf(self.below) else f"{lowest} and below {self.below:g}"


def check_values(values: Mapping[str, Any], types: Mapping[str, Any], ranges: Mapping[str, Range]) -> None:
    """Raise FitError unless each value has its declared type, and each number is finite and in its range.

    >>> check_values({"epochs": 0}, {"epochs": int}, {"epochs": Range(1)})
    Traceback (most recent call last):
    veilgraph.errors.FitError: epochs is 0: give a whole number of at least 1

    None is a value of a parameter that declares it.

    >>> check_values({"hops": None}, {"hops": int | None}, {"hops": Range(0)})
    """
    for name, value in values.items():
        kind, allowed = types.get(name, Any), ranges.get(name, Range(-math.inf))
        if get_origin(kind) is UnionType and NoneType in get_args(kind):
            kind = Any if value is None else next(each for each in get_args(kind) if each is not NoneType)
        if kind in (int, float):
            if not _is_number(value, kind) or value not in allowed:
                number = "a whole number" if kind is int else "a number"
                limits = f" {allowed}" if name in ranges else ""
                raise FitError(f"{name} is {value!r}: give {number}{limits}")
        elif kind is bool and not isinstance(value, bool | np.bool_):
            raise FitError(f"{name} is {value!r}: give True or False")
        elif get_origin(kind) is Literal and value not in (choices := get_args(kind)):
            raise FitError(f"{name} is {value!r}: choose {' or '.join(choices)}")


def _is_number(value: object, kind: type) -> bool:
    """Tell whether a value is a finite number of a kind, also one of numpy's; True and False are none."""
    number = Integral if kind is int else Real
    return isinstance(value, number) and not isinstance(value, bool) and math.isfinite(float(value))
