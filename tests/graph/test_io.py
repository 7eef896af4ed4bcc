"""Tables in CSV and Parquet files, messages for files that cannot be read, and what is no table of edges."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from veilgraph.errors import GraphError
from veilgraph.graph import Graph, read_ids, read_table
from veilgraph.graph.io import frame_to_csv
from veilgraph.graph.shard_writer import write_shards

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
    assert refusal.value.__context__ is None or refusal.value.__suppress_context__


def test_a_separator_that_no_office_writes_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id|age\n007|31\n")
    with pytest.raises(GraphError, match=r"if '\|' separates columns there, save the table with commas"):
        read_table(tmp_path / "t.csv")


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
    (tmp_path / name).touch()
    with pytest.raises(GraphError, match=r"a table is \.csv or \.parquet, not"):
        read_table(tmp_path / name)


def test_numbers_of_a_table_stay_numbers() -> None:
    table = pd.DataFrame({"node": ["=1+1", "b"], "p": [-0.5, 0.25], "n": [-1, 2], "reported": [True, False]})
    assert frame_to_csv(table) == '"node","p","n","reported"\n"\'=1+1",-0.5,-1,True\n"b",0.25,2,False\n'
    assert table["node"].tolist() == ["=1+1", "b"], "the table was changed"


@pytest.mark.parametrize("header", ["id;age", "ID;age", "name;id", "id;contact;since"])
def test_a_table_of_people_is_no_table_of_edges(header: str, tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text(f"{header}\n" + ";".join("1" * len(header.split(";"))) + "\n")
    for read in (Graph.from_files, lambda table: write_shards(tmp_path / "shards", table, parts=1)):
        with pytest.raises(GraphError, match="is a table of people: it has a column 'id'; give it as the nodes"):
            read(path)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_shards_and_a_graph_read_the_same_table(separator: str, encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "edges.csv"
    rows = ["from,to", "ä,b", "b,007", '"c d",ä']
    path.write_text("".join(f"{row}\n" for row in rows).replace(",", separator), encoding=encoding)
    shards = write_shards(tmp_path / "shards", path, parts=2)
    assert shards.graph().fingerprint == Graph.from_files(path).fingerprint


@pytest.mark.parametrize("name", ["people.csv", "people.parquet"])
@pytest.mark.parametrize(
    ("ids", "fault"),
    [
        (["u1", "u2", "u1"], "row 3: the id 'u1' occurs twice, first in row 1; ids must be unique"),
        (["u1", "u2 "], "row 2: the id begins or ends with a blank; remove it"),
    ],
)
def test_an_id_that_would_lose_a_person_is_refused_with_its_row(
    name: str, ids: list[str], fault: str, tmp_path: Path
) -> None:
    path = write(pd.DataFrame({"id": ids, "age": range(len(ids))}), tmp_path / name)
    with pytest.raises(GraphError, match=fault):
        read_ids(path)
