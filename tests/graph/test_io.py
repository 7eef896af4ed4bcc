"""Tables in CSV and Parquet files, messages for files that cannot be read, and cells that are no formulas."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilgraph.errors import GraphError
from veilgraph.graph import Graph, read_table
from veilgraph.graph.io import frame_to_cells, from_cell, to_cell

PEOPLE = pd.DataFrame({"id": ["007", "8"], "age": [31, 64]})


def write(table: pd.DataFrame, path: Path) -> Path:
    table.to_csv(path, index=False) if path.suffix == ".csv" else table.to_parquet(path)
    return path


@pytest.mark.parametrize("name", ["people.csv", "people.parquet"])
def test_ids_with_leading_zeros_stay_as_they_are(name: str, tmp_path: Path) -> None:
    people = read_table(write(PEOPLE, tmp_path / name))
    assert people["id"].tolist() == ["007", "8"]
    assert people["age"].astype(int).tolist() == [31, 64]


def test_only_an_empty_field_of_a_csv_file_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "words.csv"
    path.write_text("id,word\n1,NA\n2,None\n3,\n4,null\n")
    assert read_table(str(path))["word"].fillna("missing").tolist() == ["NA", "None", "missing", "null"]


@pytest.mark.parametrize("name", ["edges.csv", "edges.parquet"])
def test_a_file_of_edges_makes_the_graph_it_describes(name: str, tmp_path: Path) -> None:
    path = write(pd.DataFrame({"a": ["01", "1"], "b": ["1", "2"]}), tmp_path / name)
    assert Graph.from_table(read_table(path)).node_ids == ("01", "1", "2")


def damaged(path: Path, kind: str) -> Path:
    secret = b"6161"
    content = {
        "empty": b"",
        "unbalanced": b"a,b\n6161,6161\n6161,6161,6161\n",
        "wide": b"a,b\n6161,6161,6161\n6161,6161,6161\n",
        "bytes": b"a,b\n\xff\xfe6161,1\n",
        "garbage": secret * 100,
        "truncated": write(PEOPLE, path.with_name("whole.parquet")).read_bytes()[:-20],
    }[kind]
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("t.csv", "empty"),
        ("t.csv", "unbalanced"),
        ("t.csv", "wide"),
        ("t.csv", "bytes"),
        ("t.parquet", "empty"),
        ("t.parquet", "garbage"),
        ("t.parquet", "truncated"),
    ],
)
def test_a_damaged_file_is_refused_in_one_line_without_its_content(name: str, kind: str, tmp_path: Path) -> None:
    path = damaged(tmp_path / name, kind)
    with pytest.raises(GraphError) as refusal:
        read_table(path)
    message = str(refusal.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    assert "6161" not in message.removeprefix(str(path))
    assert refusal.value.__suppress_context__


@pytest.mark.parametrize("name", ["absent.csv", "absent.parquet"])
def test_an_absent_file_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"cannot be read: No such file or directory$"):
        read_table(tmp_path / name)


def test_a_folder_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(GraphError, match="cannot be read: Is a directory"):
        read_table(tmp_path / "folder.csv")


@pytest.mark.parametrize("name", ["table.xlsx", "table"])
def test_a_table_of_another_format_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"a table is \.csv or \.parquet, not"):
        read_table(tmp_path / name)


texts = st.text(alphabet=st.one_of(st.sampled_from("'=+-@\t\r\n\uff1d"), st.characters()), max_size=8)


@given(text=texts)
def test_a_cell_is_no_formula_and_gives_its_text_back(text: str) -> None:
    cell = to_cell(text)
    assert cell[:1] not in {"=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20"}
    assert from_cell(cell) == text


@given(text=texts, other=texts)
def test_different_texts_have_different_cells(text: str, other: str) -> None:
    assert (to_cell(text) == to_cell(other)) == (text == other)


@pytest.mark.parametrize("text", ["u17", "'u17", "007", "a=b", "", "'"])
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert to_cell(text) == text
    assert from_cell(text) == text


def test_numbers_of_a_table_stay_numbers() -> None:
    table = pd.DataFrame({"node": ["=1+1", "b"], "p": [-0.5, 0.25], "n": [-1, 2], "reported": [True, False]})
    text = frame_to_cells(table).to_csv(index=False, lineterminator="\n")
    assert text == "node,p,n,reported\n'=1+1,-0.5,-1,True\nb,0.25,2,False\n"
    assert table["node"].tolist() == ["=1+1", "b"], "the table was changed"
