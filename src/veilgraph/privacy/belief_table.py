"""The table that is published between waves: what is believed about each person, in 16 bits.

It is computed from reports alone, so publishing it reveals no more than they do: who reported, and the randomized
report. It is published whole: a device that looks its neighbours up asks nobody, and nobody learns whom it looked up.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import DomainError

UNKNOWN = 0
"""Code of a person about whom nothing is known; a neighbour like this adds nothing. It marks who sent nothing."""

_CODES = 2**16
_FINEST = 60
_MAGIC = b"veilgraph-beliefs-1\n"


@lru_cache(maxsize=64)
def finest_scale(num_classes: int) -> int:
    r"""Return the most units s of a belief, at most 60, so that every belief has a code of 16 bits.

    Code 0 is left for "unknown". The other codes number all ways to give s units to k classes:

    .. math:: \binom{s + k - 1}{k - 1} < 2^{16}

    >>> [finest_scale(classes) for classes in (2, 4, 7, 10, 18)]
    [60, 60, 15, 9, 5]
    """
    if not 2 <= num_classes < _CODES:
        raise DomainError(f"there are {num_classes} classes: a table of beliefs is for 2 to {_CODES - 1}")
    fitting = (s for s in range(_FINEST, 0, -1) if math.comb(s + num_classes - 1, num_classes - 1) < _CODES)
    return next(fitting)


def quantise(beliefs: NDArray[Any], scale: int) -> NDArray[np.int64]:
    """Round class probabilities to `scale` units, by largest remainder: each row sums to `scale`, [people, classes].

    >>> quantise(np.array([[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]]), 4).tolist()
    [[2, 1, 1], [4, 0, 0]]
    """
    exact = np.asarray(beliefs, dtype=np.float64) * scale
    units = np.floor(exact + 1e-9)  # a probability that is a multiple of 1 / scale keeps its units
    order = np.argsort(units - exact, axis=1, kind="stable").argsort(axis=1)
    missing = scale - units.sum(axis=1, keepdims=True)
    return np.asarray(units + (order < missing), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class BeliefTable:
    """What is believed about the class of every person, as published between waves.

    Attributes:
        num_classes: k, the declared number of classes.
        codes: uint16 [people]: 0 for "unknown", otherwise 1 plus the number of the belief in lexicographic order.

    >>> table = BeliefTable.of(np.array([[0.9, 0.1], [0.0, 1.0], [0.5, 0.5]]), known=np.array([True, True, False]))
    >>> table.units().tolist()
    [[54, 6], [0, 60], [0, 0]]
    >>> table.sums([[0, 1], []]).tolist()
    [[54, 66], [0, 0]]
    >>> len(table.to_bytes()) < 100, BeliefTable.from_bytes(table.to_bytes()).sha256 == table.sha256
    (True, True)
    """

    num_classes: int
    codes: NDArray[np.uint16] = field(repr=False)

    def __post_init__(self) -> None:
        if self.codes.ndim != 1 or self.codes.dtype != np.uint16:
            raise DomainError(f"codes of beliefs are {self.codes.dtype} {self.codes.shape}: expected uint16, [people]")
        possible = math.comb(self.scale + self.num_classes - 1, self.num_classes - 1)
        if len(self.codes) and int(self.codes.max()) > possible:
            raise DomainError(
                f"a table of beliefs has the code {int(self.codes.max())}: {self.num_classes} classes have "
                f"{possible}; get the table again"
            )

    @classmethod
    def of(cls, beliefs: NDArray[Any], *, known: NDArray[np.bool_] | None = None) -> BeliefTable:
        """Make the table of class probabilities [people, classes]; rows that are not known become "unknown"."""
        num_classes = beliefs.shape[1]
        scale = finest_scale(num_classes)
        codes = 1 + _number_of(quantise(beliefs, scale), scale)
        return cls(num_classes, np.where(True if known is None else known, codes, UNKNOWN).astype(np.uint16))

    @property
    def scale(self) -> int:
        """Units of a belief, s."""
        return finest_scale(self.num_classes)

    def __len__(self) -> int:
        return len(self.codes)

    def units(self, people: NDArray[Any] | None = None) -> NDArray[np.int64]:
        """Return the beliefs of some people, or of all, in units: each row sums to `scale`, or to 0 if unknown."""
        codes = (self.codes if people is None else self.codes[people]).astype(np.int64)
        beliefs = _belief_of(np.maximum(codes - 1, 0), self.num_classes, self.scale)
        beliefs[codes == UNKNOWN] = 0
        return beliefs

    def sums(self, lists: Sequence[Iterable[int]]) -> NDArray[np.int64]:
        """Return the sum of beliefs over each list of neighbours, [lists, classes], in units.

        A person who is named twice in a list counts once. An empty list adds up to 0. Friendship may be one-sided: a
        list counts as it is, also where a neighbour does not list its owner.
        """
        return np.array([self._sum(set(each)) for each in lists], dtype=np.int64).reshape(-1, self.num_classes)

    def _sum(self, people: set[int]) -> NDArray[np.int64]:
        if any(not 0 <= each < len(self) for each in people):
            raise DomainError(
                f"a neighbour is not in the table of {len(self):,} people (number withheld): "
                "get the table of this wave, or correct the list"
            )
        return np.asarray(self.units(np.fromiter(people, dtype=np.int64)).sum(axis=0))

    def sums_over(self, sources: NDArray[Any], targets: NDArray[Any]) -> NDArray[np.int64]:
        """Return the sums of all people at once, [people, classes]; for simulations, which know every list.

        Args:
            sources: neighbour of each directed edge, [edges].
            targets: owner of the list that the edge stands in, [edges].
        """
        units = self.units()
        columns = [np.bincount(targets, weights=units[sources, c], minlength=len(self)) for c in range(units.shape[1])]
        return np.rint(np.stack(columns, axis=1)).astype(np.int64)

    def to_bytes(self) -> bytes:
        """Return the file that is published: two lines of text, then two bytes for each person."""
        return _head(len(self), self.num_classes) + self.codes.astype("<u2").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> BeliefTable:
        """Read a published table; refuse one that is damaged or cut.

        >>> BeliefTable.from_bytes(b"something else")
        Traceback (most recent call last):
        veilgraph.errors.DomainError: this is no table of beliefs: get it again
        """
        header, _, body = data.removeprefix(_MAGIC).partition(b"\n")
        try:
            stated = json.loads(header if data.startswith(_MAGIC) else b"{}")
            num_classes, people = int(stated["num_classes"]), int(stated["people"])
        except (ValueError, TypeError, KeyError):
            raise DomainError("this is no table of beliefs: get it again") from None
        if len(body) != 2 * people:
            raise DomainError(f"a table of {people:,} people has {2 * people:,} bytes, not {len(body):,}: get it again")
        return cls(num_classes, np.frombuffer(body, dtype="<u2").astype(np.uint16))

    @property
    def sha256(self) -> str:
        """Hash of the published file; a device checks it before it looks anybody up."""
        return hashlib.sha256(self.to_bytes()).hexdigest()


def file_size(people: int, num_classes: int) -> int:
    """Return the bytes of the published table about some people.

    >>> file_size(10_000_000, 4)
    20000059
    """
    return len(_head(people, num_classes)) + 2 * people


def _head(people: int, num_classes: int) -> bytes:
    return _MAGIC + json.dumps({"num_classes": num_classes, "people": people}, sort_keys=True).encode() + b"\n"


@lru_cache(maxsize=64)
def _smaller(num_classes: int, scale: int) -> NDArray[np.int64]:
    """Return how many beliefs are smaller at a position, [classes, left, units].

    `left` units remain for this class and those after it. A belief is smaller if it has fewer units here.
    """
    table = np.full((num_classes, scale + 1, scale + 2), _CODES, dtype=np.int64)
    for position in range(num_classes - 1):
        after = num_classes - position - 1
        for left in range(scale + 1):
            ways = [math.comb(left - units + after - 1, after - 1) for units in range(left + 1)]
            table[position, left, : left + 2] = np.concatenate([[0], np.cumsum(ways)])
    return table


def _number_of(units: NDArray[np.int64], scale: int) -> NDArray[np.int64]:
    """Return the number of each belief in lexicographic order, [people]."""
    count = units.shape[1]
    smaller, left, number = _smaller(count, scale), np.full(len(units), scale), np.zeros(len(units), dtype=np.int64)
    for position in range(count - 1):
        number += smaller[position, left, units[:, position]]
        left = left - units[:, position]
    return number


def _belief_of(numbers: NDArray[np.int64], num_classes: int, scale: int) -> NDArray[np.int64]:
    """Return the beliefs with these numbers, in units, [people, classes]."""
    smaller, left = _smaller(num_classes, scale), np.full(len(numbers), scale)
    number, units = numbers.copy(), np.zeros((len(numbers), num_classes), dtype=np.int64)
    for position in range(num_classes - 1):
        steps = smaller[position, left]
        units[:, position] = (steps <= number[:, None]).sum(axis=1) - 1
        number -= steps[np.arange(len(number)), units[:, position]]
        left = left - units[:, position]
    units[:, -1] = left
    return units
