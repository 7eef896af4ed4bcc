"""Files of every source are converted without loss; the authors' pickled graphs become 0/1 columns."""

from __future__ import annotations

import io
import os
import pickle
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest

from tests.support.originals import (
    german_file,
    graph2gauss_file,
    igraph_pickle,
    musae_files,
    planetoid_files,
    small_archive,
    student_file,
)
from tests.support.public_data import real_archive
from veilgraph.datasets.archive import Archive
from veilgraph.datasets.catalogue import find_dataset
from veilgraph.datasets.converters import (
    CONVERTERS,
    GERMAN_BINARY,
    STUDENT_BINARY,
    STUDENT_VALUES,
    convert_facebook,
    convert_german,
    convert_graph2gauss,
    convert_lastfm,
    convert_planetoid,
    convert_student,
    convert_twitch,
)
from veilgraph.graph.array_files import ArchiveError


@pytest.mark.parametrize("unlabeled", [False, True])
@pytest.mark.parametrize("weight", [1.0, 0.03])
def test_small_planetoid_files_are_converted_whole(unlabeled: bool, weight: float) -> None:
    archive = small_archive(unlabeled=unlabeled)
    assert convert_planetoid("small", planetoid_files(archive, rest=3, weight=weight)).checksum == archive.checksum


def test_a_node_that_no_file_mentions_has_neither_features_nor_label() -> None:
    converted = convert_planetoid("small", planetoid_files(small_archive(unlabeled=True), rest=3))
    assert converted.arrays["unlabeled_nodes"].tolist() == [4]
    assert converted.features[4].sum() == 0


@pytest.mark.parametrize(("name", "rest"), [("cora", 1708), ("citeseer", 2312)])
def test_planetoid_files_like_the_real_ones_give_the_catalogued_arrays(name: str, rest: int) -> None:
    assert (
        convert_planetoid(name, planetoid_files(real_archive(name), rest=rest)).checksum == find_dataset(name).checksum
    )


@pytest.mark.parametrize("pickled", [False, True])
def test_a_small_archive_of_graph2gauss_is_converted_whole(pickled: bool) -> None:
    archive = small_archive()
    assert convert_graph2gauss("small", graph2gauss_file(archive, pickled=pickled)).checksum == archive.checksum


@pytest.mark.parametrize("pickled", [False, True])
def test_an_archive_like_the_real_one_gives_the_catalogued_arrays(pickled: bool) -> None:
    files = graph2gauss_file(real_archive("dblp"), pickled=pickled)
    assert convert_graph2gauss("dblp", files).checksum == find_dataset("dblp").checksum


@pytest.mark.parametrize("member", ["adj_matrix", "labels"])
def test_a_header_that_claims_any_size_is_refused(member: str) -> None:
    buffer = io.BytesIO()
    with ZipFile(buffer, "w") as archive:
        text = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }\n"
        content = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(8)
        archive.writestr(f"{member}.npy", content)
        archive.writestr("adj_data.npy" if member == "labels" else "node_attr.npy", content)
    with pytest.raises((ArchiveError, pickle.UnpicklingError)):
        convert_graph2gauss("small", {"archive": buffer.getvalue()})


def test_a_member_that_is_a_program_is_not_executed(tmp_path: Path) -> None:
    class Payload:
        def __reduce__(self) -> Any:
            return os.system, (f"touch {tmp_path}/executed",)

    buffer = io.BytesIO()
    np.savez(buffer, adj_matrix=np.array(Payload(), dtype=object))
    with pytest.raises(pickle.UnpicklingError, match="which such a file does not need"):
        convert_graph2gauss("small", {"archive": buffer.getvalue()})
    assert not list(tmp_path.iterdir())


PAGE_TYPES = ("company", "tvshow", "politician", "government")


@pytest.mark.parametrize(("label", "names"), [("target", ()), ("page_type", PAGE_TYPES)])
def test_small_pages_are_converted_whole(label: str, names: tuple[str, ...]) -> None:
    archive = small_archive(width=4714, class_names=PAGE_TYPES)
    files = musae_files(archive, label=label, names=names)
    assert convert_facebook("small", files).checksum == archive.checksum


@pytest.mark.parametrize(("label", "names"), [("target", ()), ("mature", ("False", "True"))])
def test_small_streamers_are_converted_whole(label: str, names: tuple[str, ...]) -> None:
    archive = small_archive(width=3170, loops=False)
    files = musae_files(archive, label=label, names=names)
    assert convert_twitch("small", files).checksum == archive.checksum


def test_small_listeners_are_converted_without_features() -> None:
    archive = small_archive(loops=False)
    files = musae_files(archive)
    del files["features"]
    converted = convert_lastfm("small", files)
    assert converted.features.shape == (6, 0)
    for name in ("edge_index", "y"):
        assert np.array_equal(converted.arrays[name], archive.arrays[name])


def test_a_node_whose_label_is_missing_is_noticed() -> None:
    files = musae_files(small_archive(width=3170))
    rest = [line for line in files["target"].splitlines(keepends=True) if not line.startswith(b"3,")]
    with pytest.raises(KeyError):
        convert_twitch("small", files | {"target": b"".join(rest)})


@pytest.mark.parametrize("name", ["facebook", "lastfm", "twitch_engb"])
def test_musae_files_like_the_real_ones_give_the_catalogued_arrays(name: str) -> None:
    dataset = find_dataset(name)
    files = musae_files(real_archive(name))
    assert CONVERTERS[dataset.origins[0].format](name, files).checksum == dataset.checksum


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


def test_pupils_have_60_columns_and_grades_are_cut_at_10_and_counted_to_19(pupils: Attributes) -> None:
    archive = converted(pupils, "student")
    assert archive.arrays["x_shape"].tolist() == [3, 60]
    assert column(archive, "G1") == [0, 1, 1]
    assert column(archive, "traveltime=4") == [0, 1, 0]
    assert column(converted(pupils | {"age": [19, 20, 15]}, "student"), "age=19") == [1, 1, 0]


@pytest.mark.parametrize(("name", "value"), [("age", 21), ("reason", 4), ("sex", 2)])
def test_a_value_that_the_authors_do_not_have_is_refused(name: str, value: int, pupils: Attributes) -> None:
    with pytest.raises(ValueError, match=r"outside|another value"):
        converted(pupils | {name: [value, 1, 1]}, "student")


def test_graphs_like_the_authors_give_the_catalogued_arrays() -> None:
    german, student = real_archive("german"), real_archive("student")
    assert convert_german("german", german_file(german)).checksum == find_dataset("german").checksum
    assert convert_student("student", student_file(student)).checksum == find_dataset("student").checksum
