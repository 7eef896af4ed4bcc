"""Tables in text files: one reader for what people bring, and one writer for what people open.

Offices save a table with commas, semicolons or tabs, in UTF-8 or UTF-16. The reader takes all of these, and refuses
what it would have to guess, with the row and the remedy. Rows are counted below the header, from 1. No error quotes a
cell, which may be private.

An office runs a cell such as `=HYPERLINK(...)` as a formula, and it may split a cell at another separator than the one
of the file: `x;=1+1` becomes a formula where `;` separates. So every text is written between quotation marks, and an
apostrophe stands before each place in it where a cell that begins like a formula could begin. Removing these
apostrophes gives exactly the text that was written.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from veilgraph.errors import GraphError

_SEPARATORS = ",;\t"
_OTHER_SEPARATORS = re.compile(r"[|^~]")
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_BEGINNING_BYTES = 2**16
_FOR_AN_OFFICE = re.compile(r'"?sep=.?"?', re.IGNORECASE)
_REMEDY = "save it from the office as 'CSV UTF-8'"
# Where a cell can begin: at the start, and after a separator other than the comma, which our files have. Some offices
# take the full-width forms of the characters, and ignore quotation marks and blanks before them.
_FORMULA = r"""(?=["' ]*[=+@\t\r\n\uff1d\uff0b\uff0d\uff20-])"""
_BEGINNING = re.compile(rf"(?:^|(?<=[;\t\r\n])){_FORMULA}")
_MARKED = re.compile(rf"(?:^|(?<=[;\t\r\n]))'{_FORMULA}")


@dataclass(frozen=True, kw_only=True)
class TextTable:
    """A table of texts.

    Attributes:
        path: its file, which errors name.
        columns: names of the columns, all different.
        rows: the cells of each row, as many as columns; an empty cell is empty text.
    """

    path: Path
    columns: tuple[str, ...]
    rows: list[list[str]]

    def column(self, name: str, purpose: str) -> list[str]:
        """Return the cells of a column; refuse a table without it, and an empty cell.

        Args:
            name: name of the column.
            purpose: what it does, for the error: "it names the nodes".
        """
        if name not in self.columns:
            raise GraphError(f"{self.path} has no column '{name}': {purpose}")
        place = self.columns.index(name)
        for number, row in enumerate(self.rows, start=1):
            if not row[place]:
                raise GraphError(f"{self.path}, row {number}: the cell of '{name}' is empty; fill it or remove the row")
        return [row[place] for row in self.rows]


class TextLayout(NamedTuple):
    """How a table is written.

    Attributes:
        encoding: "utf-8-sig" or "utf-16", as `encoding_of` returns it.
        separator: what separates the cells.
        columns: names of the columns.
    """

    encoding: str
    separator: str
    columns: tuple[str, ...]


def encoding_of(beginning: bytes) -> str:
    """Return the encoding that a byte-order mark states, or UTF-8.

    >>> encoding_of(b"id,age"), encoding_of("id".encode("utf-16"))
    ('utf-8-sig', 'utf-16')
    """
    return "utf-16" if beginning.startswith(_UTF_16) else "utf-8-sig"


def read_text(path: str | Path) -> str:
    """Read a text in UTF-8 or, with a byte-order mark, UTF-16; the mark is removed."""
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise GraphError(f"{path} cannot be read: {error.strerror or 'it is damaged'}") from None
    try:
        text = content.decode(encoding_of(content))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise GraphError(f"{path}, line {line}: not text in UTF-8 or UTF-16; {_REMEDY}") from None
    if "\0" in text:
        raise GraphError(f"{path} holds characters without a meaning in a text; {_REMEDY}")
    return text


def read_text_table(path: str | Path) -> TextTable:
    """Read a table whose cells are separated by commas, semicolons or tabs, below a header with the names."""
    path = Path(path)
    text = read_text(path)
    rows = [] if not text.strip() else _split(path, text, separator_of(text, path))
    if not rows:
        raise GraphError(f"{path} is empty: it needs a line with the names of the columns, and rows below it")
    header = column_names(path, rows[0])
    body = rows[1:]
    while body and not any(body[-1]):
        body.pop()
    for number, row in enumerate(body, start=1):
        if not any(row):
            raise GraphError(f"{path}, row {number}: the row is empty; remove it")
        if len(row) != len(header):
            _refuse_length(path, number, row, len(header))
            del row[len(header) :]
    return TextTable(path=path, columns=tuple(header), rows=body)


def read_layout(path: Path) -> TextLayout:
    """Return how a table is written, from its beginning: for programs that read a large one piece by piece."""
    try:
        with path.open("rb") as file:
            beginning = file.read(_BEGINNING_BYTES)
            beginning += file.readline() + (file.read(1) if encoding_of(beginning) == "utf-16" else b"")
    except OSError as error:
        raise GraphError(f"{path} cannot be read: {error.strerror or 'it is damaged'}") from None
    encoding = encoding_of(beginning)
    text = beginning.decode(encoding, errors="replace")
    separator = separator_of(text, path)
    rows = _split(path, text.lstrip("\r\n").partition("\n")[0], separator)
    if not rows:
        raise GraphError(f"{path} is empty: it needs a line with the names of the columns, and rows below it")
    return TextLayout(encoding, separator, tuple(column_names(path, rows[0])))


def column_names(path: Path | str, header: Iterable[str]) -> list[str]:
    """Return the names of the columns without blanks around them; refuse a missing name, and one that occurs twice."""
    names = [name.strip() for name in header]
    while len(names) > 1 and not names[-1]:  # an office saved an empty column
        names.pop()
    for place, name in enumerate(names):
        if not name:
            raise GraphError(f"{path}: column {place + 1} has no name; give it one in the first line")
        if name in names[:place]:
            raise GraphError(f"{path}: two columns have the name '{name}'; rename or remove one")
    if len(names) == 1 and (odd := _OTHER_SEPARATORS.search(names[0])):
        raise GraphError(
            f"{path}: its one column is called '{names[0]}'; if '{odd[0]}' separates columns there, save the table "
            "with commas, semicolons or tabs"
        )
    return names


def _refuse_length(path: Path, number: int, row: list[str], columns: int) -> None:
    """Refuse a row with too few cells, or with one that is filled in beyond the last column."""
    if len(row) < columns or any(row[columns:]):
        raise GraphError(
            f"{path}, row {number}: {len(row)} cells under {columns} names of columns; complete "
            "the row, or put a cell that holds the separator between quotation marks"
        )


def separator_of(text: str, path: Path) -> str:
    r"""Return what separates the cells: the one separator of the header, or the one by which every row fits to it.

    Args:
        text: the table, or its beginning up to the end of a line.
        path: the file, which an error names.

    >>> separator_of("id;height\nu1;1,8\n", Path("people.csv")), separator_of("id\nu1\n", Path("people.csv"))
    (';', ',')
    """
    first = text.lstrip().splitlines()[0] if text.strip() else ""
    if _FOR_AN_OFFICE.fullmatch(first.strip()):
        raise GraphError(f"{path}: the first line, 'sep=', is for one office program alone; remove it")
    outside = re.sub(r'"[^"]*"', "", first)
    present = [each for each in _SEPARATORS if each in outside]
    if len(present) < 2:
        return present[0] if present else ","
    fitting = []
    for each in present:
        rows = _split(path, text, each)
        if all(len(row) == len(rows[0]) for row in rows if row):
            fitting.append(each)
    if len(fitting) != 1:
        names = " and ".join({",": "commas", ";": "semicolons", "\t": "tabs"}[each] for each in present)
        raise GraphError(f"{path}: the first line has {names}; put names that hold one between quotation marks")
    return fitting[0]


def _split(path: Path, text: str, separator: str) -> list[list[str]]:
    reader = csv.reader(io.StringIO(text.lstrip("\r\n"), newline=""), delimiter=separator, strict=True)
    try:
        return list(reader)
    except csv.Error:
        raise GraphError(
            f"{path}, line {reader.line_num}: a quotation mark is not closed, or text follows it; write it "
            "twice inside of a cell"
        ) from None


def to_cell(value: Any) -> Any:
    """Return what is written for a value: an apostrophe before each beginning of a formula; numbers stay.

    >>> [to_cell(value) for value in ("=1+1", "-7", "u17", "'u17", "'=1+1", -7, "x;=1+1;y")]
    ["'=1+1", "'-7", 'u17', "'u17", "''=1+1", -7, "x;'=1+1;y"]
    """
    return _BEGINNING.sub("'", value) if isinstance(value, str) else value


def from_cell(text: str) -> str:
    """Return the text that `to_cell` wrote.

    >>> [from_cell(text) for text in ("'=1+1", "'-7", "u17", "'u17", "''=1+1", "-7", "x;'=1+1;y")]
    ['=1+1', '-7', 'u17', "'u17", "'=1+1", '-7', 'x;=1+1;y']
    """
    return _MARKED.sub("", text)


def write_text_table(columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    r"""Write a table: commas, texts between quotation marks, numbers as they are, no cell that an office would run.

    >>> write_text_table(["node", "p"], [["=1+1", 0.5], ["a", None]])
    '"node","p"\n"\'=1+1",0.5\n"a",""\n'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow([to_cell(name) for name in columns])
    writer.writerows([to_cell(value) for value in row] for row in rows)
    return text.getvalue()
