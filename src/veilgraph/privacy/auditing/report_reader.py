"""Reports of an unknown randomizer as columns of integers: their parts, and marks of how they are written."""

from __future__ import annotations

import hashlib
import math
import re
import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import BudgetError
from veilgraph.privacy.auditing.columns import MOST_VALUES, with_precision

_MOST_PARTS = 256
_MOST_WORDS = 16
_DEEPEST = 50
_MISSING = np.iinfo(np.int64).min + 1
_LOW_BITS = (1, 3, 255)

Path = tuple[object, ...]
Parts = dict[Path, object]
"""Parts of a report by their places in it: a number, or any other value that is compared as a whole."""


class ReportReader:
    """Reads reports of an unknown randomizer as columns; the first reports decide which columns there are.

    Each entry of a list and each key of a mapping is a column, and of floats the place of the last bit is one more.
    Marks are columns that tell how a report is written: types, lengths, words of texts, order of keys, low bits.

    >>> reader = ReportReader()
    >>> reader.read([{"a": 1, "b": [0, 1]}, {"a": 2, "b": [1, 1]}])[0].tolist()
    [[1, 0, 1], [2, 1, 1]]
    """

    def __init__(self) -> None:
        self._places: list[Path] | None = None
        self._floats: list[Path] = []
        self._marks: list[Path] = []
        self._wide: list[Path] = []

    def read(
        self, reports: Sequence[object], lines: Sequence[str] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return parts and marks of reports, [reports, columns] each; `lines` are the reports as they were written."""
        parts: list[Parts] = [{} for _ in reports]
        marks: list[Parts] = [{} for _ in reports]
        for report, part, mark in zip(reports, parts, marks, strict=True):
            _take_apart(report, (), part, mark)
        for line, mark in zip(lines or (), marks, strict=False):
            _take_words(line, ("line",), mark)
        if self._places is None:
            self._learn(parts, marks)
        assert self._places is not None  # noqa: S101 - learned above
        known, floats = set(self._places), set(self._floats)
        table = [[_as_integer(part.get(place), place in floats) for part in parts] for place in self._places]
        if len(known) == _MOST_PARTS:
            rest = [[(place, part[place]) for place in part if place not in known] for part in parts]
            table.append([_hash(each) for each in rest])
        table += [_precision([part.get(place) for part in parts]) for place in self._floats]
        written = [[_as_integer(mark.get(place), False) for mark in marks] for place in self._marks]
        for place in self._wide:
            entries = [part.get(place, mark.get(place)) for part, mark in zip(parts, marks, strict=True)]
            written += [[_low_bits(entry, mask) for entry in entries] for mask in _LOW_BITS]
        shape = (-1, len(reports))
        return np.array(table, dtype=np.int64).reshape(shape).T, np.array(written, dtype=np.int64).reshape(shape).T

    def _learn(self, parts: Sequence[Parts], marks: Sequence[Parts]) -> None:
        """Choose the places that are read: those that most reports have."""
        self._places, written = _commonest(parts), _commonest(marks)
        self._floats = [place for place in self._places if any(isinstance(part.get(place), float) for part in parts)]
        self._marks = [place for place in written if len({repr(mark.get(place)) for mark in marks}) > 1]
        for places, rows in ((self._places, parts), (self._marks, marks)):
            for place in places:
                integers = {row.get(place) for row in rows if isinstance(row.get(place), int)}
                if len(integers) > MOST_VALUES:
                    self._wide.append(place)


def _commonest(rows: Iterable[Parts]) -> list[Path]:
    """Return the places that most rows have, in the order in which they occur."""
    counts = Counter(place for row in rows for place in row)
    chosen = {place for place, _ in counts.most_common(_MOST_PARTS)}
    return [place for place in counts if place in chosen]


def _take_apart(report: object, place: Path, parts: Parts, marks: Parts) -> None:
    """Put the parts of a report, and the marks of how it is written, at their places."""
    if len(place) > _DEEPEST:
        raise BudgetError(f"a report is nested too deeply: an audit reads {_DEEPEST} levels")
    if isinstance(report, np.ndarray | np.generic):
        report = report.tolist()
    marks[(*place, "type")] = type(report).__name__
    if isinstance(report, list | tuple):
        marks[(*place, "length")] = len(report)
        for i, entry in enumerate(report):
            _take_apart(entry, (*place, i), parts, marks)
    elif isinstance(report, Mapping):
        marks[(*place, "order")] = tuple(map(repr, report))
        for key in sorted(report, key=repr):
            _take_apart(report[key], (*place, repr(key)), parts, marks)
    elif isinstance(report, set | frozenset):
        parts[place] = tuple(sorted(map(repr, report)))
    else:
        parts[place] = report
        if isinstance(report, float) and report == 0:
            marks[(*place, "type")] = "float", math.copysign(1, report)
        if isinstance(report, str | bytes):
            _take_words(report if isinstance(report, str) else report.decode("latin-1"), place, marks)


def _take_words(text: str, place: Path, marks: Parts) -> None:
    """Put the words of a text, its ends, its length and what stands between the words at their places."""
    marks[(*place, "text")] = text
    marks[(*place, "characters")] = len(text)
    marks[(*place, "ends")] = text[:1]
    marks[(*place, "ends", -1)] = text[-1:]
    marks[(*place, "between")] = re.sub(r"[^\W_]+", "0", text)
    for i, word in enumerate(re.findall(r"[^\W_]+", text)[:_MOST_WORDS]):
        marks[(*place, "word", i)] = int(word) if word.isdecimal() and len(word) < 1000 else word


def _as_integer(entry: object, among_floats: bool) -> int:
    """Return a number that is equal for equal entries of one type, and ordered as numbers are."""
    if entry is None:
        return _MISSING
    if isinstance(entry, float) or (among_floats and isinstance(entry, int) and abs(entry) < 2**1000):
        word = int(struct.unpack("<q", struct.pack("<d", entry))[0])
        return word if word >= 0 else word ^ (2**63 - 1)
    return int(entry) if isinstance(entry, int) and -(2**62) < entry < 2**62 else _hash(entry)


def _low_bits(entry: object, mask: int) -> int:
    return int(entry) & mask if isinstance(entry, int) else _MISSING


def _precision(entries: Sequence[object]) -> list[int]:
    """Return the place of the last bit of each entry, as of 0 where it is no float."""
    floats = np.array([entry if isinstance(entry, float) else 0.0 for entry in entries])[:, None]
    found: Any = with_precision(floats)[:, 1].astype(np.int64).tolist()
    return list(found)


def _hash(value: object) -> int:
    """Return 52 bits that are the same in every process."""
    text = hex(value) if isinstance(value, int) else repr(value)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 12
