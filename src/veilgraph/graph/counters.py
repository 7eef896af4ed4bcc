"""Random words from counters: a draw depends on a seed and on its place, not on the draws before it.

So processes that hold different nodes draw what one process would draw for these nodes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def mix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix the bits of 64-bit words: SplitMix64 (Steele, Lea and Flood 2014), a bijection.

    >>> mix(np.array([0], dtype=np.uint64)).tolist()
    [16294208416658607535]
    """
    mixed = words + np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def unmix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the words that `mix` maps to the given ones.

    >>> unmix(mix(np.arange(3, dtype=np.uint64))).tolist()
    [0, 1, 2]
    """
    found: NDArray[np.uint64] = words ^ (words >> np.uint64(31)) ^ (words >> np.uint64(62))
    found *= np.uint64(0x319642B2D24D8EC3)  # inverse of 0x94D049BB133111EB modulo 2^64
    found ^= (found >> np.uint64(27)) ^ (found >> np.uint64(54))
    found *= np.uint64(0x96DE1B173F119089)  # inverse of 0xBF58476D1CE4E5B9
    found ^= (found >> np.uint64(30)) ^ (found >> np.uint64(60))
    found -= np.uint64(0x9E3779B97F4A7C15)
    return found


def counter_words(numbers: NDArray[np.int64], *, seed: int, stream: int) -> NDArray[np.uint64]:
    """Return a random 64-bit word for each number, `[numbers]`.

    A stream's key is drawn by numpy's SeedSequence; the words are a hash of key and number (two rounds of SplitMix64).

    Args:
        numbers: counters, for example numbers of nodes.
        seed: seed of the draws.
        stream: number of the stream: different purposes draw from different streams.

    >>> counter_words(np.arange(2), seed=0, stream=1).tolist() == counter_words(np.arange(2), seed=1, stream=1).tolist()
    False
    """
    key = np.random.SeedSequence([seed, stream]).generate_state(2, np.uint64)
    return mix(mix(numbers.astype(np.int64).view(np.uint64) ^ key[0]) ^ key[1])
