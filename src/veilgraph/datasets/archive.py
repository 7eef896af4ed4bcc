"""File format of public graphs with binary features and class labels: a NumPy archive without pickled objects.

| array | type | meaning |
|---|---|---|
| `edge_index` | int32 [2, E] | each undirected edge once, u < v, sorted, without self loops and duplicates |
| `num_nodes` | int64 | n |
| `y` | int16 [n] | class, from 0 |
| `x_indptr`, `x_indices` | int32 [n+1], int16 [nnz] | rows and columns of the ones of the feature matrix |
| `x_shape` | int64 [2] | (n, d) |
| `self_loop_nodes` | int32 | optional: nodes with a self loop in the source, which `edge_index` leaves out |
| `unlabeled_nodes` | int32 | optional: nodes without a label in the source; ignore their `y` |
| `feature_names`, `class_names` | str | optional |
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.atomic_files import write_atomically
from veilgraph.datasets.private_graph import PrivateGraph
from veilgraph.errors import GraphError
from veilgraph.graph import Graph
from veilgraph.graph.array_files import ArchiveError, pack_arrays, unpack_arrays
from veilgraph.privacy.schema import NO_LABEL, Column, FeatureSchema

MAX_UNPACKED_BYTES = 64 * 2**20
"""Largest size of an archive's arrays together; the largest data set of the catalogue takes 2 MiB."""

_REQUIRED = ("edge_index", "num_nodes", "y", "x_indptr", "x_indices", "x_shape")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Archive:
    """Arrays of one file, and the private graph that they describe.

    Args:
        name: name of the data set.
        arrays: arrays of the table above, by name.
    """

    name: str
    arrays: Mapping[str, NDArray[Any]]

    def __post_init__(self) -> None:
        if missing := [key for key in _REQUIRED if key not in self.arrays]:
            raise GraphError(f"{self.name}: the archive has no array '{missing[0]}'; it needs {', '.join(_REQUIRED)}")

    @classmethod
    def read(cls, path: Path) -> Archive:
        """Read a file; refuse a file that is not an archive of plain arrays."""
        try:
            arrays = unpack_arrays(path.read_bytes(), max_bytes=MAX_UNPACKED_BYTES)
        except (OSError, ArchiveError) as error:
            reason = error if isinstance(error, ArchiveError) else type(error).__name__
            raise GraphError(f"{path} is not a readable data set ({reason}); fetch it again") from error
        return cls(name=path.stem, arrays=arrays)

    def write(self, path: Path) -> None:
        """Write the file atomically."""
        write_atomically(path, pack_arrays(self.arrays, compress=True), public=True)

    @classmethod
    def from_parts(
        cls,
        *,
        name: str,
        edges: NDArray[Any],
        labels: NDArray[Any],
        ones: NDArray[Any],
        width: int,
        unlabeled: NDArray[Any] | None = None,
        feature_names: Sequence[str] = (),
        class_names: Sequence[str] = (),
    ) -> Archive:
        """Make an archive from edges and feature entries in any order, duplicates allowed.

        Args:
            name: name of the data set.
            edges: node numbers, [2, edges].
            labels: class of each node, [nodes].
            ones: node and column of each entry 1 of the feature matrix, [2, entries].
            width: d, the number of columns.
            unlabeled: nodes without a label in the source.
            feature_names: names of the columns, if the source has them.
            class_names: names of the classes in the order of the labels, if the source has them.

        >>> edges, ones = np.array([[2, 0, 1, 1], [0, 2, 2, 1]]), np.array([[0, 0, 2], [3, 1, 0]])
        >>> small = Archive.from_parts(
        ...     name="small", edges=edges, labels=np.array([0, 1, 0]), ones=ones, width=4
        ... )
        >>> small.arrays["edge_index"].tolist(), small.arrays["self_loop_nodes"].tolist()
        ([[0, 1], [2, 2]], [1])
        >>> small.features.tolist()
        [[0, 1, 0, 1], [0, 0, 0, 0], [1, 0, 0, 0]]
        """
        nodes, (rows, columns) = len(labels), ones
        for what, numbers, end in (("row", rows, nodes), ("column", columns, width)):
            if len(numbers) and not 0 <= numbers.min() <= numbers.max() < end:
                raise GraphError(f"{name}: a feature is in a {what} outside 0..{end - 1}")
        places = np.unique(rows.astype(np.int64) * width + columns)
        ends = np.searchsorted(places, np.arange(nodes + 1) * width)
        arrays: dict[str, NDArray[Any]] = {
            "edge_index": Graph.from_edges(edges, nodes).edges.astype(np.int32),
            "num_nodes": np.array(nodes, dtype=np.int64),
            "y": labels.astype(np.int16),
            "x_indptr": ends.astype(np.int32),
            "x_indices": (places % width).astype(np.int16),
            "x_shape": np.array([nodes, width], dtype=np.int64),
        }
        optional = {
            "self_loop_nodes": np.unique(edges[0][edges[0] == edges[1]]).astype(np.int32),
            "unlabeled_nodes": np.array([] if unlabeled is None else unlabeled, dtype=np.int32),
            "feature_names": np.array(feature_names, dtype=np.str_),
            "class_names": np.array(class_names, dtype=np.str_),
        }
        return cls(name=name, arrays=arrays | {key: array for key, array in optional.items() if array.size})

    @property
    def checksum(self) -> str:
        """SHA-256 of names, types, shapes and values, which does not depend on the compression of the file."""
        digest = hashlib.sha256()
        for name in sorted(self.arrays):
            array = np.ascontiguousarray(self.arrays[name])
            digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
            digest.update(array.tobytes())
        return digest.hexdigest()

    @property
    def features(self) -> NDArray[np.uint8]:
        """Dense binary columns before merging, [nodes, d]."""
        nodes, width = (int(size) for size in self.arrays["x_shape"])
        dense = np.zeros((nodes, width), dtype=np.uint8)
        dense[csr_rows(self.arrays["x_indptr"]), self.arrays["x_indices"].astype(np.int64)] = 1
        return dense

    def private_graph(self, *, group: int) -> PrivateGraph:
        """Return the private graph, with `group` adjacent columns merged into one feature.

        Arrays that do not fit together are refused: a file that nobody catalogued has no checksum to prove it.
        """
        self._check_arrays()
        schema = self._schema(group)
        labels = self.arrays["y"].astype(np.int64)
        labels[self.arrays.get("unlabeled_nodes", np.empty(0, dtype=np.int64))] = NO_LABEL
        return PrivateGraph(
            name=self.name,
            graph=Graph.from_edges(self.arrays["edge_index"].astype(np.int64), int(self.arrays["num_nodes"])),
            schema=schema,
            features=schema.merge(self.features),
            labels=labels,
        )

    def _check_arrays(self) -> None:
        """Refuse arrays that do not fit together, by the name of the first one."""
        arrays = self.arrays
        for key, array in arrays.items():
            count, texts = {"num_nodes": 0, "edge_index": 2}.get(key, 1), key in ("feature_names", "class_names")
            self._refuse(array.ndim != count, key, f"has {array.ndim} dimensions, not {count}")
            self._refuse(not texts and array.dtype.kind not in "iu", key, "does not hold whole numbers")
        nodes, shape, ends = int(arrays["num_nodes"]), arrays["x_shape"], arrays["x_indptr"].astype(np.int64)
        self._refuse(len(shape) != 2 or shape[0] != nodes or shape[1] < 0, "x_shape", f"is not [{nodes}, columns]")
        width, labels = int(shape[1]), arrays["y"]
        self._refuse(len(labels) != nodes or nodes == 0, "y", f"has {len(labels)} classes for {nodes} nodes")
        self._refuse(bool((labels < 0).any()), "y", "has a class below 0; list nodes without one in unlabeled_nodes")
        rows = len(ends) == nodes + 1 and ends[0] == 0 and ends[-1] == len(arrays["x_indices"])
        self._refuse(not rows or bool((np.diff(ends) < 0).any()), "x_indptr", f"does not delimit {nodes} rows")
        for key, end in (("x_indices", width), ("unlabeled_nodes", nodes)):
            found = arrays.get(key, np.empty(0, dtype=np.int64))
            self._refuse(bool(((found < 0) | (found >= end)).any()), key, f"has a number outside 0..{end - 1}")
        names, classes = len(arrays.get("feature_names", range(width))), arrays.get("class_names")
        self._refuse(names != width, "feature_names", f"has {names} names for {width} columns")
        if classes is not None:
            self._refuse(labels.max() >= len(classes), "class_names", "has fewer names than y has classes")

    def _refuse(self, wrong: bool, array: str, reason: str) -> None:
        if wrong:
            raise GraphError(f"{self.name}: the archive's array '{array}' {reason}")

    def _schema(self, group: int) -> FeatureSchema:
        width, classes = int(self.arrays["x_shape"][1]), int(self.arrays["y"].max()) + 1
        names = self.arrays.get("feature_names", [f"x{i}" for i in range(width)])
        class_names = self.arrays.get("class_names", [f"class {c}" for c in range(classes)])
        return FeatureSchema(
            columns=tuple(Column(name=str(name)) for name in names),
            classes=tuple(str(name) for name in class_names),
            group=group,
            note="Public benchmark data: every column is 0 or 1.",
        )


def csr_rows(indptr: NDArray[Any]) -> NDArray[np.int64]:
    """Return the row of each stored entry of a CSR matrix.

    >>> csr_rows(np.array([0, 2, 2, 3])).tolist()
    [0, 0, 2]
    """
    return np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))


def positive_entries(
    data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return rows and columns of the positive entries of a CSR matrix, as `Archive.from_parts` takes them.

    >>> rows, columns = positive_entries(np.array([0.2, 0, 3]), np.array([4, 1, 0]), np.array([0, 2, 3]))
    >>> rows.tolist(), columns.tolist()
    ([0, 1], [4, 0])
    """
    positive = data > 0
    return csr_rows(indptr)[positive], indices[positive].astype(np.int64)
