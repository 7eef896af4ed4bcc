"""Public attributes: what the organiser knows about the nodes of a graph without asking anybody."""

from __future__ import annotations

import datetime
import math
import tokenize
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import GraphError
from veilgraph.graph.graph import Graph
from veilgraph.graph.io import TableSource, ids_of, name_of, read_table
from veilgraph.privacy.notebook_table import html_table, listed
from veilgraph.privacy.public_columns import PublicColumn

if TYPE_CHECKING:
    import pandas as pd
    from scipy.sparse import csr_array

_BINS = 4
"""Groups of a number with more different values than `_MAX_GROUPS`."""

_MAX_GROUPS = 12
_FEW_VALUES = 64
"""Different values up to which a number also counts as a code: nodes with the same value are alike."""

_LONGEST_NAME = 200
"""Bytes of the longest name of a column that a file beside the table can have."""

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
        distinct = np.unique(known)
        if 2 < len(distinct) <= _FEW_VALUES:
            columns += [(self.values == value).astype(np.float32) for value in distinct]
        return np.stack(columns, axis=1)

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
        return _EPOCH.fromordinal(_EPOCH.toordinal() + int(value)).isoformat() if self.dates else f"{value:.15g}"

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
        texts = [None if _is_empty(cell) else _text(cell) for cell in cells]
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
        rows = [None if _is_empty(cell) else _row_of_numbers(name, row, cell) for row, cell in enumerate(cells, 1)]
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


@dataclass(frozen=True, eq=False)
class PublicAttributes:
    """What the organiser knows about the nodes of a graph without asking: columns in the order of the nodes.

    They are never asked, in no report, and no guarantee speaks about them. They cost no epsilon.

    Attributes:
        attributes: the columns, at least one.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"id": ["u1", "u2", "u3"], "age": ["30", "", "50"], "village": ["A", "B", "A"]})
    >>> public = PublicAttributes.from_table(table, ids=["u3", "u1", "u2"])
    >>> public
    PublicAttributes(3 nodes: age, village)
    >>> public["village"].groups()
    Groups(codes=array([0, 0, 1]), names=('A', 'B'))
    """

    attributes: tuple[PublicAttribute, ...]

    def __post_init__(self) -> None:
        if not self.attributes:
            raise GraphError("there are no public columns: name at least one, or leave public attributes out")
        names, lengths = self.names, {len(each.missing) for each in self.attributes}
        if len(set(names)) < len(names):
            raise GraphError(f"two public columns have one name; the names are {', '.join(names)}")
        if len(lengths) > 1:
            raise GraphError(f"public columns have {min(lengths)} and {max(lengths)} rows: give one row for each node")

    @classmethod
    def from_matrix(cls, rows: Any, *, name: str = "x") -> PublicAttributes:
        """Return the attributes of one matrix [nodes, columns]: an array, a sparse matrix of scipy, or a tensor."""
        if hasattr(rows, "tocsr"):
            from scipy.sparse import csr_array

            return cls((Embedding(name=name, rows=csr_array(rows, dtype=np.float32)),))
        if hasattr(rows, "detach"):
            rows = rows.detach().cpu().numpy()
        return cls((Embedding(name=name, rows=np.array(rows, dtype=np.float32)),))

    @classmethod
    def from_codes(cls, codes: NDArray[Any], domain_sizes: Sequence[int], *, name: str = "x") -> PublicAttributes:
        """Return the attributes of codes [nodes, features]: binary ones as they are, an indicator of each other value.

        Args:
            codes: codes of the features, [nodes, features].
            domain_sizes: number of values of each feature.
            name: name of the column.

        >>> PublicAttributes.from_codes(np.array([[0, 2], [1, 0]]), [2, 3])["x"].rows.toarray().astype(int).tolist()
        [[0, 0, 0, 1], [1, 1, 0, 0]]
        """
        from scipy.sparse import csr_array, hstack

        sizes = np.asarray(domain_sizes)
        indicators = [csr_array(codes[:, sizes == 2])]
        indicators += [csr_array(codes[:, [place]] == np.arange(sizes[place])) for place in np.flatnonzero(sizes > 2)]
        return cls.from_matrix(hstack(indicators), name=name)

    @classmethod
    def from_data(cls, data: Any) -> PublicAttributes:
        """Return the features `x` of a `torch_geometric.data.Data`, which are public here."""
        if getattr(data, "x", None) is None:
            raise GraphError("the data have no 'x': there are no public attributes in them")
        return cls.from_matrix(data.x)

    @classmethod
    def from_table(
        cls,
        table: pd.DataFrame,
        *,
        ids: Sequence[str],
        columns: Sequence[PublicColumn] | None = None,
        where: str = "the table",
    ) -> PublicAttributes:
        """Read public columns from a table of people.

        Args:
            table: one row for each person, with a column `id`.
            ids: ids of the nodes, in order, as text; people of the table who are not among them are ignored.
            columns: the public columns; default: all but `id`.
            where: name of the table, for errors.
        """
        declared = [PublicColumn(name=str(each)) for each in table if each != "id"] if columns is None else columns
        for column in declared:
            if column.name == "id":
                raise GraphError("'id' is declared as public, but it names the people: take it out of the schema")
            if column.name not in table:
                raise GraphError(
                    f"{where} has no column '{column.name}', which is declared as public: add it, or take it out of "
                    "the schema"
                )
        rows = _rows_of(ids, ids_of(table, where), where)
        return cls(tuple(_attribute(column, table[column.name]).select(rows) for column in declared))

    @classmethod
    def from_file(cls, path: TableSource, *, ids: Sequence[str], columns: Sequence[PublicColumn]) -> PublicAttributes:
        """Read declared public columns of a table of people, .csv or .parquet, or of a frame.

        An embedding that is no column of the table is a file NAME.npy beside it, with a row for each row of the table.

        Args:
            path: the table, with a column `id`.
            ids: ids of the nodes, in order, as text.
            columns: the public columns.
        """
        table = read_table(path)
        beside = {
            column.name: file
            for column in columns
            if column.name not in table and (file := embedding_file(path, column.name)) is not None
        }
        listed = [column for column in columns if column.name not in beside]
        found = cls.from_table(table, ids=ids, columns=listed, where=name_of(path)).attributes if listed else ()
        rows = _rows_of(ids, ids_of(table, path), name_of(path))
        return cls((*found, *(_read_embedding(name, file, len(table), rows) for name, file in beside.items())))

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.attributes[0].missing)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(each.name for each in self.attributes)

    def __getitem__(self, name: str) -> PublicAttribute:
        for each in self.attributes:
            if each.name == name:
                return each
        raise GraphError(f"there is no public column '{name}': there are {', '.join(self.names)}")

    def __iter__(self) -> Iterator[PublicAttribute]:
        return iter(self.attributes)

    def __add__(self, other: PublicAttributes) -> PublicAttributes:
        """Return the columns of both."""
        return PublicAttributes((*self.attributes, *other.attributes))

    def select(self, nodes: NDArray[Any]) -> PublicAttributes:
        """Return the attributes of some nodes, by their numbers or a mask."""
        return PublicAttributes(tuple(each.select(nodes) for each in self.attributes))

    def encoded(self) -> list[NDArray[np.float32] | csr_array]:
        """Return each column as numbers [nodes, columns], dense or sparse. Side by side they are one matrix."""
        return [each.encoded() for each in self.attributes]

    def contents(self) -> Iterator[NDArray[Any]]:
        """Return arrays that determine all values, for a fingerprint."""
        for each in self.attributes:
            yield np.array([each.name])
            yield from each.contents()

    def __repr__(self) -> str:
        return f"PublicAttributes({self.num_nodes} nodes: {', '.join(self.names)})"

    def _repr_html_(self) -> str:
        facts = {each.name: f"{type(each).__name__.lower()}, {int(each.missing.sum())} missing" for each in self}
        return html_table("Public attributes", facts | {"columns": listed(self.names), "nodes": self.num_nodes})


def read_public(columns: Sequence[PublicColumn], people: TableSource | None, graph: Graph) -> PublicAttributes | None:
    """Return the declared public columns of a graph's nodes from the table of people; None if none are declared."""
    if not columns:
        return None
    if people is None:
        names = ", ".join(column.name for column in columns)
        raise GraphError(f"public columns are declared ({names}): give the table of people, which has them")
    return PublicAttributes.from_file(people, ids=graph.names, columns=columns)


def embedding_file(people: TableSource, name: str) -> Path | None:
    """Return the file of an embedding beside the table of people; None if there is none."""
    if not isinstance(people, str | Path) or "/" in name or "\\" in name or len(name.encode()) > _LONGEST_NAME:
        return None
    file = Path(people).with_name(f"{name}.npy")
    return file if file.is_file() else None


def _rows_of(ids: Sequence[str], known: Sequence[str], where: str) -> NDArray[np.int64]:
    """Return the row of each node in a table of people; refuse a table that lacks somebody."""
    row_of = {node: row for row, node in enumerate(known)}
    if missing := [node for node in ids if node not in row_of]:
        raise GraphError(
            f"{where} lacks {len(missing)} of {len(ids)} people on the graph, such as '{missing[0]}': add a row "
            "for each, with empty cells where nothing is known"
        )
    return np.array([row_of[node] for node in ids], dtype=np.int64)


def _read_embedding(name: str, path: Path, people: int, rows: NDArray[np.int64]) -> Embedding:
    try:
        matrix = np.lib.format.open_memmap(path, mode="r")
    except (OSError, ValueError, EOFError, TypeError, OverflowError, SyntaxError, tokenize.TokenError) as error:
        raise GraphError(
            f"{path} is not a readable matrix of numbers ({type(error).__name__}): save it again with numpy.save"
        ) from None
    if matrix.dtype.kind not in "biuf":
        raise GraphError(f"{path} holds no real numbers: save a matrix of them with numpy.save")
    if matrix.ndim != 2 or len(matrix) != people:
        raise GraphError(
            f"{path} has the shape {matrix.shape}: give a matrix with a row for each of the {people} rows of the table "
            "of people, in their order"
        )
    return Embedding(name=name, rows=np.asarray(matrix[rows], dtype=np.float32))


_EPOCH = datetime.date(1970, 1, 1)


def _attribute(column: PublicColumn, cells: pd.Series) -> PublicAttribute:
    """Return the attribute of a table's column: of the declared kind, or of the kind that its cells look like."""
    name, values = column.name, cells.to_numpy(dtype=object)
    known = [value for value in values if not _is_empty(value)]
    if not known:
        raise GraphError(f"public column '{name}' has no value for anybody: take it out of the public columns")
    return _READERS[column.kind or _kind_of(known)](name, values)


def _row_of_numbers(name: str, row: int, cell: object) -> NDArray[np.float32]:
    """Return a cell as numbers; an error names its row and not what it holds."""
    try:
        return np.asarray(cell, dtype=np.float32).ravel()
    except (ValueError, TypeError, OverflowError):
        raise GraphError(
            f"public column '{name}', row {row}: not a list of numbers; give a matrix as {name}.npy beside the table, "
            "or declare a category"
        ) from None


def _kind_of(known: Sequence[object]) -> str:
    """Return the kind of a column by the cells that are not empty."""
    if all(isinstance(value, (list, tuple, np.ndarray)) for value in known):
        return "embedding"
    if all(_number(value) is not None for value in known):
        return "number"
    return "date" if all(_days(value) is not None for value in known) else "category"


def _numbers(name: str, cells: Sequence[object], read: Callable[[object], float | None], what: str) -> NDArray[Any]:
    values = np.full(len(cells), np.nan)
    for row, cell in enumerate(cells):
        if not _is_empty(cell):
            if (number := read(cell)) is None:
                raise GraphError(f"public column '{name}', row {row + 1}: not {what}; correct it or declare a category")
            values[row] = number
    return values


_READERS: Mapping[str, Callable[[str, Any], PublicAttribute]] = {
    "number": lambda name, cells: Numbers(name=name, values=_numbers(name, cells, _number, "a number")),
    "date": lambda name, cells: Numbers(
        name=name, values=_numbers(name, cells, _days, "a date such as 2026-03-31"), dates=True
    ),
    "category": Categories.of,
    "embedding": Embedding.of,
}


def _number(cell: object) -> float | None:
    """Return a cell as a number; None if it is none."""
    if isinstance(cell, (bool, np.bool_)) or not isinstance(cell, (int, float, np.number, str)):
        return None
    try:
        return float(cell)
    except ValueError:
        return None


def _days(cell: object) -> float | None:
    """Return a date as days since 1970; None if the cell is none."""
    if isinstance(cell, datetime.date):
        return float(cell.toordinal() - _EPOCH.toordinal())
    try:
        return float(datetime.datetime.fromisoformat(str(cell)).toordinal() - _EPOCH.toordinal())
    except ValueError:
        return None


def _is_empty(cell: object) -> bool:
    """Tell whether a cell is empty: None, NaN, an empty text, or a missing value of pandas."""
    if isinstance(cell, (float, np.floating)):
        return math.isnan(cell)
    return cell is None or type(cell).__name__ in ("NAType", "NaTType") or (isinstance(cell, str) and not cell.strip())


def _text(cell: object) -> str:
    """Return a cell as text; 1 and 1.0 have the same text."""
    return str(int(cell)) if isinstance(cell, (float, np.floating)) and float(cell).is_integer() else str(cell)


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
