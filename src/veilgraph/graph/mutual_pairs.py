"""The graph of randomized neighbour lists: pairs of people who name each other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_ROWS = 512
"""Lists that are read at once."""


def mutual_pairs(lists: NDArray[np.uint8], people: int) -> NDArray[np.int64]:
    """Return the pairs who name each other, [2, pairs], the smaller number first; naming oneself is no pair.

    Args:
        lists: answers of all people, [people, bytes]; zero for a person without an answer.
        people: number of people.

    >>> mutual_pairs(np.array([[0b110], [0b001], [0b010]], dtype=np.uint8), 3).tolist()  # 0 names 1 and 2, 1 names 0
    [[0], [1]]
    """
    found = []
    for start in range(0, people, _ROWS):
        rows = np.unpackbits(lists[start : start + _ROWS], axis=1, count=people, bitorder="little")
        sources, targets = np.nonzero(rows)
        sources += start
        ahead = targets > sources
        sources, targets = sources[ahead], targets[ahead]
        back = lists[targets, sources >> 3] >> (sources & 7).astype(np.uint8) & 1
        found.append(np.stack([sources, targets])[:, back.astype(np.bool_)])
    return np.concatenate(found, axis=1).astype(np.int64)
