"""Tables of people and edges in CSV and Parquet files."""

from __future__ import annotations

import csv
import importlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from veilgraph.errors import GraphError, MissingExtraError
from veilgraph.graph.text_tables import read_text_table, to_cell

if TYPE_CHECKING:
    import pandas as pd


def read_table(path: str | Path) -> pd.DataFrame:
    """Read a CSV or Parquet file. Error messages never quote the content, which may be private.

    All values of a CSV file are read as text, so that the id 007 stays 007. Only an empty field is missing.
    """
    try:
        pandas = importlib.import_module("pandas")
        pyarrow = importlib.import_module("pyarrow")
    except ImportError as error:
        raise MissingExtraError(str(error.name), "server") from None
    path = check_table(path)
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


def read_ids(path: str | Path) -> list[str]:
    """Read the column `id` of a node table, as text."""
    return ids_of(read_table(path), path)


def ids_of(table: pd.DataFrame, path: str | Path) -> list[str]:
    """Return the column `id` of a node table, as text; refuse a missing id, and one that occurs twice.

    Args:
        table: content of the file.
        path: the file, which an error names.
    """
    if "id" not in table:
        names = ", ".join(map(str, table.columns))
        raise GraphError(f"{path} has no column 'id', which names the nodes; its columns are {names}: rename one")
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
