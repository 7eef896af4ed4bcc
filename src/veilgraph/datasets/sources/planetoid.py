"""Planetoid files of Cora, Citeseer and Pubmed: pickles written by Python 2.

| part | content |
|---|---|
| `allx`, `ally` | features (CSR) and one-hot labels of the nodes outside the test set, by node number |
| `tx`, `ty` | features and labels of the test nodes |
| `test.index` | node number of each row of `tx`, one per line |
| `graph` | dictionary from each node to the list of its neighbours |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.datasets.archive import Archive, positive_entries
from veilgraph.datasets.restricted_unpickler import load_restricted


def convert(name: str, files: Mapping[str, bytes]) -> Archive:
    """Convert the six files; a node number that no file mentions is a node without features and label."""
    test = np.array([int(line) for line in files["test.index"].split()], dtype=np.int64)
    known_labels = load_restricted(files["ally"])
    rest = np.arange(len(known_labels))
    nodes = int(test.max()) + 1
    labels = np.zeros(nodes, dtype=np.int64)
    labels[rest] = known_labels.argmax(axis=1)
    labels[test] = load_restricted(files["ty"]).argmax(axis=1)
    rest_rows, rest_columns, width = _matrix(files["allx"])
    test_rows, test_columns, _ = _matrix(files["tx"])
    return Archive.from_parts(
        name=name,
        edges=_edges(load_restricted(files["graph"])),
        labels=labels,
        rows=np.concatenate([rest_rows, test[test_rows]]),
        columns=np.concatenate([rest_columns, test_columns]),
        width=width,
        unlabeled=np.setdiff1d(np.arange(nodes), np.concatenate([rest, test])),
    )


def _matrix(content: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    state = load_restricted(content).state
    rows, columns = positive_entries(state["data"], state["indices"], state["indptr"])
    return rows, columns, int(state["_shape"][1])


def _edges(neighbours: Mapping[int, list[int]]) -> NDArray[Any]:
    pairs = [(node, neighbour) for node, listed in neighbours.items() for neighbour in listed]
    return np.array(pairs, dtype=np.int64).T
