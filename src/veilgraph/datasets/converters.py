"""Converters from original files to `Archive`, one for each format.

*Planetoid* files of Cora, Citeseer and Pubmed are pickles written by Python 2:

| part | content |
|---|---|
| `allx`, `ally` | features (CSR) and one-hot labels of the nodes outside the test set, by node number |
| `tx`, `ty` | features and labels of the test nodes |
| `test.index` | node number of each row of `tx`, one per line |
| `graph` | dictionary from each node to the list of its neighbours |

*graph2gauss* stores a matrix as plain arrays (`adj_data`, `adj_indices`, `adj_indptr`, and the same with `attr_`) and
the classes as `labels`. Its copies in GraphData store each matrix as one pickled object: `adj_matrix`, `node_attr` and
`node_label`. Other members are not read.

*MUSAE* networks (Facebook pages, Twitch streamers, LastFM users) are text files; LastFM comes without features:

| part | content |
|---|---|
| `edges` | CSV with a header: the two nodes of each edge |
| `features` | JSON: from the number of a node to the numbers of its features, with duplicates |
| `target` | CSV with a header: the number of a node, and its label under one of several names |

*German* and *Student*, the semi-synthetic graphs of the paper's authors, are pickled igraph graphs with vertex
attributes. Attributes become 0/1 columns as in the authors' experiments: by a threshold, by bins, or by one column for
each value.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray

from veilgraph.datasets.archive import MAX_UNPACKED_BYTES, Archive, positive_entries
from veilgraph.datasets.restricted_unpickler import load_restricted
from veilgraph.graph.array_files import check_members, read_header, read_plain_array


def convert_planetoid(name: str, files: Mapping[str, bytes]) -> Archive:
    """Convert six files of Planetoid; a node number that no file mentions is a node without features and label."""
    test = np.array([int(line) for line in files["test.index"].split()], dtype=np.int64)
    known_labels = load_restricted(files["ally"])
    rest = np.arange(len(known_labels))
    nodes = int(test.max()) + 1
    labels = np.zeros(nodes, dtype=np.int64)
    labels[rest] = known_labels.argmax(axis=1)
    labels[test] = load_restricted(files["ty"]).argmax(axis=1)
    rest_rows, rest_columns, width = _planetoid_matrix(files["allx"])
    test_rows, test_columns, _ = _planetoid_matrix(files["tx"])
    return Archive.from_parts(
        name=name,
        edges=_planetoid_edges(load_restricted(files["graph"])),
        labels=labels,
        ones=np.stack([np.concatenate([rest_rows, test[test_rows]]), np.concatenate([rest_columns, test_columns])]),
        width=width,
        unlabeled=np.setdiff1d(np.arange(nodes), np.concatenate([rest, test])),
    )


def _planetoid_matrix(content: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    state = load_restricted(content).state
    rows, columns = positive_entries(state["data"], state["indices"], state["indptr"])
    return rows, columns, int(state["_shape"][1])


def _planetoid_edges(neighbours: Mapping[int, list[int]]) -> NDArray[Any]:
    pairs = [(node, neighbour) for node, listed in neighbours.items() for neighbour in listed]
    return np.array(pairs, dtype=np.int64).T


def convert_graph2gauss(name: str, files: Mapping[str, bytes]) -> Archive:
    """Convert graph2gauss; edges of both directions count once, and a feature is 1 where its weight is positive."""
    with ZipFile(io.BytesIO(files["archive"])) as archive:
        check_members(archive.infolist(), MAX_UNPACKED_BYTES)
        plain = "adj_data.npy" in archive.namelist()
        adjacency = _plain_matrix(archive, "adj") if plain else _pickled_matrix(archive, "adj_matrix")
        attributes = _plain_matrix(archive, "attr") if plain else _pickled_matrix(archive, "node_attr")
        labels = _array(archive, "labels" if plain else "node_label")
    rows, columns = positive_entries(attributes["data"], attributes["indices"], attributes["indptr"])
    return Archive.from_parts(
        name=name,
        edges=np.stack(positive_entries(adjacency["data"], adjacency["indices"], adjacency["indptr"])),
        labels=labels,
        ones=np.stack([rows, columns]),
        width=int(attributes["_shape"][1]),
    )


def _plain_matrix(archive: ZipFile, prefix: str) -> dict[str, Any]:
    keys = {"data": "data", "indices": "indices", "indptr": "indptr", "_shape": "shape"}
    return {key: _array(archive, f"{prefix}_{suffix}") for key, suffix in keys.items()}


def _pickled_matrix(archive: ZipFile, member: str) -> dict[str, Any]:
    """Read an array of one pickled object, without the unrestricted unpickler of NumPy."""
    stream = io.BytesIO(archive.read(f"{member}.npy"))
    read_header(stream)
    state: dict[str, Any] = load_restricted(stream.read()).item().state
    return state


def _array(archive: ZipFile, member: str) -> NDArray[Any]:
    with archive.open(f"{member}.npy") as file:
        return read_plain_array(file)


_PAGE_TYPES = ("company", "tvshow", "politician", "government")
_FACEBOOK_COLUMNS = 4714
_TWITCH_COLUMNS = 3170  # shared by all languages, so some columns are empty in each of them

# Old and new files name the label differently.
_MUSAE_LABELS: Mapping[str, Callable[[str], int]] = {
    "target": int,
    "page_type": _PAGE_TYPES.index,
    "mature": ("False", "True").index,
}


def convert_facebook(name: str, files: Mapping[str, bytes]) -> Archive:
    """Convert Facebook: pages that like each other, words of their descriptions, and the type of page."""
    return _convert_musae(name, files, width=_FACEBOOK_COLUMNS, class_names=_PAGE_TYPES)


def convert_twitch(name: str, files: Mapping[str, bytes]) -> Archive:
    """Convert Twitch: streamers who follow each other, the games they like, and whether they use explicit language."""
    return _convert_musae(name, files, width=_TWITCH_COLUMNS)


def convert_lastfm(name: str, files: Mapping[str, bytes]) -> Archive:
    """Convert LastFM Asia: users who follow each other, and their countries; it has no features."""
    return _convert_musae(name, {**files, "features": b"{}"}, width=0)


def _convert_musae(name: str, files: Mapping[str, bytes], *, width: int, class_names: Sequence[str] = ()) -> Archive:
    _, *edges = csv.reader(_lines(files["edges"]))
    listed = json.loads(files["features"])
    ones = [(int(node), feature) for node, features in listed.items() for feature in features]
    rows, columns = np.array(ones, dtype=np.int64).reshape(-1, 2).T
    return Archive.from_parts(
        name=name,
        edges=np.array(edges, dtype=np.int64).T,
        labels=_musae_labels(csv.DictReader(_lines(files["target"]))),
        ones=np.stack([rows, columns]),
        width=width,
        class_names=class_names,
    )


def _musae_labels(records: Iterable[dict[str, Any]]) -> NDArray[np.int64]:
    """Return the labels sorted by node number; every number from 0 must have one."""
    label_of: dict[int, int] = {}
    for record in records:
        key = next(key for key in _MUSAE_LABELS if key in record)
        label_of[int(record["new_id" if "new_id" in record else "id"])] = _MUSAE_LABELS[key](record[key])
    return np.array([label_of[node] for node in range(len(label_of))], dtype=np.int64)


def _lines(content: bytes) -> list[str]:
    return content.decode("utf-8").splitlines()


_Numbers = NDArray[np.float64]
_Column = NDArray[np.bool_]
_Rules = Mapping[str, Callable[[_Numbers], _Column]]

GERMAN_BINARY = """
    Gender ForeignWorker Single LoanRateAsPercentOfIncome YearsAtCurrentHome NumberOfOtherLoansAtBank
    NumberOfLiableIndividuals HasTelephone CheckingAccountBalance_geq_0 CheckingAccountBalance_geq_200
    SavingsAccountBalance_geq_100 SavingsAccountBalance_geq_500 MissedPayments NoCurrentLoan
    CriticalAccountOrLoansElsewhere OtherLoansAtBank HasCoapplicant HasGuarantor OwnsHouse RentsHouse Unemployed
    YearsAtCurrentJob_lt_1 YearsAtCurrentJob_geq_4 JobClassIsSkilled PurposeOfLoan_Business PurposeOfLoan_Education
    PurposeOfLoan_Electronics PurposeOfLoan_Furniture PurposeOfLoan_HomeAppliances PurposeOfLoan_NewCar
    PurposeOfLoan_Other PurposeOfLoan_Repairs PurposeOfLoan_Retraining PurposeOfLoan_UsedCar
"""
_GERMAN_RULES: _Rules = {
    "LoanRateAsPercentOfIncome": lambda rate: rate >= 3,
    "YearsAtCurrentHome": lambda years: years >= 3,
    "NumberOfOtherLoansAtBank": lambda count: count > 1,
    "NumberOfLiableIndividuals": lambda count: _binary(count - 1),
}
# Lower bounds of the bins; a value on a bound belongs to the bin below it.
_GERMAN_BINS = {
    "Age": (0, 30, 50),
    "LoanDuration": (0, 10, 20, 30),
    "LoanAmount": (0, 1000, 2000, 3000, 4000),
}

STUDENT_BINARY = """
    school sex address famsize Pstatus schoolsup famsup paid activities nursery higher internet romantic G1 G2
"""
_STUDENT_RULES: _Rules = {"G1": lambda grade: grade >= 10, "G2": lambda grade: grade >= 10}
STUDENT_VALUES = {
    "age": range(15, 20),
    "Medu": range(5),
    "Fedu": range(5),
    "Mjob": range(5),
    "Fjob": range(5),
    "reason": range(4),
    "guardian": range(3),
    "traveltime": range(1, 5),
    "failures": range(4),
    "goout": range(5),
}
_OLDEST = 19


def convert_german(name: str, files: Mapping[str, bytes]) -> Archive:
    """Convert German: clients of a bank; the label says whether they are good customers."""
    edges, attributes = _igraph(files["graph"])
    columns = _binary_columns(attributes, GERMAN_BINARY, _GERMAN_RULES)
    for attribute, lower_bounds in _GERMAN_BINS.items():
        bins = np.searchsorted(lower_bounds[1:], attributes[attribute], side="left")
        columns |= {f"{attribute}={low}": bins == i for i, low in enumerate(lower_bounds)}
    return _archive_of_columns(name, edges, attributes["class"], columns)


def convert_student(name: str, files: Mapping[str, bytes]) -> Archive:
    """Convert Student: pupils of two schools; the label is their final grade. Age 20 counts as 19."""
    edges, attributes = _igraph(files["graph"])
    attributes["age"] = np.where(attributes["age"] == _OLDEST + 1, _OLDEST, attributes["age"])
    columns = _binary_columns(attributes, STUDENT_BINARY, _STUDENT_RULES)
    for attribute, values in STUDENT_VALUES.items():
        if not np.isin(attributes[attribute], values).all():
            raise ValueError(f"attribute '{attribute}' has a value outside {values[0]}..{values[-1]}")
        columns |= {f"{attribute}={value}": attributes[attribute] == value for value in values}
    return _archive_of_columns(name, edges, attributes["class"], columns)


def _igraph(content: bytes) -> tuple[NDArray[Any], dict[str, _Numbers]]:
    """Return the edges [2, edges] and the value of every attribute for each vertex."""
    _, edges, _, _, attributes, _ = load_restricted(content).arguments
    numbers = {str(key): np.array(values, dtype=np.float64) for key, values in attributes.items()}
    return np.array(edges, dtype=np.int64).T, numbers


def _binary_columns(attributes: Mapping[str, _Numbers], names: str, rules: _Rules) -> dict[str, _Column]:
    return {name: rules.get(name, _binary)(attributes[name]) for name in names.split()}


def _binary(values: _Numbers) -> _Column:
    if not np.isin(values, (0, 1)).all():
        raise ValueError("an attribute that should be 0 or 1 has another value")
    ones: _Column = values == 1
    return ones


def _archive_of_columns(name: str, edges: NDArray[Any], labels: _Numbers, columns: Mapping[str, _Column]) -> Archive:
    rows, ones = np.nonzero(np.stack(list(columns.values()), axis=1))
    return Archive.from_parts(
        name=name,
        edges=edges,
        labels=labels,
        ones=np.stack([rows, ones]),
        width=len(columns),
        feature_names=list(columns),
    )


Converter = Callable[[str, Mapping[str, bytes]], Archive]
"""Function from the name of a data set and the bytes of its files, by part, to an archive."""

CONVERTERS: Mapping[str, Converter] = {
    "planetoid": convert_planetoid,
    "graph2gauss": convert_graph2gauss,
    "musae-facebook": convert_facebook,
    "musae-twitch": convert_twitch,
    "musae-lastfm": convert_lastfm,
    "german": convert_german,
    "student": convert_student,
}
"""Converters by the name of the format in the catalogue."""
