"""Tables of any office: separators, encodings, faults with their row and remedy; cells that no office runs."""

from __future__ import annotations

import csv
import io
import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilgraph.errors import GraphError
from veilgraph.graph.text_tables import from_cell, read_layout, read_text_table, to_cell, write_text_table

ROWS = [["ä1", "1,8", "x;y"], ["007", "", 'a "b"'], ["u 3", "2", "two\nlines"]]
COLUMNS = ("id", "height, in m", "note")
FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def saved(separator: str, encoding: str, end: str) -> bytes:
    """Return the table as an office saves it."""
    text = io.StringIO()
    csv.writer(text, delimiter=separator, lineterminator=end).writerows([COLUMNS, *ROWS])
    return text.getvalue().encode(encoding)


FAULTS = {
    b"": "is empty: it needs a line with the names",
    b"id,age\nu1,6161\nM\xfcller,6161\n": "line 3: not text in UTF-8 or UTF-16; save it from the office as",
    "id,age\nu1,6161\n".encode("utf-16-le"): "characters without a meaning in a text; save it from the office",
    b"id,age\nu1\n": "row 1: 1 cells under 2 names of columns; complete the row",
    b"id,age\nu1,5\nu2,6161,7\n": "row 2: 3 cells under 2 names",
    b"id,age\nu1,5\n\nu2,6161\n": "row 2: the row is empty; remove it",
    b",id\n1,u1\n": "column 1 has no name; give it one in the first line",
    b"sep=;\r\nid;age\r\nu1;5\r\n": "the first line, 'sep=', is for one office program alone; remove it",
    b'"sep=,"\nid,age\nu1,5\n': "the first line, 'sep=', is for one office program alone; remove it",
    b"id,age,age\nu1,5,6161\n": "two columns have the name 'age'; rename or remove one",
    b'id,age\nu1,"6161\n': "a quotation mark is not closed",
    b'id,age\nu1,"6161"x\n': "line 2: a quotation mark is not closed, or text follows it",
    b"id;age, in years\nu1;31,5\n": "the first line has commas and semicolons; put names that hold one",
}


def test_other_texts_and_numbers_stay_as_they_are() -> None:
    for text in ("u17", "'u17", "007", "a=b", "", "'", "x;y", "Smith, -Ann"):
        assert to_cell(text) == from_cell(text) == text
    assert write_text_table(["node", "p", "n"], [["=1+1", -0.5, -1]]) == '"node","p","n"\n"\'=1+1",-0.5,-1\n'


def test_every_office_saves_the_same_table(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    for separator, encoding, end in itertools.product(",;\t", ("utf-8", "utf-8-sig", "utf-16"), ("\n", "\r\n")):
        path.write_bytes(saved(separator, encoding, end))
        table, layout = read_text_table(path), read_layout(path)
        assert (table.columns, table.rows) == (COLUMNS, ROWS)
        assert (layout.separator, layout.columns) == (separator, COLUMNS)


def test_columns_and_rows_that_an_office_left_empty_are_no_part_of_a_table(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text(" id ; age ;;\nu1;31;;\nu2;64\n;;;\n\n")
    table = read_text_table(path)
    assert (table.columns, table.rows) == (("id", "age"), [["u1", "31"], ["u2", "64"]])


def test_a_fault_is_one_sentence_with_its_place_and_without_a_cell(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    for content, fault in FAULTS.items():
        path.write_bytes(content)
        with pytest.raises(GraphError) as refusal:
            read_text_table(path)
        message = str(refusal.value)
        assert message.startswith(str(path))
        assert fault in message
        assert "6161" not in message
        assert "\n" not in message


def test_a_column_is_there_and_has_no_empty_cell(tmp_path: Path) -> None:
    path = tmp_path / "tokens.csv"
    path.write_text("node,token\nu1,t\nu2,\n")
    table = read_text_table(path)
    assert table.column("node", "it names the nodes") == ["u1", "u2"]
    with pytest.raises(GraphError, match="row 2: the cell of 'token' is empty"):
        table.column("token", "it has the tokens")
    with pytest.raises(GraphError, match="has no column 'id': it names the nodes"):
        table.column("id", "it names the nodes")


texts = st.text(
    st.one_of(st.sampled_from("'\"; ,=+-@\t\r\n\uff1d|"), st.characters(codec="utf-8", exclude_characters="\0")),
    max_size=10,
)


@given(text=texts)
def test_a_cell_is_no_formula_and_gives_its_text_back(text: str) -> None:
    cell = to_cell(text)
    assert not cell.startswith(FORMULA)
    assert from_cell(cell) == text


@given(text=texts, other=texts)
def test_different_texts_have_different_cells(text: str, other: str) -> None:
    assert (to_cell(text) == to_cell(other)) == (text == other)


@given(rows=st.lists(st.lists(texts, min_size=2, max_size=2), min_size=1, max_size=3))
def test_no_office_sees_a_formula_whatever_separates_its_cells(rows: list[list[str]]) -> None:
    text = write_text_table(["node", "note"], rows)
    for separator in (",", ";", "\t"):
        for quoted in (csv.QUOTE_MINIMAL, csv.QUOTE_NONE):
            if separator == "," and quoted == csv.QUOTE_NONE:
                continue  # no office ignores quotation marks, and a comma in a name is not marked
            read = csv.reader(io.StringIO(text, newline=""), delimiter=separator, quoting=quoted)
            for cell in itertools.chain.from_iterable(read):
                runs = cell.lstrip("\"' \t\r\n")
                assert not runs.startswith(FORMULA) or "'" in cell.removesuffix(runs), (separator, cell)


@given(rows=st.lists(st.lists(texts.filter(str.strip), min_size=2, max_size=2), max_size=3))
def test_a_table_that_was_written_is_read_back(rows: list[list[str]], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("table") / "table.csv"
    path.write_bytes(write_text_table(["node", "note"], rows).encode())
    assert [[from_cell(cell) for cell in row] for row in read_text_table(path).rows] == rows
