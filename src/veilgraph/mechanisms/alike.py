"""Mechanisms that differ in their budget alone: a simulation compares them with the same luck."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

from numpy.typing import NDArray

from veilgraph.errors import BudgetError
from veilgraph.mechanisms.grr_fs import GRRFS
from veilgraph.mechanisms.mechanism import Mechanism
from veilgraph.mechanisms.multi_bit import MultiBit
from veilgraph.mechanisms.randomness import RandomIntegers


def family_of(mechanism: Mechanism) -> Hashable:
    """The same for mechanisms that can share their luck: without privacy there is none to share.

    >>> family_of(GRRFS((2, 2), sampled=1, epsilon=1.0)) == family_of(GRRFS((2, 2), sampled=1, epsilon=0.1))
    True
    """
    if isinstance(mechanism, GRRFS) and math.isfinite(mechanism.epsilon):
        return GRRFS, mechanism.domain_sizes, mechanism.sampled
    if isinstance(mechanism, MultiBit) and math.isfinite(mechanism.epsilon):
        return MultiBit, mechanism.lower, mechanism.upper, mechanism.sampled
    return mechanism


def randomize_alike(
    mechanisms: Sequence[Mechanism], values: NDArray[Any], *, rng: RandomIntegers
) -> list[NDArray[Any]]:
    """The reports of mechanisms of one family, from words that are drawn once.

    Each has the reports that its `randomize` gives with such a generator for itself. Of one person only one of them may
    ever leave a device.
    """
    if len({family_of(each) for each in mechanisms}) != 1:
        raise BudgetError("mechanisms that share their luck must differ in nothing but a finite epsilon")
    first, *others = mechanisms
    if isinstance(first, GRRFS | MultiBit):
        return first.randomize_with(others, values, rng=rng)
    return [first.randomize(values, rng=rng)]
