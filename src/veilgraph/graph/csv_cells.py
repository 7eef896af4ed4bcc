"""Cells of CSV files that spreadsheet programs show as text, and never run as formulas.

A name such as `=HYPERLINK(...)` in a table of nodes would be run by the program that opens the table. A text that
begins like a formula is written with an apostrophe before it, and so is one that has only apostrophes before such a
beginning. Hence removing one apostrophe gives exactly the text that was written.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

# Some spreadsheet programs take the full-width forms for the same characters.
_FORMULA = re.compile("'*[=+@\t\r\n\uff1d\uff0b\uff0d\uff20-]")


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
