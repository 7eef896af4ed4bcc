"""A small graph, and writers of original files: the reverse of the converters."""

from __future__ import annotations

import csv
import io
import json
import pickle
import sys
from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from veilgraph.datasets.archive import Archive
from veilgraph.datasets.catalogue import Dataset

Files = dict[str, bytes]


def small_archive(*, width: int = 6, unlabeled: bool = False, loops: bool = True, **names: Any) -> Archive:
    """Return six nodes; node 4 may lack features and label, as some nodes of Citeseer do."""
    ones = np.array([[0, 1], [0, 4], [1, 0], [2, 5], [3, 2], [3, 3], [5, 1]])
    edges = np.array([[0, 1, 2, 4, 5, 3], [1, 2, 3, 0, 3, 3 if loops else 1]])
    return Archive.from_parts(
        name="small",
        edges=edges,
        labels=np.array([0, 1, 1, 0, 0, 1]),
        ones=np.stack([ones[:, 0], ones[:, 1]]),
        width=width,
        unlabeled=np.array([4]) if unlabeled else None,
        **names,
    )


SMALL = Dataset(
    name="small",
    title="Small",
    group=4,
    nodes=6,
    edges=5,
    columns=6,
    classes=2,
    checksum=small_archive().checksum,
    licence="none",
    citation="nobody",
    origins=(),
)
"""Entry of the small graph in a catalogue, without origins."""


def matrix_of(archive: Archive, weight: float = 1.0) -> sp.csr_matrix[Any]:
    indices = archive.arrays["x_indices"].astype(np.int32)
    data = np.full(indices.size, weight, dtype=np.float32)
    return sp.csr_matrix((data, indices, archive.arrays["x_indptr"]), shape=tuple(archive.arrays["x_shape"]))


def edges_of(archive: Archive) -> list[tuple[int, int]]:
    """Return every edge once, self loops last."""
    loops = archive.arrays.get("self_loop_nodes", np.empty(0, dtype=np.int32)).tolist()
    return [*map(tuple, archive.arrays["edge_index"].T.tolist()), *zip(loops, loops, strict=True)]


def planetoid_files(archive: Archive, *, rest: int, weight: float = 1.0) -> Files:
    """Write files as Python 2 did, with old module names; the first `rest` nodes are outside the test set."""
    nodes = int(archive.arrays["num_nodes"])
    unlabeled = archive.arrays.get("unlabeled_nodes", np.empty(0, dtype=np.int32))
    test = np.setdiff1d(np.arange(rest, nodes), unlabeled)[::-1]
    one_hot = np.eye(int(archive.arrays["y"].max()) + 1, dtype=np.int32)[archive.arrays["y"]]
    features = matrix_of(archive, weight)
    neighbours: dict[int, list[int]] = defaultdict(list)
    for low, high in edges_of(archive):
        neighbours[low].append(high)
        neighbours[high].append(low)
    return {
        "allx": _python_2(features[:rest]),
        "ally": _python_2(one_hot[:rest]),
        "tx": _python_2(features[test]),
        "ty": _python_2(one_hot[test]),
        "graph": _python_2(neighbours),
        "test.index": "".join(f"{node}\n" for node in test).encode(),
    }


def _python_2(value: object) -> bytes:
    content = pickle.dumps(value, protocol=2)
    return content.replace(b"scipy.sparse._csr\n", b"scipy.sparse.csr\n").replace(b"numpy._core.", b"numpy.core.")


def graph2gauss_file(archive: Archive, *, pickled: bool = False, weight: float = 0.5) -> Files:
    """Write both directions of every edge, in the layout of graph2gauss or of its pickled copy."""
    low, high = np.array(edges_of(archive)).T
    size = (int(archive.arrays["num_nodes"]),) * 2
    ones = np.ones(2 * low.size, dtype=np.float32)
    both = sp.csr_matrix((ones, (np.r_[low, high], np.r_[high, low])), shape=size)
    features, labels = matrix_of(archive, weight), archive.arrays["y"].astype(np.int64)
    members: dict[str, Any] = {"labels": labels, "idx_to_node": np.array({"not": "read"}, dtype=object)}
    for name, matrix in (("adj", both), ("attr", features)):
        members |= {f"{name}_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr")}
        members[f"{name}_shape"] = np.array(matrix.shape)
    if pickled:
        members = {"adj_matrix": _object(both), "node_attr": _object(features), "node_label": labels}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **members)
    return {"archive": buffer.getvalue()}


def _object(value: object) -> NDArray[Any]:
    array = np.empty((), dtype=object)
    array[()] = value
    return array


def musae_files(archive: Archive, *, label: str = "target", names: tuple[str, ...] = ()) -> Files:
    """Write reversed edges, features with a duplicate, and labels under the given name."""
    bounds = archive.arrays["x_indptr"].tolist()
    indices = archive.arrays["x_indices"].tolist()
    listed = [indices[start:end] for start, end in pairwise(bounds)]
    features = {str(node): [*columns, *columns[:1]] for node, columns in enumerate(listed)}
    shown = [names[y] if names else y for y in archive.arrays["y"].tolist()]
    key = "new_id" if label == "mature" else "id"
    target = [[key, label, "page_name"], *([v, y, 'Über, "uns"'] for v, y in enumerate(shown))]
    return {
        "edges": _csv([["id_1", "id_2"], *((high, low) for low, high in edges_of(archive))]),
        "features": json.dumps(features).encode(),
        "target": _csv([target[0], *reversed(target[1:])]),
    }


def _csv(rows: list[Any]) -> bytes:
    buffer = io.StringIO()
    csv.writer(buffer).writerows(rows)
    return buffer.getvalue().encode()


# Raw values for 0 and 1 of attributes that are not binary; the values next to the threshold.
_GERMAN = {
    "LoanRateAsPercentOfIncome": (2, 3),
    "YearsAtCurrentHome": (2, 3),
    "NumberOfOtherLoansAtBank": (1, 2),
    "NumberOfLiableIndividuals": (1, 2),
}
_STUDENT = {"G1": (9, 10), "G2": (9, 10)}
# The largest value of each bin.
_BIN_TOPS = {
    "Age": {0: 30, 30: 50, 50: 75},
    "LoanDuration": {0: 10, 10: 20, 20: 30, 30: 72},
    "LoanAmount": {0: 1000, 1000: 2000, 2000: 3000, 3000: 4000, 4000: 18424},
}


def german_file(archive: Archive) -> Files:
    """Write every edge twice, as the authors' file does, and an unused attribute."""
    attributes = _attributes(archive, _GERMAN, _BIN_TOPS) | {
        "OtherLoansAtStore": [7] * int(archive.arrays["num_nodes"])
    }
    return {"graph": igraph_pickle(edges_of(archive) * 2, attributes)}


def student_file(archive: Archive) -> Files:
    """Write age 20 for some pupils of age 19."""
    attributes = _attributes(archive, _STUDENT, {})
    attributes["age"] = [age + (age == 19 and node % 2) for node, age in enumerate(attributes["age"])]
    return {"graph": igraph_pickle(edges_of(archive), attributes | {"absences": [0] * len(attributes["age"])})}


def _attributes(
    archive: Archive, raw: Mapping[str, tuple[int, int]], tops: Mapping[str, Mapping[int, int]]
) -> dict[str, list[int]]:
    attributes: dict[str, list[int]] = {"class": archive.arrays["y"].tolist()}
    for column, values in zip(archive.arrays["feature_names"].tolist(), archive.features.T, strict=True):
        name, _, value = column.partition("=")
        if not value:
            attributes[name] = [raw.get(name, (0, 1))[one] for one in values.tolist()]
            continue
        shown = tops.get(name, {}).get(int(value), int(value))
        previous = attributes.get(name, [0] * len(values))
        attributes[name] = [shown if one else before for one, before in zip(values.tolist(), previous, strict=True)]
    return attributes


def igraph_pickle(edges: list[tuple[int, int]], attributes: dict[str, list[int]]) -> bytes:
    """Return the pickle that python-igraph writes for a graph, without python-igraph."""
    module = ModuleType("igraph")

    class Graph:
        def __reduce__(self) -> tuple[Any, ...]:
            return Graph, (len(attributes["class"]), edges, False, {}, attributes, {}), {}

    Graph.__module__, Graph.__qualname__ = "igraph", "Graph"
    module.Graph = Graph  # type: ignore[attr-defined]
    with patch.dict(sys.modules, {"igraph": module}):
        return pickle.dumps(Graph())
