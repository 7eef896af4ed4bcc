"""Public attributes: what the organiser knows about the nodes of a graph without asking anybody."""

from __future__ import annotations

import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import GraphError
from veilgraph.graph.attribute_kinds import Embedding, PublicAttribute, attribute_of
from veilgraph.graph.graph import Graph
from veilgraph.graph.io import TableSource, ids_of, name_of, read_table
from veilgraph.privacy.notebook_table import html_table, listed
from veilgraph.privacy.public_columns import PublicColumn

if TYPE_CHECKING:
    import pandas as pd
    from scipy.sparse import csr_array

_LONGEST_NAME = 200
"""Bytes of the longest name of a column that a file beside the table can have."""


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
        return cls(tuple(attribute_of(column, table[column.name]).select(rows) for column in declared))

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
