"""Reports of any kind as a table of numbers, and the table as small codes that a score can be learned from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_VALUES = 256
"""Values of a column that each have a code; a column with more is cut into as many ranges."""
_MOST_COLUMNS = 256


def array_columns(reports: NDArray[Any]) -> NDArray[Any]:
    """Return an array of reports as columns, [reports, columns]; unsigned words are bit masks, a column for each bit.

    >>> array_columns(np.array([3, 0], dtype=np.uint8))[:, :3].tolist()
    [[1, 1, 0], [0, 0, 0]]
    """
    table = reports.reshape(len(reports), -1)
    if not np.issubdtype(table.dtype, np.unsignedinteger):
        return table
    octets = np.ascontiguousarray(table, dtype=table.dtype.newbyteorder("<")).view(np.uint8)
    return np.unpackbits(octets, axis=1, bitorder="little").astype(np.int8)


def with_precision(columns: NDArray[Any]) -> NDArray[Any]:
    """Add to columns of floats the place of their last bit: sums of floats reveal by it what they were added to.

    >>> with_precision(np.array([[0.75]])).tolist()
    [[0.75, -2.0]]
    """
    if not np.issubdtype(columns.dtype, np.floating):
        return columns
    mantissas, exponents = np.frexp(np.where(np.isfinite(columns), columns, 0.0))
    words = np.rint(np.ldexp(mantissas, 53)).astype(np.int64)
    zeros = np.log2(np.maximum(words & -words, 1))
    lowest = np.where(words == 0, 64.0, exponents - 53 + zeros)
    return np.hstack([columns, np.clip(lowest, -120, 64)])


@dataclass(frozen=True)
class Encoder:
    """Codes of the columns of reports, learned from some of them.

    Attributes:
        kept: numbers of the columns that are read, where there are many: those that differ most between records.
        values: of each kept column its sorted values.
        ranged: whether the values of a column are lower ends of ranges.
    """

    kept: NDArray[np.int64]
    values: tuple[NDArray[Any], ...]
    ranged: tuple[bool, ...]

    @property
    def sizes(self) -> list[int]:
        """Number of codes of each kept column, without the code of new values."""
        return [len(values) for values in self.values]

    @classmethod
    def fit(cls, columns: NDArray[Any], numbers: NDArray[np.int64]) -> Encoder:
        """Learn codes from columns [reports, columns] and the record numbers of the reports, [reports]."""
        kept = _most_different(columns, numbers)
        values, ranged = [], []
        for column in columns[:, kept].T:
            distinct = np.unique(column)
            ranged.append(len(distinct) > MOST_VALUES)
            if ranged[-1]:
                distinct = np.unique(np.sort(column)[np.linspace(0, len(column), MOST_VALUES // 4 + 1, dtype=int)[:-1]])
            values.append(distinct)
        return cls(kept, tuple(values), tuple(ranged))

    def codes(self, columns: NDArray[Any]) -> NDArray[np.int16]:
        """Return the codes of reports, [reports, kept columns]; a new value has one more than the last code."""
        found = np.empty((len(columns), len(self.kept)), dtype=np.int16)
        for place, (number, values, ranged) in enumerate(zip(self.kept, self.values, self.ranged, strict=True)):
            column = columns[:, number]
            if ranged:
                found[:, place] = np.maximum(np.searchsorted(values, column, side="right") - 1, 0)
                continue
            codes = np.minimum(np.searchsorted(values, column), len(values) - 1)
            found[:, place] = np.where(values[codes] == column, codes, len(values))
        return found


def _most_different(columns: NDArray[Any], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers of the columns whose means differ most between records; all, where there are few."""
    if columns.shape[1] <= _MOST_COLUMNS:
        return np.arange(columns.shape[1])
    means = np.array([columns[numbers == number].mean(axis=0) for number in np.unique(numbers)])
    spread = means.var(axis=0) / np.maximum(columns.astype(np.float64).var(axis=0), 1e-12)
    return np.sort(np.argsort(-spread, kind="stable")[:_MOST_COLUMNS])


def row_keys(codes: NDArray[Any]) -> NDArray[np.int64]:
    """Return one number for each row of integers, [rows]; two rows that differ share it by chance, once in 2**64."""
    if codes.shape[1] == 1:
        return codes[:, 0].astype(np.int64)
    factors = np.asarray(np.random.default_rng(7).integers(1, 2**62, size=codes.shape[1])) * 2 + 1
    wide = codes.view(np.int64) if codes.dtype == np.float64 else codes.astype(np.int64)
    mixed: NDArray[np.int64] = (wide + 0x9E37) * factors
    mixed ^= mixed >> 29
    return np.asarray((mixed * factors[::-1]).sum(axis=1))
