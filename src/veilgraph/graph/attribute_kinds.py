"""Kinds of public columns: numbers and dates, categories, and embeddings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import GraphError
from veilgraph.graph.attribute_cells import (
    as_date,
    as_number,
    as_text,
    day_in_words,
    is_empty,
    kind_of_cells,
    row_of_numbers,
)
from veilgraph.privacy.public_columns import PublicColumn

if TYPE_CHECKING:
    import pandas as pd
    from scipy.sparse import csr_array

_BINS = 4
"""Groups of a number with more different values than `_MAX_GROUPS`."""

_MAX_GROUPS = 12
_FEW_VALUES = 64
"""Different values up to which a number also counts as a code: nodes with the same value are alike."""

_CLIPPED = 4.0
"""Standard deviations beyond which a number says no more: one wrong entry must not rule a column."""


class Groups(NamedTuple):
    """Nodes in groups by the value of one public attribute.

    Attributes:
        codes: group of each node [nodes], -1 where the value is missing.
        names: name of each group.
    """

    codes: NDArray[np.int64]
    names: tuple[str, ...]


class PublicAttribute(Protocol):
    """The values of one public column for all nodes."""

    @property
    def name(self) -> str:
        """Name of the column."""

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Nodes without a value, [nodes]."""

    def encoded(self) -> NDArray[np.float32] | csr_array:
        """Return the values as numbers [nodes, columns]; a typical row has a norm of about 1."""

    def groups(self) -> Groups:
        """Return the nodes in groups of the same value, or of similar ones."""

    def select(self, nodes: NDArray[Any]) -> Self:
        """Return the values of some nodes, by their numbers or a mask."""

    def contents(self) -> tuple[NDArray[Any], ...]:
        """Return arrays that determine the values."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Numbers:
    """A number for each node, such as an age or a date.

    Attributes:
        name: name of the column.
        values: the numbers [nodes], NaN where they are missing; a date is a number of days since 1970.
        dates: whether the numbers are dates.

    >>> Numbers(name="age", values=np.array([20.0, 40.0, np.nan])).groups().names
    ('20', '40')
    """

    name: str
    values: NDArray[np.float64]
    dates: bool = False

    def __post_init__(self) -> None:
        if np.isinf(self.values).any():
            raise GraphError(
                f"public column '{self.name}', row {int(np.isinf(self.values).argmax()) + 1}: not a finite number; "
                "correct it or leave the cell empty"
            )
        _refuse_silent(self.name, self.missing, self.values)

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Nodes without a number, [nodes]."""
        return np.isnan(self.values)

    def encoded(self) -> NDArray[np.float32] | csr_array:
        """Return the standardised number, 0 where it is missing, an indicator of missing, and codes of few values."""
        known = self.values[~self.missing]
        scale = float(known.std()) or 1.0
        standardised = np.nan_to_num((self.values - known.mean()) / scale, nan=0.0).clip(-_CLIPPED, _CLIPPED)
        columns = [standardised.astype(np.float32)]
        if self.missing.any():
            columns.append(self.missing.astype(np.float32))
        dense, distinct = np.stack(columns, axis=1), np.unique(known)
        if not 2 < len(distinct) <= _FEW_VALUES:
            return dense
        from scipy.sparse import csr_array, hstack

        codes, nodes = np.searchsorted(distinct, self.values[~self.missing]), np.flatnonzero(~self.missing)
        entries: Any = np.ones(len(nodes), dtype=np.float32), (nodes, codes)
        indicators = csr_array(entries, shape=(len(self.values), len(distinct)))
        blocks: Any = [csr_array(dense), indicators]
        return csr_array(hstack(blocks), dtype=np.float32)

    def groups(self) -> Groups:
        """Return groups of the same number, or quarters of the nodes where many numbers differ."""
        known = self.values[~self.missing]
        distinct = np.unique(known)
        if len(distinct) <= _MAX_GROUPS:
            codes = np.searchsorted(distinct, self.values)
            return Groups(np.where(self.missing, -1, codes), tuple(self._shown(value) for value in distinct))
        cuts = np.unique(np.quantile(known, np.linspace(0, 1, _BINS + 1)[1:-1]))
        codes = np.searchsorted(cuts, self.values, side="right")
        shown = [self._shown(cut) for cut in cuts]
        between = [f"{low} to below {high}" for low, high in pairwise(shown)]
        return Groups(np.where(self.missing, -1, codes), (f"below {shown[0]}", *between, f"{shown[-1]} or more"))

    def _shown(self, value: float) -> str:
        return day_in_words(value) if self.dates else f"{value:.15g}"

    def select(self, nodes: NDArray[Any]) -> Numbers:
        """Return the numbers of some nodes."""
        return replace(self, values=self.values[nodes])

    def contents(self) -> tuple[NDArray[Any], ...]:
        """Return the numbers."""
        return (self.values,)


@dataclass(frozen=True, kw_only=True, eq=False)
class Categories:
    """One of some categories for each node, such as a village; a boolean has two.

    Attributes:
        name: name of the column.
        codes: number of each node's category [nodes], -1 where it is missing.
        values: names of the categories, in the order of their codes.

    >>> Categories.of("village", ["A", "B", None, "A"]).codes.tolist()
    [0, 1, -1, 0]
    """

    name: str
    codes: NDArray[np.int64]
    values: tuple[str, ...]

    def __post_init__(self) -> None:
        _refuse_silent(self.name, self.missing, self.codes)

    @classmethod
    def of(cls, name: str, cells: Sequence[object]) -> Categories:
        """Return the categories of cells; an empty cell is missing."""
        texts = [None if is_empty(cell) else as_text(cell) for cell in cells]
        values = tuple(sorted({text for text in texts if text is not None}))
        code_of = {value: code for code, value in enumerate(values)}
        codes = np.array([-1 if text is None else code_of[text] for text in texts], dtype=np.int64)
        return cls(name=name, codes=codes, values=values)

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Nodes without a category, [nodes]."""
        return self.codes < 0

    def encoded(self) -> csr_array:
        """Return an indicator of each category and of missing, scaled to a variance of 1 in all."""
        from scipy.sparse import csr_array

        nodes, count = len(self.codes), len(self.values)
        codes = np.where(self.missing, count, self.codes)
        shares = np.bincount(codes, minlength=count + 1) / nodes
        scale = 1 / math.sqrt(float((shares * (1 - shares)).sum()))
        entries = np.full(nodes, scale, dtype=np.float32), codes, np.arange(nodes + 1)
        return csr_array(entries, shape=(nodes, count + int(self.missing.any())))

    def groups(self) -> Groups:
        """Return the categories."""
        return Groups(self.codes, self.values)

    def select(self, nodes: NDArray[Any]) -> Categories:
        """Return the categories of some nodes."""
        return replace(self, codes=self.codes[nodes])

    def contents(self) -> tuple[NDArray[Any], ...]:
        """Return the codes and the names."""
        return self.codes, np.array(self.values, dtype=np.str_)


@dataclass(frozen=True, kw_only=True, eq=False)
class Embedding:
    """A row of numbers for each node: an embedding of a text or a picture, or many zeros and ones such as words.

    Attributes:
        name: name of the column.
        rows: the numbers [nodes, columns], dense or sparse; a dense row of NaN is missing.
    """

    name: str
    rows: NDArray[np.float32] | csr_array

    def __post_init__(self) -> None:
        if self.rows.ndim != 2 or not self.rows.shape[1]:
            raise GraphError(
                f"public column '{self.name}' has the shape {self.rows.shape}: give a matrix [nodes, columns]"
            )
        if isinstance(self.rows, np.ndarray):
            partly = np.isnan(self.rows).any(axis=1) & ~self.missing
            if (wrong := partly | np.isinf(self.rows).any(axis=1)).any():
                raise GraphError(
                    f"public column '{self.name}', row {int(wrong.argmax()) + 1}: a number is not finite; correct the "
                    "row, or make all of it NaN where nothing is known"
                )
        elif not np.isfinite(self.rows.data).all():
            raise GraphError(f"public column '{self.name}': a number is not finite; correct it")
        if self.missing.all():
            raise GraphError(f"public column '{self.name}' has no value for anybody: take it out")
        if not self._spread.any():
            raise GraphError(f"public column '{self.name}' is the same for everybody and tells nothing: take it out")

    @classmethod
    def of(cls, name: str, cells: Sequence[object]) -> Embedding:
        """Return the embedding of cells that each hold a list of numbers; an empty cell is missing."""
        rows = [None if is_empty(cell) else row_of_numbers(name, row, cell) for row, cell in enumerate(cells, 1)]
        width = max((len(row) for row in rows if row is not None), default=0)
        for number, row in enumerate(rows, start=1):
            if row is not None and len(row) != width:
                raise GraphError(
                    f"public column '{name}', row {number}: an embedding of {len(row)} numbers, others have {width}; "
                    "compute all with one model"
                )
        if not width:
            raise GraphError(f"public column '{name}' has no value for anybody: take it out")
        return cls(name=name, rows=np.stack([np.full(width, np.nan, np.float32) if r is None else r for r in rows]))

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Nodes without an embedding, [nodes]."""
        if isinstance(self.rows, np.ndarray):
            return np.asarray(np.isnan(self.rows).all(axis=1))
        return np.zeros(self.rows.shape[0], dtype=np.bool_)

    @property
    def _spread(self) -> NDArray[np.bool_]:
        """Columns that differ between nodes, [columns]."""
        if isinstance(self.rows, np.ndarray):
            known = self.rows[~self.missing]
            return np.asarray(known.max(axis=0) > known.min(axis=0))
        low, high = self.rows.min(axis=0).toarray().ravel(), self.rows.max(axis=0).toarray().ravel()
        return np.asarray(high > low)

    def encoded(self) -> NDArray[np.float32] | csr_array:
        """Return rows of norm 1 weighted by tf-idf where all entries are 0 or 1; otherwise standardised columns.

        Standardised columns are scaled to a variance of 1 in all. Beside missing rows there is an indicator of them.
        """
        if not self.missing.any() and self._is_binary():
            return _tf_idf(self.rows)
        rows = self.rows if isinstance(self.rows, np.ndarray) else self.rows.toarray()
        known = rows[~self.missing][:, self._spread]
        standardised = (rows[:, self._spread] - known.mean(axis=0)) / (known.std(axis=0) * math.sqrt(known.shape[1]))
        columns = [np.nan_to_num(standardised, nan=0.0)]
        if self.missing.any():
            columns.append(self.missing[:, None])
        return np.concatenate(columns, axis=1).astype(np.float32)

    def _is_binary(self) -> bool:
        entries = self.rows if isinstance(self.rows, np.ndarray) else self.rows.data
        return bool(((entries == 0) | (entries == 1)).all())

    def groups(self) -> Groups:
        """Refuse: rows of numbers have no groups."""
        raise GraphError(f"public column '{self.name}' is an embedding and has no groups: name another column")

    def select(self, nodes: NDArray[Any]) -> Embedding:
        """Return the rows of some nodes."""
        return replace(self, rows=self.rows[nodes])

    def contents(self) -> tuple[NDArray[Any], ...]:
        """Return the numbers."""
        if isinstance(self.rows, np.ndarray):
            return (self.rows,)
        return np.asarray(self.rows.indptr), np.asarray(self.rows.indices), np.asarray(self.rows.data)


def attribute_of(column: PublicColumn, cells: pd.Series) -> PublicAttribute:
    """Return the attribute of a table's column: of the declared kind, or of the kind that its cells look like."""
    name, values = column.name, cells.to_numpy(dtype=object)
    known = [value for value in values if not is_empty(value)]
    if not known:
        raise GraphError(f"public column '{name}' has no value for anybody: take it out of the public columns")
    return _READERS[column.kind or kind_of_cells(known)](name, values)


def _numbers(name: str, cells: Sequence[object], read: Callable[[object], float | None], what: str) -> NDArray[Any]:
    values = np.full(len(cells), np.nan)
    for row, cell in enumerate(cells):
        if not is_empty(cell):
            if (number := read(cell)) is None:
                raise GraphError(f"public column '{name}', row {row + 1}: not {what}; correct it or declare a category")
            values[row] = number
    return values


_READERS: Mapping[str, Callable[[str, Any], PublicAttribute]] = {
    "number": lambda name, cells: Numbers(name=name, values=_numbers(name, cells, as_number, "a number")),
    "date": lambda name, cells: Numbers(
        name=name, values=_numbers(name, cells, as_date, "a date such as 2026-03-31"), dates=True
    ),
    "category": Categories.of,
    "embedding": Embedding.of,
}


def _refuse_silent(name: str, missing: NDArray[np.bool_], values: NDArray[Any]) -> None:
    """Refuse a column without a value, and one that has the same value for every node."""
    if missing.all():
        raise GraphError(f"public column '{name}' has no value for anybody: take it out of the public columns")
    if not missing.any() and (values == values[0]).all():
        raise GraphError(
            f"public column '{name}' is the same for everybody and tells nothing: take it out of the public columns"
        )


def _tf_idf(rows: Any) -> csr_array:
    r"""Return rows of norm 1 of :math:`x_{vj} \ln(n / n_j)`, with n_j the nodes that have column j.

    A column that everybody has says nothing and becomes 0; so does a row without entries.
    """
    from scipy.sparse import csr_array

    binary = csr_array(rows, dtype=np.float32)
    counts = np.maximum(binary.sum(axis=0), 1)
    weighted = binary.multiply(np.log(binary.shape[0] / counts)[None, :].astype(np.float32)).tocsr()
    norms = np.sqrt(weighted.multiply(weighted).sum(axis=1))
    return csr_array(weighted.multiply((1 / np.maximum(norms, 1e-12))[:, None]), dtype=np.float32)
