"""Archives of graph2gauss, and their copies in GraphData.

graph2gauss stores a matrix as plain arrays (`adj_data`, `adj_indices`, `adj_indptr`, and the same with `attr_`) and
the classes as `labels`. GraphData stores each matrix as one pickled object: `adj_matrix`, `node_attr` and
`node_label`. Other members are not read.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray

from veilgraph.datasets.archive import MAX_UNPACKED_BYTES, Archive, positive_entries
from veilgraph.datasets.restricted_unpickler import load_restricted
from veilgraph.graph.array_files import check_members, read_header, read_plain_array


def convert(name: str, files: Mapping[str, bytes]) -> Archive:
    """Convert an archive; edges of both directions count once, and a feature is 1 where its weight is positive."""
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
        rows=rows,
        columns=columns,
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
