"""Cells of a table of people as values: numbers, dates, texts, rows of numbers, or nothing."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import GraphError

_EPOCH = datetime.date(1970, 1, 1)


def kind_of_cells(known: Sequence[object]) -> str:
    """Return the kind of a column by the cells that are not empty."""
    if all(isinstance(value, (list, tuple, np.ndarray)) for value in known):
        return "embedding"
    if all(as_number(value) is not None for value in known):
        return "number"
    return "date" if all(as_date(value) is not None for value in known) else "category"


def as_number(cell: object) -> float | None:
    """Return a cell as a number; None if it is none."""
    if isinstance(cell, (bool, np.bool_)) or not isinstance(cell, (int, float, np.number, str)):
        return None
    try:
        return float(cell)
    except ValueError:
        return None


def as_date(cell: object) -> float | None:
    """Return a date as days since 1970; None if the cell is none."""
    if isinstance(cell, datetime.date):
        return float(cell.toordinal() - _EPOCH.toordinal())
    try:
        return float(datetime.datetime.fromisoformat(str(cell)).toordinal() - _EPOCH.toordinal())
    except ValueError:
        return None


def day_in_words(days: float) -> str:
    """Return a number of days since 1970 as a date.

    >>> day_in_words(365.0)
    '1971-01-01'
    """
    return _EPOCH.fromordinal(_EPOCH.toordinal() + int(days)).isoformat()


def is_empty(cell: object) -> bool:
    """Tell whether a cell is empty: None, NaN, an empty text, or a missing value of pandas."""
    if isinstance(cell, (float, np.floating)):
        return math.isnan(cell)
    return cell is None or type(cell).__name__ in ("NAType", "NaTType") or (isinstance(cell, str) and not cell.strip())


def as_text(cell: object) -> str:
    """Return a cell as text; 1 and 1.0 have the same text."""
    return str(int(cell)) if isinstance(cell, (float, np.floating)) and float(cell).is_integer() else str(cell)


def row_of_numbers(name: str, row: int, cell: object) -> NDArray[np.float32]:
    """Return a cell as numbers; an error names its row and not what it holds."""
    try:
        return np.asarray(cell, dtype=np.float32).ravel()
    except (ValueError, TypeError, OverflowError):
        raise GraphError(
            f"public column '{name}', row {row}: not a list of numbers; give a matrix as {name}.npy beside the table, "
            "or declare a category"
        ) from None
