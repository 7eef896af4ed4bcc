"""What an audit draws from: our mechanisms, answers about lists, functions, and commands, each with its records."""

from __future__ import annotations

import json
import shlex
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from itertools import combinations
from math import prod
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import BudgetError
from veilgraph.privacy.auditing.columns import array_columns
from veilgraph.privacy.auditing.report_reader import ReportReader
from veilgraph.privacy.epsilon import ListRelation
from veilgraph.privacy.mechanisms import Mechanism, NeighbourMechanism
from veilgraph.privacy.mechanisms.base import Record
from veilgraph.privacy.mechanisms.random_source import RandomIntegers

MOST_RECORDS = 64
"""Domains with at most so many records are audited in all pairs."""
MOST_VALUES_DRAWN = 2048
"""Values of which few reports each are compared with their stated probabilities."""
_DESIGNED = 24
_SPREAD = 20
_CELLS = 4_000_000
"""Entries of reports that are drawn at once."""
_OTHER_CHANNEL = "the command also writes to standard error, which is not compared"

Randomizer = Callable[[Any], object]
"""A function that makes one report of one record."""


@dataclass(frozen=True)
class Drawn:
    """Reports that were drawn.

    Attributes:
        columns: the reports as numbers, [reports, columns].
        blocks: the reports as their mechanisms make them.
        source: source that states their probabilities.
        marks: how the reports are written, as numbers, [reports, marks]; None where this says nothing more.
        notes: what the audit leaves out, in words.
    """

    columns: NDArray[Any]
    blocks: tuple[NDArray[Any], ...] = ()
    source: Any = None
    marks: NDArray[np.int64] | None = None
    notes: tuple[str, ...] = ()

    def take(self, rows: NDArray[np.int64]) -> Drawn:
        """Return some of the reports."""
        return Drawn(self.columns[rows], tuple(block[rows] for block in self.blocks), self.source)

    def log_likelihood(self, number: int) -> NDArray[np.float64]:
        """Return the stated log-probabilities of the reports for a record, [reports]."""
        found: NDArray[np.float64] = self.source.log_likelihood(self.blocks, number)
        return found


@dataclass(frozen=True)
class Source(ABC):
    """A randomizer, the records that it is tried on, and which of them are neighbours.

    Attributes:
        states: whether the probabilities of reports are stated.
        starts_processes: whether each draw runs in a process of its own.
    """

    states: ClassVar[bool] = False
    starts_processes: ClassVar[bool] = False

    @property
    @abstractmethod
    def num_records(self) -> int:
        """Number of records."""

    @property
    def groups(self) -> list[tuple[int, ...]]:
        """Groups of records of which any two are neighbours: by default all records, and all pairs of them."""
        return all_pairs(self.num_records)

    @abstractmethod
    def draw(self, numbers: NDArray[np.int64], *, rng: RandomIntegers) -> Drawn:
        """Draw one report of each of these records, [reports]."""

    @abstractmethod
    def chunk(self) -> int:
        """Return how many reports are drawn at once."""

    def made_again(self) -> Source:
        """Return an equal source without what was drawn or seeded when this one was made; by default the same."""
        return self


def all_pairs(count: int) -> list[tuple[int, ...]]:
    """Return all records as one group, and all pairs of them.

    >>> all_pairs(3)
    [(0, 1, 2), (0, 1), (0, 2), (1, 2)]
    """
    pairs: list[tuple[int, ...]] = list(combinations(range(count), 2))
    return pairs if count == 2 else [tuple(range(count)), *pairs]


@dataclass(frozen=True)
class MechanismSource(Source):
    """A mechanism on some of its records."""

    states: ClassVar[bool] = True

    mechanism: Mechanism
    records: tuple[Record, ...]

    @classmethod
    def of(cls, mechanism: Mechanism, most: int, rng: np.random.Generator) -> MechanismSource:
        """Choose the records: all, or a designed set where there are more than `most`."""
        return cls(mechanism, designed_records(mechanism, most, rng))

    def of_many_values(self, rng: np.random.Generator) -> MechanismSource | None:
        """Return a record for each value of the features with many of them; None, where no feature has many."""
        base = self.records[0]
        found: list[Record] = []
        for i, values in enumerate(self.mechanism.record_values):
            if len(values) > _DESIGNED:
                found += [(*base[:i], value, *base[i + 1 :]) for value in values]
        chosen = sorted(rng.permutation(len(found))[:MOST_VALUES_DRAWN].tolist())
        return replace(self, records=tuple(found[place] for place in chosen)) if found else None

    @property
    def num_records(self) -> int:
        """Number of records."""
        return len(self.records)

    def chunk(self) -> int:
        """Return how many reports are drawn at once."""
        return max(1, _CELLS // self.mechanism.num_features)

    def draw(self, numbers: NDArray[np.int64], *, rng: RandomIntegers) -> Drawn:
        """Draw one report of each of these records, [reports]."""
        isfloat = any(isinstance(value, float) for value in self.records[-1])
        largest = max(max(record) for record in self.records)
        dtype = np.float64 if isfloat else np.int16 if largest < 2**14 else np.int64
        reports = self.mechanism.randomize(np.array(self.records, dtype=dtype)[numbers], rng=rng)
        return Drawn(array_columns(reports), (reports,), self)

    def made_again(self) -> MechanismSource:
        """Return the mechanism made again from its parameters."""
        return replace(self, mechanism=_made_again(self.mechanism))

    def log_likelihood(self, blocks: tuple[NDArray[Any], ...], number: int) -> NDArray[np.float64]:
        """Return the stated log-probabilities of reports for a record, [reports]."""
        return self.mechanism.log_likelihood(blocks[0], self.records[number])


Made = TypeVar("Made")


def _made_again(mechanism: Made) -> Made:
    """Return a mechanism made again from its parameters."""
    return replace(mechanism) if is_dataclass(mechanism) else mechanism  # type: ignore[type-var]


def designed_records(mechanism: Mechanism, most: int, rng: np.random.Generator) -> tuple[Record, ...]:
    """Return all records of a small domain; of a large one, records with values from the whole domain of each feature.

    Of a feature with many values there are some, spread from a random one on; of any other one all, where there are
    records enough. First come the two that differ most, and records that hold one value throughout. Then values follow
    each other. At last the first record has its first or its last value changed.

    >>> from veilgraph.privacy.mechanisms import GRR, GRRFS
    >>> rng = np.random.default_rng(0)
    >>> designed_records(GRR(3, 1.0), 64, rng)
    ((0,), (1,), (2,))
    >>> designed_records(GRRFS((2,) * 7, sampled=1, epsilon=1.0), 64, rng)[2:]
    ((0, 1, 0, 1, 0, 1, 0), (1, 0, 1, 0, 1, 0, 1), (0, 0, 0, 0, 0, 0, 1), (1, 0, 0, 0, 0, 0, 0))
    """
    values = mechanism.record_values
    if prod(map(len, values)) <= most:
        return tuple(mechanism.records())
    values = tuple(_spread(each, rng) if len(each) > _DESIGNED else each for each in values)
    first, second = mechanism.extreme_records()
    longest = range(max(map(len, values)))
    found = [first, second]
    found += [tuple(each[shift % len(each)] for each in values) for shift in longest]
    found += [tuple(each[(shift + i) % len(each)] for i, each in enumerate(values)) for shift in longest]
    changed = [(*first[:-1], second[-1]), (second[0], *first[1:])]
    kept = [record for record in dict.fromkeys(found) if record not in changed][: max(2, min(most, _DESIGNED) - 2)]
    return tuple(dict.fromkeys([*kept, *changed][: max(2, most)]))


def _spread(values: Record, rng: np.random.Generator) -> Record:
    """Return some of many values, at equal distances from a random one on."""
    start = int(rng.integers(0, len(values)))
    return tuple(values[(start + step * len(values) // _SPREAD) % len(values)] for step in range(_SPREAD))


@dataclass(frozen=True)
class ListSource(Source):
    """Answers of all waves about neighbour lists that differ as a relation says, in the first columns or in others."""

    states: ClassVar[bool] = True

    waves: tuple[NeighbourMechanism, ...]
    relation: ListRelation
    shifts: tuple[int, ...]

    @classmethod
    def of(cls, waves: Sequence[NeighbourMechanism], relation: ListRelation, most: int) -> ListSource:
        """Choose pairs of lists: those that differ most, with their columns moved on."""
        columns = min(each.num_columns for each in waves)
        count = max(1, min(columns, most // 2, _DESIGNED // 2))
        return cls(tuple(waves), relation, tuple(step * columns // count for step in range(count)))

    @property
    def num_records(self) -> int:
        """Number of lists."""
        return 2 * len(self.shifts)

    @property
    def groups(self) -> list[tuple[int, ...]]:
        """Pairs of lists; all of them, where any two lists are neighbours."""
        if self.relation is ListRelation.ANY_LISTS:
            return all_pairs(self.num_records)
        return [(first, first + 1) for first in range(0, self.num_records, 2)]

    def chunk(self) -> int:
        """Return how many people's answers are drawn at once."""
        return max(1, _CELLS // sum(each.num_columns for each in self.waves))

    @property
    def _asked(self) -> tuple[NeighbourMechanism, ...]:
        """Mechanism of each answer: a relationship is in the answers of both ends."""
        return self.waves * (2 if self.relation is ListRelation.ONE_RELATIONSHIP else 1)

    def _sums(self, mechanism: NeighbourMechanism, number: int) -> tuple[int, ...]:
        both = self.relation is ListRelation.ONE_RELATIONSHIP
        sums = mechanism.extreme_sums(ListRelation.ONE_ENTRY if both else self.relation)[number % 2]
        shift = self.shifts[number // 2]
        return (*sums[len(sums) - shift :], *sums[: len(sums) - shift])

    def draw(self, numbers: NDArray[np.int64], *, rng: RandomIntegers) -> Drawn:
        """Draw the answers about each of these lists, [people]."""
        blocks = []
        for mechanism in self._asked:
            sums = np.array([self._sums(mechanism, number) for number in range(self.num_records)])
            blocks.append(mechanism.randomize(sums[numbers], rng=rng))
        return Drawn(np.hstack([array_columns(block) for block in blocks]), tuple(blocks), self)

    def made_again(self) -> ListSource:
        """Return the mechanisms made again from their parameters."""
        return replace(self, waves=tuple(map(_made_again, self.waves)))

    def log_likelihood(self, blocks: tuple[NDArray[Any], ...], number: int) -> NDArray[np.float64]:
        """Return the stated log-probabilities of answers for a list, [people]."""
        terms = zip(self._asked, blocks, strict=True)
        return np.asarray(sum(each.log_likelihood(block, self._sums(each, number)) for each, block in terms))


@dataclass(frozen=True)
class _ForeignSource(Source):
    """A randomizer of anybody's making, which has randomness of its own; it is imported or started again as it is."""

    records: tuple[Any, ...]
    reader: ReportReader = field(default_factory=ReportReader, compare=False, kw_only=True)

    @property
    def num_records(self) -> int:
        """Number of records."""
        return len(self.records)


@dataclass(frozen=True)
class FunctionSource(_ForeignSource):
    """A function that makes one report of one record."""

    randomizer: Randomizer

    def chunk(self) -> int:
        """Return how many reports are drawn at once."""
        return 20_000

    def draw(self, numbers: NDArray[np.int64], *, rng: RandomIntegers) -> Drawn:
        """Draw one report of each of these records, [reports]; the function has randomness of its own."""
        parts, marks = self.reader.read([self.randomizer(self.records[number]) for number in numbers.tolist()])
        return Drawn(parts, marks=marks)


@dataclass(frozen=True)
class CommandSource(_ForeignSource):
    """A command that reads records as lines and writes a report of each as a line: JSON, or any text."""

    starts_processes: ClassVar[bool] = True

    command: str

    def chunk(self) -> int:
        """Return how many reports are drawn at once: each run of the command is a process."""
        return 500_000

    def draw(self, numbers: NDArray[np.int64], *, rng: RandomIntegers) -> Drawn:
        """Run the command on these records, [reports]."""
        lines = "".join(f"{self.records[number]}\n" for number in numbers.tolist())
        try:
            words = shlex.split(self.command)
        except ValueError as error:
            raise BudgetError("the command cannot be read: a quotation mark is not closed") from error
        if not words:
            raise BudgetError("the command is empty: give a program with its arguments")
        try:
            run = subprocess.run(words, input=lines.encode(), capture_output=True, check=False)  # noqa: S603 - the user's
        except (OSError, ValueError) as error:  # a null character is a ValueError
            raise BudgetError(f"the command cannot be run: {getattr(error, 'strerror', None) or error}") from error
        if run.returncode != 0:
            raise BudgetError(f"the command ended with exit code {run.returncode}: run it alone to see why")
        try:
            reports = run.stdout.decode().removesuffix("\n").split("\n")
        except UnicodeDecodeError as error:
            raise BudgetError("the command wrote bytes that are not UTF-8: let it write text, or base64") from error
        if len(reports) != len(numbers):
            raise BudgetError(
                f"the command wrote {len(reports)} lines for {len(numbers)} records: it must write a report of each"
            )
        known = {line: _read(line) for line in set(reports)}
        parts, marks = self.reader.read([known[line] for line in reports], reports)
        return Drawn(parts, marks=marks, notes=(_OTHER_CHANNEL,) if run.stderr else ())


def _read(line: str) -> object:
    """Return the JSON value of a line, or the line itself."""
    try:
        return json.loads(line)
    except ValueError:
        return line
    except RecursionError as error:
        raise BudgetError("a report is nested too deeply to be read") from error


def chunks_of(numbers: NDArray[np.int64], size: int) -> Iterator[NDArray[np.int64]]:
    """Yield consecutive parts of at most `size` record numbers."""
    yield from (numbers[start : start + size] for start in range(0, len(numbers), size))
