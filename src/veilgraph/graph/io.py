"""Tables of edges and nodes in CSV and Parquet files, and text cells that no spreadsheet program runs as formulas.

A name such as `=HYPERLINK(...)` in a table of nodes would be run by the program that opens the table. A text that
begins like a formula is written with an apostrophe before it, and so is one that has only apostrophes before such a
beginning. Hence removing one apostrophe gives exactly the text that was written.
"""

from __future__ import annotations

import importlib
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from veilgraph.errors import GraphError, MissingExtraError

if TYPE_CHECKING:
    import pandas as pd

# Some spreadsheet programs take the full-width forms for the same characters.
_FORMULA = re.compile("'*[=+@\t\r\n\uff1d\uff0b\uff0d\uff20-]")


def read_table(path: str | Path) -> pd.DataFrame:
    """Read a CSV or Parquet file. Error messages never quote the content, which may be private.

    All values of a CSV file are read as text, so that the id 007 stays 007. Only an empty field is missing.
    """
    try:
        pandas = importlib.import_module("pandas")
        pyarrow = importlib.import_module("pyarrow")
    except ImportError as error:
        raise MissingExtraError(str(error.name), "server") from None
    path = Path(path)
    if path.suffix not in (".csv", ".parquet"):
        raise GraphError(f"{path}: a table is .csv or .parquet, not '{path.suffix}'")
    try:
        with path.open("rb") as file, warnings.catch_warnings():
            warnings.simplefilter("error", pandas.errors.ParserWarning)  # rows longer than the header
            table: pd.DataFrame = (
                pandas.read_csv(file, dtype=str, keep_default_na=False, na_values=[""], index_col=False)
                if path.suffix == ".csv"
                else pandas.read_parquet(pyarrow.OSFile(str(path)))  # not a file of Python, see `read_buffer`
            )
    except OSError as error:
        raise GraphError(f"{path} cannot be read: {error.strerror or 'it is damaged'}") from None
    except (ValueError, pandas.errors.ParserWarning) as error:  # raised by pandas and pyarrow for malformed files
        raise GraphError(f"{path} is not a readable {path.suffix} table ({type(error).__name__})") from None
    return table


def read_ids(path: str | Path) -> list[str]:
    """Read the column `id` of a node table, as text."""
    table = read_table(path)
    if "id" not in table:
        raise GraphError(f"{path} has no column 'id', which names the nodes")
    return ids_of(table, path)


def ids_of(table: pd.DataFrame, path: str | Path) -> list[str]:
    """Return the column `id` of a node table, as text; refuse a table without rows, and a missing id.

    Args:
        table: content of the file.
        path: the file, which an error names.
    """
    if table.empty:
        raise GraphError(f"{path} has no rows: it needs one for every node")
    missing = table["id"].isna().to_numpy()
    if missing.any():
        raise GraphError(f"{path}, row {int(missing.argmax()) + 1}: the id is missing; give every node one")
    return [str(node) for node in table["id"]]


def to_cell(value: Any) -> Any:
    """Return what is written for a value: text that begins like a formula gets an apostrophe; numbers stay.

    >>> [to_cell(value) for value in ("=1+1", "-7", "u17", "'u17", "'=1+1", -7)]
    ["'=1+1", "'-7", 'u17', "'u17", "''=1+1", -7]
    """
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value


def from_cell(text: str) -> str:
    """Return the text that `to_cell` wrote.

    >>> [from_cell(text) for text in ("'=1+1", "'-7", "u17", "'u17", "''=1+1", "-7")]
    ['=1+1', '-7', 'u17', "'u17", "'=1+1", '-7']
    """
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


def frame_to_cells(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose texts are cells; columns of numbers stay as they are."""
    cells = table.copy()
    for name in table.columns:
        if table[name].dtype.kind == "O":
            cells[name] = table[name].map(to_cell)
    return cells
