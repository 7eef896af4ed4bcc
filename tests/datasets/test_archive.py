"""The archive format: arrays are read as they were written, and nothing is ever unpickled."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.damage import bomb
from tests.support.originals import small_archive
from veilgraph.datasets.archive import Archive
from veilgraph.datasets.catalogue import measure
from veilgraph.errors import GraphError
from veilgraph.privacy.schema import NO_LABEL


def test_an_archive_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = small_archive(unlabeled=True, class_names=("low", "high"))
    written.write(tmp_path / "small.npz")
    read = Archive.read(tmp_path / "small.npz")
    assert read.name == "small"
    assert read.checksum == written.checksum
    assert {key: array.dtype for key, array in read.arrays.items()} == {
        key: array.dtype for key, array in written.arrays.items()
    }
    assert os.listdir(tmp_path) == ["small.npz"]


def test_the_order_in_which_a_source_lists_things_does_not_matter() -> None:
    one = small_archive()
    rows = np.repeat(np.arange(6), np.diff(one.arrays["x_indptr"]))
    order = np.random.default_rng(0).permutation(rows.size)
    edges = np.concatenate([one.arrays["edge_index"], one.arrays["edge_index"][::-1], [[3], [3]]], axis=1)
    other = Archive.from_parts(
        name="small",
        edges=edges[:, ::-1],
        labels=one.arrays["y"],
        ones=np.stack(
            [np.r_[rows[order], rows[:2]], np.r_[one.arrays["x_indices"][order], one.arrays["x_indices"][:2]]]
        ),
        width=6,
    )
    assert other.checksum == one.checksum


@pytest.mark.parametrize("key", ["edge_index", "y", "x_indices", "x_shape"])
def test_a_changed_value_changes_the_checksum(key: str) -> None:
    archive = small_archive()
    changed = archive.arrays[key].copy()
    changed.flat[0] += 1
    assert Archive(name="small", arrays={**archive.arrays, key: changed}).checksum != archive.checksum


def test_columns_are_merged_by_or_and_nodes_without_label_have_none() -> None:
    private = small_archive(unlabeled=True).private_graph(group=4)
    assert private.features.tolist() == [[1, 1], [1, 0], [0, 1], [1, 0], [0, 0], [1, 0]]
    assert private.labels.tolist() == [0, 1, 1, 0, NO_LABEL, 1]
    assert private.schema.feature_names == ("x0..x3", "x4..x5")


def test_an_archive_may_hold_labels_alone(tmp_path: Path) -> None:
    nothing = np.empty(0, dtype=np.int64)
    archive = Archive.from_parts(
        name="labels",
        edges=np.array([[0, 1], [1, 2]]),
        labels=np.array([0, 1, 1]),
        ones=np.stack([nothing, nothing]),
        width=0,
    )
    archive.write(tmp_path / "labels.npz")
    private = Archive.read(tmp_path / "labels.npz").private_graph(group=1)
    assert (private.features.shape, private.schema.columns, private.labels.tolist()) == ((3, 0), (), [0, 1, 1])
    assert (measure(archive, group=1).columns, measure(archive, group=1).sparsity) == (0, 100)


@pytest.mark.parametrize(("rows", "columns", "what"), [([6], [0], "row"), ([0], [6], "column"), ([0], [-1], "column")])
def test_a_feature_outside_the_matrix_is_refused(rows: list[int], columns: list[int], what: str) -> None:
    with pytest.raises(GraphError, match=f"a feature is in a {what} outside 0..5"):
        Archive.from_parts(
            name="small",
            edges=np.array([[0], [1]]),
            labels=np.zeros(6),
            ones=np.stack([np.array(rows), np.array(columns)]),
            width=6,
        )


def test_a_file_without_an_array_is_refused_by_its_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "half.npz", edge_index=np.zeros((2, 1)))
    with pytest.raises(GraphError, match="half: the archive has no array 'num_nodes'"):
        Archive.read(tmp_path / "half.npz")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 and then the disk was full", b"neither"])
def test_a_damaged_file_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "bad.npz").write_bytes(content)
    with pytest.raises(GraphError, match=r"bad\.npz is not a readable data set"):
        Archive.read(tmp_path / "bad.npz")


def test_a_small_file_of_gigabytes_or_with_pickled_objects_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bomb.npz").write_bytes(bomb(2**28))
    with pytest.raises(GraphError, match=r"unpacks to 268,435,\d+ bytes, and at most 67,108,864 are allowed"):
        Archive.read(tmp_path / "bomb.npz")
    arrays: dict[str, Any] = dict(small_archive().arrays) | {"class_names": np.array(["a", None], dtype=object)}
    np.savez(tmp_path / "objects.npz", **arrays)
    with pytest.raises(GraphError, match=r"objects\.npz is not a readable data set"):
        Archive.read(tmp_path / "objects.npz")


DAMAGED: dict[str, object] = {
    "edge_index": [0, 1],
    "num_nodes": 7,
    "y": [0, 1, 1, 0, -1, 1],
    "x_indptr": [0, 2, 1, 4, 6, 6, 7],
    "x_indices": [1, 4, 0, 5, 2, 6, 1],
    "x_shape": [6, 5],
    "unlabeled_nodes": [6],
    "feature_names": ["one"],
    "class_names": ["one"],
}


@pytest.mark.parametrize("key", DAMAGED)
def test_arrays_that_do_not_fit_together_are_refused(key: str, tmp_path: Path) -> None:
    arrays = {**small_archive().arrays, key: np.array(DAMAGED[key])}
    Archive(name="own", arrays=arrays).write(tmp_path / "own.npz")
    with pytest.raises(GraphError, match=r"own: the archive's array '\w+' (has|is|does) "):
        Archive.read(tmp_path / "own.npz").private_graph(group=1)


def test_numbers_with_a_fraction_are_refused() -> None:
    arrays = {**small_archive().arrays, "y": np.full(6, 0.5)}
    with pytest.raises(GraphError, match="array 'y' does not hold whole numbers"):
        Archive(name="own", arrays=arrays).private_graph(group=1)
