"""Sources of randomness: uniform integers only.

No floating-point number decides a report. Every decision compares a *word*, a uniform integer below 2**53, with an
integer threshold. 2**53 is also the largest bound that is exact in JavaScript's numbers, so clients in other languages
use the same tables. Simulations pass a seeded `numpy.random.Generator`, devices pass `OSRandom`. Both are unbiased.
"""

from __future__ import annotations

import os
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

WORD_BITS = 53
WORDS = 2**WORD_BITS


class RandomIntegers(Protocol):
    """A source of uniform integers, such as `numpy.random.Generator`."""

    def integers(self, low: int, high: int, size: int) -> NDArray[np.int64]:
        """Draw `size` independent integers, uniform on low, ..., high - 1."""


class OSRandom:
    """The operating system's random source, for devices and for all real reports.

    >>> bool((OSRandom().integers(0, 6, size=1000) < 6).all())
    True
    """

    def integers(self, low: int, high: int, size: int) -> NDArray[np.int64]:
        """Draw `size` independent integers, uniform on low, ..., high - 1, by rejection (no modulo bias)."""
        span = high - low
        if not 0 < span <= WORDS:
            raise ValueError(f"cannot draw from {span} values: the span must be 1 to 2**{WORD_BITS}")
        limit = WORDS - WORDS % span
        accepted = self._words(size)
        while (rejected := accepted >= limit).any():
            accepted[rejected] = self._words(int(rejected.sum()))
        return low + accepted % span

    @staticmethod
    def _words(size: int) -> NDArray[np.int64]:
        raw = np.frombuffer(os.urandom(8 * size), dtype=np.uint64)
        return (raw >> np.uint64(64 - WORD_BITS)).astype(np.int64)
