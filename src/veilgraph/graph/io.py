"""Tables of people and edges: CSV and Parquet files, and frames of pandas, polars or Arrow."""

from __future__ import annotations

import csv
import importlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

from veilgraph.errors import GraphError, MissingExtraError, nearest_names
from veilgraph.graph.links import LINK_COLUMNS
from veilgraph.graph.text_tables import column_names, read_text_table, to_cell

if TYPE_CHECKING:
    import pandas as pd

_SHOWN_COLUMNS = 12


class ArrowFrame(Protocol):
    """A table in memory that hands its columns on by the Arrow PyCapsule interface: polars, pyarrow, pandas, DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the table as a stream of Arrow batches."""


TableSource: TypeAlias = "str | Path | pd.DataFrame | ArrowFrame"
"""A table: the path of a .csv or .parquet file, or a frame."""


def read_table(source: TableSource) -> pd.DataFrame:
    """Read a CSV or Parquet file, or a frame. Error messages never quote the content, which may be private.

    All values of a CSV file are read as text, so that the id 007 stays 007. Only an empty field is missing.
    """
    try:
        pandas = importlib.import_module("pandas")
        pyarrow = importlib.import_module("pyarrow")
    except ImportError as error:
        raise MissingExtraError(str(error.name), "server") from None
    if isinstance(source, pandas.DataFrame) or hasattr(source, "__arrow_c_stream__"):
        frame = source if isinstance(source, pandas.DataFrame) else pyarrow.table(source).to_pandas()
        names = column_names("the table", map(str, frame.columns))
        return cast("pd.DataFrame", frame.set_axis(names, axis=1).reset_index(drop=True))
    if not isinstance(source, str | Path):
        raise GraphError(
            f"a table is of type {type(source).__name__}: give the path of a .csv or .parquet file, or a frame of "
            "pandas, polars or pyarrow"
        )
    path = check_table(source)
    if path.suffix == ".csv":
        table = read_text_table(path)
        cells = {name: [row[i] or math.nan for row in table.rows] for i, name in enumerate(table.columns)}
        return pandas.DataFrame(cells, dtype=object)  # type: ignore[no-any-return]
    try:
        path.open("rb").close()  # with an error in the words of the system
        return pandas.read_parquet(pyarrow.OSFile(str(path)))  # type: ignore[no-any-return] # see `read_buffer`
    except OSError as error:
        raise GraphError(f"{path} cannot be read: {error.strerror or 'it is damaged'}") from None
    except ValueError as error:  # raised by pandas and pyarrow for malformed files
        raise GraphError(f"{path} is not a readable .parquet table ({type(error).__name__})") from None


def name_of(source: TableSource) -> str:
    """Return what errors call a table: its path, or "the table"."""
    return str(source) if isinstance(source, str | Path) else "the table"


def check_table(path: str | Path) -> Path:
    """Return the path of a table; refuse one that is named as another kind of file."""
    path = Path(path)
    if path.suffix in (".csv", ".parquet"):
        return path
    if not path.exists():
        raise GraphError(f"{path} does not exist: give a table, .csv or .parquet")
    raise GraphError(
        f"{path}: a table is .csv or .parquet, not '{path.suffix}'; save it from the office as 'CSV UTF-8'"
    )


def links_of(table: pd.DataFrame, source: TableSource) -> pd.DataFrame:
    """Return the two columns of an edge table that name the ends, as text, and what it says about the links.

    Args:
        table: content of the table.
        source: the file or frame, which an error names.
    """
    ends = table[edge_columns(list(table.columns), name_of(source))]
    is_text = isinstance(source, str | Path) and Path(source).suffix == ".csv"
    ends = ends if is_text else ends.where(ends.isna(), ends.map(str))
    return ends.join(table[[name for name in LINK_COLUMNS if name in table.columns[2:]]])


def require_column(table: pd.DataFrame, column: str, source: TableSource, part: str) -> None:
    """Refuse a table without a column; name the columns that it has.

    Args:
        table: content of the table.
        column: name of the column.
        source: the file or frame, which the error names.
        part: what the column is for.
    """
    if column in table:
        return
    names = [str(name) for name in table.columns]
    rest = f" and {len(names) - _SHOWN_COLUMNS} more" if len(names) > _SHOWN_COLUMNS else ""
    raise GraphError(
        f"{name_of(source)} has no column '{column}', {part}; its columns are "
        f"{', '.join(names[:_SHOWN_COLUMNS])}{rest}: rename one{nearest_names(column, names)}"
    )


def edge_columns(names: Sequence[str], path: str | Path) -> list[str]:
    """Return the names of the two columns of an edge table that name the ends; refuse a table of people.

    Args:
        names: names of all columns.
        path: the file, which an error names.
    """
    ends = [str(name) for name in names[:2]]
    if len(ends) < 2:
        raise GraphError(f"{path} has {len(ends)} column(s): the first two of an edge table name the ends of edges")
    if "id" in (name.casefold() for name in ends):
        raise GraphError(
            f"{path} is a table of people: it has a column 'id'; give it as the nodes, and a table whose first two "
            "columns name the ends of edges, such as source and target"
        )
    return ends


def read_ids(source: TableSource) -> list[str]:
    """Read the column `id` of a node table, as text."""
    return ids_of(read_table(source), source)


def ids_of(table: pd.DataFrame, source: TableSource) -> list[str]:
    """Return the column `id` of a node table, as text; refuse a missing id, and one that occurs twice.

    Args:
        table: content of the table.
        source: the file or frame, which an error names.
    """
    require_column(table, "id", source, "which names the nodes")
    path = name_of(source)
    if table.empty:
        raise GraphError(f"{path} has no rows: it needs one for every node")
    missing = table["id"].isna().to_numpy()
    if missing.any():
        raise GraphError(f"{path}, row {int(missing.argmax()) + 1}: the id is missing; give every node one")
    row_of: dict[str, int] = {}
    for row, node in enumerate(map(str, table["id"]), start=1):
        if node != node.strip():
            raise GraphError(f"{path}, row {row}: the id begins or ends with a blank; remove it")
        if row_of.setdefault(node, row) != row:
            raise GraphError(
                f"{path}, row {row}: the id '{node}' occurs twice, first in row {row_of[node]}; ids must be unique"
            )
    return list(row_of)


def frame_to_csv(table: pd.DataFrame) -> str:
    """Write a table as `write_text_table` does: texts between quotation marks, and no cell that an office would run."""
    cells = table.rename(columns=to_cell)
    for name in cells.columns:
        if cells[name].dtype.kind == "O":
            cells[name] = cells[name].map(to_cell)
    return cells.to_csv(index=False, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
