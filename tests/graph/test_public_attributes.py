"""What the organiser knows without asking: kinds of columns, their numbers, and bad input."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import csr_array

from veilgraph.errors import GraphError
from veilgraph.graph import PublicAttributes
from veilgraph.graph.attribute_kinds import Categories, Embedding, Numbers
from veilgraph.graph.pyg import make_data
from veilgraph.privacy.public_columns import PublicColumn

PEOPLE = pd.DataFrame(
    {
        "id": ["u1", "u2", "u3", "u4"],
        "age": ["30", "", "50", "70"],
        "village": ["A", "B", "", "A"],
        "member": [True, False, False, True],
        "joined": ["2020-01-01", "2020-01-03", "", "2020-01-05"],
        "profile": [np.array([1.0, 0.5]), np.array([0.0, 1.5]), None, np.array([2.0, 0.0])],
    }
)
IDS = ["u1", "u2", "u3", "u4"]


def _dense(block: Any) -> Any:
    return block if isinstance(block, np.ndarray) else block.toarray()


def test_the_kind_of_a_column_follows_from_its_cells() -> None:
    public = PublicAttributes.from_table(PEOPLE, ids=IDS)
    kinds = {each.name: type(each) for each in public}
    assert kinds == {"age": Numbers, "village": Categories, "member": Categories, "joined": Numbers} | {
        "profile": Embedding
    }
    joined = public["joined"]
    assert isinstance(joined, Numbers)
    assert joined.dates
    assert np.diff(joined.values[[0, 1, 3]]).tolist() == [2, 2]


def test_a_declared_kind_is_kept() -> None:
    codes = PublicColumn(name="age", kind="category")
    assert isinstance(PublicAttributes.from_table(PEOPLE, ids=IDS, columns=[codes])["age"], Categories)


def test_rows_come_in_the_order_of_the_graph_and_other_people_are_left_out() -> None:
    public = PublicAttributes.from_table(PEOPLE, ids=["u4", "u1"], columns=[PublicColumn(name="age")])
    assert public.num_nodes == 2
    age = public["age"]
    assert isinstance(age, Numbers)
    assert age.values.tolist() == [70, 30]


def test_dates_of_parquet_and_of_text_are_the_same_days() -> None:
    days = [datetime.date(2020, 1, 1), pd.Timestamp("2020-01-02"), "2020-01-03", "2020-01-04T10:30:00"]
    table = pd.DataFrame({"id": IDS, "day": pd.Series(days, dtype=object)})
    day = PublicAttributes.from_table(table, ids=IDS)["day"]
    assert isinstance(day, Numbers)
    assert np.diff(day.values).tolist() == [1, 1, 1]
    assert day.groups().names == ("2020-01-01", "2020-01-02", "2020-01-03", "2020-01-04")


def test_numbers_are_standardised_coded_where_few_and_bounded() -> None:
    encoded = _dense(Numbers(name="age", values=np.array([20.0, 40.0, np.nan])).encoded())
    np.testing.assert_allclose(encoded, [[-1, 0], [1, 0], [0, 1]])
    encoded = _dense(Numbers(name="sons", values=np.array([0.0, 1.0, 2.0, 1.0])).encoded())
    np.testing.assert_array_equal(encoded[:, 1:], [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 1, 0]])
    values = np.append(np.arange(1000.0), 1e12)
    assert np.abs(_dense(Numbers(name="income", values=values).encoded())).max() <= 4


def test_categories_and_embeddings_have_a_variance_of_1_in_all() -> None:
    encoded = _dense(Categories.of("village", ["A", "B", "B", None, "C", "B"]).encoded())
    assert encoded.shape == (6, 4)
    assert encoded.var(axis=0).sum() == pytest.approx(1)
    rows = np.random.default_rng(0).normal(3, [1, 10, 100], size=(50, 3)).astype(np.float32)
    assert _dense(Embedding(name="profile", rows=rows).encoded()).var(axis=0).sum() == pytest.approx(1, rel=1e-5)


@pytest.mark.parametrize("make", [np.array, csr_array])
def test_zeros_and_ones_become_tf_idf_rows_of_norm_1(make: Any) -> None:
    rows = make(np.array([[1, 1, 0, 1], [1, 0, 1, 0], [1, 0, 1, 0], [1, 0, 0, 0]], dtype=np.float32))
    encoded = _dense(PublicAttributes.from_matrix(rows).encoded()[0])
    np.testing.assert_allclose(np.linalg.norm(encoded, axis=1), [1, 1, 1, 0], rtol=1e-6)
    assert (encoded[:, 0] == 0).all(), "a word that everybody has says nothing"
    assert encoded[0, 1] == pytest.approx(math.sqrt(1 / 2))


def test_the_same_features_are_read_from_pyg_numpy_and_scipy() -> None:
    rows = torch.tensor([[1.5, 0.0], [0.0, 2.0], [3.0, 1.0]])
    data = PublicAttributes.from_data(make_data(x=rows, num_nodes=3))
    for other in (rows.numpy(), csr_array(rows.numpy()), rows):
        np.testing.assert_allclose(
            _dense(PublicAttributes.from_matrix(other).encoded()[0]), _dense(data.encoded()[0]), rtol=1e-6
        )


def test_many_numbers_are_grouped_in_quarters_and_an_embedding_has_no_groups() -> None:
    groups = Numbers(name="age", values=np.append(np.arange(100.0), np.nan)).groups()
    assert groups.names == ("below 24.75", "24.75 to below 49.5", "49.5 to below 74.25", "74.25 or more")
    assert np.bincount(groups.codes[:-1]).tolist() == [25, 25, 25, 25]
    assert groups.codes[-1] == -1
    with pytest.raises(GraphError, match="'profile' is an embedding and has no groups: name another column"):
        PublicAttributes.from_table(PEOPLE, ids=IDS)["profile"].groups()


def _with(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"id": IDS} | columns)


@pytest.mark.parametrize(
    ("table", "columns", "reason"),
    [
        (_with(age=["3", "3", "3", "3"]), None, "'age' is the same for everybody and tells nothing: take it out"),
        (_with(age=["", "", "", ""]), None, "'age' has no value for anybody: take it out"),
        (_with(age=["1", "2", "x", "3"]), [PublicColumn(name="age", kind="number")], "'age', row 3: not a number"),
        (_with(day=["1", "2", "x", "3"]), [PublicColumn(name="day", kind="date")], "'day', row 1: not a date"),
        (_with(age=["1", "2", "inf", "3"]), None, "'age', row 3: not a finite number"),
        (_with(p=[[1.0], [1.0, 2.0], [2.0, 1.0], None]), None, "'p', row 1: an embedding of 1 numbers, others have 2"),
        (_with(p=[[1.0], [math.inf], [2.0], [3.0]]), None, "'p', row 2: a number is not finite"),
        (_with(p=[[1.0], [1.0], [1.0], [1.0]]), None, "'p' is the same for everybody and tells nothing: take it out"),
        (_with(), None, "there are no public columns: name at least one"),
        (_with(age=["1", "2", "3", "4"]), [PublicColumn(name="town")], "the table has no column 'town'"),
        (PEOPLE[1:], None, "the table lacks 1 of 4 people on the graph, such as 'u1': add a row for each"),
    ],
)
def test_bad_input_is_refused_with_the_remedy(
    table: pd.DataFrame, columns: list[PublicColumn] | None, reason: str
) -> None:
    with pytest.raises(GraphError, match=reason):
        PublicAttributes.from_table(table, ids=IDS, columns=columns)


def test_columns_of_two_tables_stand_side_by_side() -> None:
    table = PublicAttributes.from_table(PEOPLE, ids=IDS, columns=[PublicColumn(name="age")])
    both = table + PublicAttributes.from_matrix(np.eye(4))
    assert both.names == ("age", "x")
    with pytest.raises(GraphError, match="two public columns have one name"):
        table + table
    with pytest.raises(GraphError, match="public columns have 3 and 4 rows"):
        table + PublicAttributes.from_matrix(np.eye(3))


def test_an_embedding_is_read_from_a_file_beside_the_table(tmp_path: Path) -> None:
    people, columns = tmp_path / "people.csv", [PublicColumn(name="age"), PublicColumn(name="profile")]
    _with(age=["1", "2", "3", "4"]).to_csv(people, index=False)
    matrix = np.arange(8.0).reshape(4, 2)
    np.save(tmp_path / "profile.npy", matrix)
    public = PublicAttributes.from_file(people, ids=["u3", "u1"], columns=columns)
    profile = public["profile"]
    assert isinstance(profile, Embedding)
    np.testing.assert_array_equal(profile.rows, matrix[[2, 0]])
    np.save(tmp_path / "profile.npy", matrix[:3])
    with pytest.raises(GraphError, match=r"has the shape \(3, 2\): give a matrix with a row for each of the 4 rows"):
        PublicAttributes.from_file(people, ids=["u3", "u1"], columns=columns)
    (tmp_path / "profile.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(GraphError, match="is not a readable matrix of numbers"):
        PublicAttributes.from_file(people, ids=["u3", "u1"], columns=columns)
    (tmp_path / "profile.npy").unlink()
    with pytest.raises(GraphError, match="has no column 'profile', which is declared as public"):
        PublicAttributes.from_file(people, ids=["u3", "u1"], columns=columns)


@pytest.mark.parametrize("cell", ["HIV-pos", ["0", "HIV-pos"], {"HIV-pos": 1}, [[1.0], "HIV-pos"]])
def test_a_cell_that_holds_no_numbers_is_named_by_its_row_and_never_quoted(cell: object) -> None:
    table = pd.DataFrame({"id": ["u1", "u2"], "profile": pd.Series([[1.0, 2.0], cell], dtype=object)})
    column = PublicColumn(name="profile", kind="embedding")
    with pytest.raises(GraphError, match="public column 'profile', row 2: not a list of numbers") as found:
        PublicAttributes.from_table(table, ids=["u1", "u2"], columns=[column])
    assert "HIV" not in str(found.value)
    assert found.value.__suppress_context__


def _npz(path: Path) -> None:
    np.savez(path.with_suffix(".npz"), x=np.ones((4, 2)))
    path.with_suffix(".npz").rename(path)


@pytest.mark.parametrize(
    "write",
    [
        lambda path: np.save(path, np.array([["HIV-pos", "b"]] * 4)),
        lambda path: np.save(path, np.ones((4, 2), dtype=np.complex64)),
        lambda path: np.save(path, np.zeros((4, 2), dtype=[("a", "f4"), ("b", "i4")])),
        lambda path: np.save(path, np.array([["HIV-pos", None]] * 4, dtype=object), allow_pickle=True),
        lambda path: np.save(path, np.zeros((4, 2), dtype="datetime64[D]")),
        _npz,
        lambda path: path.write_bytes(b"PK\x03\x04HIV-pos"),
        lambda path: path.write_text("1,HIV-pos"),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"\x93NUMPY\x01\x00\x08\x00{'HIV-po"),
        lambda path: path.write_bytes(b"\x93NUMPY\x01\x00\x08\x00{'a': (\n"),
        lambda path: path.write_bytes(b"\x93NUMPY\x01\x00\x04\x00{}  "),
    ],
)
def test_a_file_that_is_no_matrix_of_real_numbers_is_one_sentence(
    write: Callable[[Path], object], tmp_path: Path
) -> None:
    people = tmp_path / "people.csv"
    _with(age=["1", "2", "3", "4"]).to_csv(people, index=False)
    write(tmp_path / "profile.npy")
    with pytest.raises(GraphError, match=r"profile\.npy (is not a readable matrix of|holds no real) numbers") as found:
        PublicAttributes.from_file(people, ids=["u1"], columns=[PublicColumn(name="profile")])
    assert "HIV" not in str(found.value)


@pytest.mark.parametrize("name", ["../x", "a/b", "x" * 300, "\N{GRINNING FACE}" * 60, ".", ".."])
def test_a_name_that_no_file_beside_the_table_can_have_is_a_missing_column(name: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    np.save(tmp_path / "x.npy", np.arange(8.0).reshape(4, 2))
    people = tmp_path / "in" / "people.csv"
    _with(age=["1", "2", "3", "4"]).to_csv(people, index=False)
    with pytest.raises(GraphError, match="which is declared as public"):
        PublicAttributes.from_file(people, ids=["u1"], columns=[PublicColumn(name=name)])


def test_the_ids_are_no_public_column() -> None:
    with pytest.raises(GraphError, match="'id' is declared as public, but it names the people"):
        PublicAttributes.from_table(PEOPLE, ids=IDS, columns=[PublicColumn(name="id")])


def test_a_parquet_table_holds_booleans_dates_and_lists(tmp_path: Path) -> None:
    people = tmp_path / "people.parquet"
    PEOPLE.assign(joined=pd.to_datetime(PEOPLE["joined"])).to_parquet(people)
    public = PublicAttributes.from_file(
        people, ids=IDS, columns=[PublicColumn(name=name) for name in PEOPLE.columns[1:]]
    )
    kinds = {each.name: type(each) for each in public}
    assert kinds["member"] is Categories
    assert kinds["profile"] is Embedding
    joined = public["joined"]
    assert isinstance(joined, Numbers)
    assert joined.dates
    assert joined.missing.tolist() == [False, False, True, False]
