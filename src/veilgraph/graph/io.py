"""Tables of edges and nodes in CSV and Parquet files."""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from veilgraph.errors import GraphError, MissingExtraError

if TYPE_CHECKING:
    import pandas as pd


def read_table(path: str | Path) -> pd.DataFrame:
    """Read a CSV or Parquet file. Error messages never quote the content, which may be private.

    All values of a CSV file are read as text, so that the id 007 stays 007. Only an empty field is missing.
    """
    try:
        pandas = importlib.import_module("pandas")
        importlib.import_module("pyarrow")
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
                else pandas.read_parquet(file)
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
    if table.empty:
        raise GraphError(f"{path} has no rows: it needs one for every node")
    missing = table["id"].isna().to_numpy()
    if missing.any():
        raise GraphError(f"{path}, row {int(missing.argmax())}: the id is missing; give every node one")
    return [str(node) for node in table["id"]]
