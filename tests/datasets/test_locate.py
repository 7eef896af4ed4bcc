"""Data sets are looked for in --data-dir, then VEILGRAPH_DATA, then the cache, and are checked before use."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import veilgraph.datasets.catalogue
from tests.support.originals import small_archive
from veilgraph.datasets import load
from veilgraph.datasets.archive import Archive
from veilgraph.datasets.catalogue import Dataset, data_folders, find_archive, open_archive
from veilgraph.errors import GraphError, RunError

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


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    monkeypatch.setenv("VEILGRAPH_DATA", str(tmp_path / "variable"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return {"option": tmp_path / "option", "variable": tmp_path / "variable", "cache": tmp_path / "cache" / "veilgraph"}


def test_folders_are_looked_in_in_order(folders: dict[str, Path]) -> None:
    for folder in reversed(folders.values()):
        small_archive().write(folder / "small.npz")
        assert find_archive("small", folders["option"]) == folder / "small.npz"


def test_without_the_option_the_variable_comes_first(folders: dict[str, Path]) -> None:
    assert data_folders() == (folders["variable"], folders["cache"])


def test_without_variables_the_cache_is_in_the_home_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("VEILGRAPH_DATA", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert data_folders() == (tmp_path / ".cache" / "veilgraph",)


def test_what_is_missing_is_named_with_the_folders_and_the_remedy(folders: dict[str, Path]) -> None:
    with pytest.raises(RunError) as caught:
        find_archive("small", folders["option"])
    message = str(caught.value)
    assert all(str(folder) in message for folder in folders.values())
    assert "run 'veilgraph data fetch small'" in message
    assert "VEILGRAPH_DATA" in message


def test_a_file_with_other_arrays_is_refused(folders: dict[str, Path]) -> None:
    archive = small_archive()
    labels = archive.arrays["y"].copy()
    labels[0] = 1
    Archive(name="small", arrays={**archive.arrays, "y": labels}).write(folders["cache"] / "small.npz")
    with pytest.raises(GraphError, match=r"does not hold the catalogued small .*fetch small --force"):
        open_archive(SMALL)


def test_a_file_that_is_cut_short_is_refused(folders: dict[str, Path]) -> None:
    path = folders["cache"] / "small.npz"
    small_archive().write(path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(GraphError, match="not a readable data set"):
        open_archive(SMALL)


def test_a_public_data_set_is_loaded_by_name_with_or_without_merging(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(veilgraph.datasets.catalogue, "known_datasets", lambda: {"small": SMALL})
    small_archive().write(folders["option"] / "small.npz")
    private = load("small", folders["option"])
    assert private.features.shape == (6, 2)
    assert private.graph.num_edges == SMALL.edges
    assert load("small", folders["option"], merge_columns=False).features.shape == (6, 6)
    assert np.array_equal(private.graph.edges, small_archive().arrays["edge_index"])
