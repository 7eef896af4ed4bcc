"""Coupled randomness: mechanisms that differ in epsilon alone read the same random words.

A simulation that compares budgets draws the words once. Differences between the results then come from the budgets
and not from chance, and one draw serves all budgets.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

from numpy.typing import NDArray

from veilgraph.errors import BudgetError
from veilgraph.privacy.mechanisms import GRRFS, Mechanism, MultiBit, RandomIntegers


def coupling_key(mechanism: Mechanism) -> Hashable:
    """Return a key that is equal for mechanisms that can be coupled. Without privacy there is nothing to couple.

    >>> coupling_key(GRRFS((2, 2), sampled=1, epsilon=1.0)) == coupling_key(GRRFS((2, 2), sampled=1, epsilon=0.1))
    True
    """
    if isinstance(mechanism, GRRFS) and math.isfinite(mechanism.epsilon):
        return GRRFS, mechanism.domain_sizes, mechanism.sampled
    if isinstance(mechanism, MultiBit) and math.isfinite(mechanism.epsilon):
        return MultiBit, mechanism.lower, mechanism.upper, mechanism.sampled
    return mechanism


def randomize_coupled(
    mechanisms: Sequence[Mechanism], values: NDArray[Any], *, rng: RandomIntegers
) -> list[NDArray[Any]]:
    """Return the reports of each mechanism, [nodes, columns] each, from random words that are drawn once.

    Each mechanism gives the same reports as its `randomize` with a generator of the same state. Only one of these
    reports may ever leave a person's device: several together reveal more than each epsilon says.
    """
    if len({coupling_key(each) for each in mechanisms}) != 1:
        raise BudgetError("coupled mechanisms must differ in nothing but a finite epsilon")
    first, *others = mechanisms
    if isinstance(first, GRRFS | MultiBit):
        return first.randomize_coupled(others, values, rng=rng)
    return [first.randomize(values, rng=rng)]
