"""The authors' pickled graphs become 0/1 columns."""

from __future__ import annotations

import pytest

from tests.support.originals import german_file, igraph_pickle, student_file
from tests.support.public_data import real_archive
from veilgraph.datasets.archive import Archive
from veilgraph.datasets.catalogue import find_dataset
from veilgraph.datasets.sources.paper_authors import (
    GERMAN_BINARY,
    STUDENT_BINARY,
    STUDENT_VALUES,
    convert_german,
    convert_student,
)

Attributes = dict[str, list[int]]


@pytest.fixture
def clients() -> Attributes:
    binary = {name: [0, 1, 0] for name in GERMAN_BINARY.split()}
    cut = {
        "LoanRateAsPercentOfIncome": [2, 3, 4],
        "YearsAtCurrentHome": [2, 3, 4],
        "NumberOfOtherLoansAtBank": [1, 2, 3],
        "NumberOfLiableIndividuals": [1, 2, 1],
        "Age": [30, 31, 51],
        "LoanDuration": [10, 20, 31],
        "LoanAmount": [1000, 1001, 4001],
    }
    return binary | cut | {"class": [0, 1, 1], "OtherLoansAtStore": [5, 5, 5]}


@pytest.fixture
def pupils() -> Attributes:
    binary = {name: [0, 1, 0] for name in STUDENT_BINARY.split()}
    values = {name: [values[0], values[-1], values[1]] for name, values in STUDENT_VALUES.items()}
    return binary | values | {"G1": [9, 10, 11], "G2": [0, 20, 9], "class": [0, 1, 1], "health": [1, 2, 3]}


def converted(attributes: Attributes, kind: str) -> Archive:
    content = igraph_pickle([(0, 1), (1, 2), (1, 0)], attributes)
    return {"german": convert_german, "student": convert_student}[kind]("small", {"graph": content})


def column(archive: Archive, name: str) -> list[int]:
    values: list[int] = archive.features[:, archive.arrays["feature_names"].tolist().index(name)].tolist()
    return values


@pytest.mark.parametrize(
    ("name", "values"),
    {
        "Gender": [0, 1, 0],
        "LoanRateAsPercentOfIncome": [0, 1, 1],
        "YearsAtCurrentHome": [0, 1, 1],
        "NumberOfOtherLoansAtBank": [0, 1, 1],
        "NumberOfLiableIndividuals": [0, 1, 0],
        "Age=0": [1, 0, 0],
        "Age=30": [0, 1, 0],
        "Age=50": [0, 0, 1],
        "LoanDuration=0": [1, 0, 0],
        "LoanDuration=10": [0, 1, 0],
        "LoanDuration=20": [0, 0, 0],
        "LoanDuration=30": [0, 0, 1],
        "LoanAmount=0": [1, 0, 0],
        "LoanAmount=1000": [0, 1, 0],
        "LoanAmount=4000": [0, 0, 1],
    }.items(),
)
def test_attributes_of_clients_are_cut_where_the_authors_cut_them(
    name: str, values: list[int], clients: Attributes
) -> None:
    assert column(converted(clients, "german"), name) == values


def test_clients_have_46_columns_and_each_edge_once(clients: Attributes) -> None:
    archive = converted(clients, "german")
    assert archive.arrays["x_shape"].tolist() == [3, 46]
    assert archive.arrays["edge_index"].tolist() == [[0, 1], [1, 2]]
    assert archive.arrays["y"].tolist() == [0, 1, 1]


def test_pupils_have_60_columns_and_grades_are_cut_at_10(pupils: Attributes) -> None:
    archive = converted(pupils, "student")
    assert archive.arrays["x_shape"].tolist() == [3, 60]
    assert column(archive, "G1") == [0, 1, 1]
    assert column(archive, "traveltime=4") == [0, 1, 0]


def test_pupils_of_20_count_as_19(pupils: Attributes) -> None:
    assert column(converted(pupils | {"age": [19, 20, 15]}, "student"), "age=19") == [1, 1, 0]


@pytest.mark.parametrize(("name", "value"), [("age", 21), ("reason", 4), ("sex", 2)])
def test_a_value_that_the_authors_do_not_have_is_refused(name: str, value: int, pupils: Attributes) -> None:
    with pytest.raises(ValueError, match=r"outside|another value"):
        converted(pupils | {name: [value, 1, 1]}, "student")


def test_files_like_the_real_ones_give_the_catalogued_arrays() -> None:
    german, student = real_archive("german"), real_archive("student")
    assert convert_german("german", german_file(german)).checksum == find_dataset("german").checksum
    assert convert_student("student", student_file(student)).checksum == find_dataset("student").checksum
