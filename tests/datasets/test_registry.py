"""A data set of one's own is one call, or a path."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from veilgraph.datasets import PrivateGraph, csbm, load, register_dataset
from veilgraph.datasets.archive import Archive
from veilgraph.datasets.registry import REGISTERED, find_dataset_source
from veilgraph.errors import GraphError, RunError
from veilgraph.experiments.cells import DatasetLoader

SCHEMA = 'classes = ["well", "ill"]\n\n[[columns]]\nname = "smoker"\nvalues = ["no", "yes"]\n'
NODES = pd.DataFrame({"id": ["a", "b", "c"], "smoker": ["no", "yes", "no"], "health": ["ill", "well", "ill"]})
EDGES = pd.DataFrame({"from": ["a", "b"], "to": ["b", "c"]})


@pytest.fixture
def _own_registry() -> Iterator[None]:
    before = dict(REGISTERED)
    yield
    REGISTERED.clear()
    REGISTERED.update(before)


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Return a folder of tables, two in CSV and the schema."""
    folder = tmp_path / "people"
    folder.mkdir()
    NODES.to_csv(folder / "nodes.csv", index=False)
    EDGES.to_csv(folder / "edges.csv", index=False)
    (folder / "schema.toml").write_text(SCHEMA)
    return folder


@pytest.mark.usefixtures("_own_registry")
def test_a_function_or_a_graph_is_registered_in_one_call() -> None:
    @register_dataset("made")
    def made() -> PrivateGraph:
        return csbm(60, seed=1)

    register_dataset("given", csbm(40, seed=1))
    assert (load("made").name, load("made").graph.num_nodes) == ("made", 60)
    assert (load("given").name, load("given").graph.num_nodes) == ("given", 40)
    with pytest.raises(RunError, match=r"no data set 'mad': known are .*made.*did you mean made\?"):
        load("mad")


@pytest.mark.usefixtures("_own_registry")
def test_a_name_that_is_registered_again_is_read_again() -> None:
    register_dataset("mine", csbm(40, seed=1))
    assert DatasetLoader().load("mine").graph.num_nodes == 40
    assert DatasetLoader().load("mine") is DatasetLoader().load("mine")
    register_dataset("mine", csbm(50, seed=1))
    assert DatasetLoader().load("mine").graph.num_nodes == 50


@pytest.mark.parametrize(
    ("name", "message"),
    [("cora", "is a data set of this package"), ("voters", "is a data set"), ("./x", "is a path"), ("x.npz", "a path")],
)
def test_a_name_with_another_meaning_is_refused(name: str, message: str) -> None:
    with pytest.raises(RunError, match=message):
        register_dataset(name)


def test_a_path_of_an_archive_is_a_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = np.array([0])
    Archive.from_parts(
        name="mine", edges=np.array([[0], [1]]), labels=np.array([0, 1]), ones=np.stack([one, one]), width=2
    ).write(tmp_path / "mine.npz")
    monkeypatch.chdir(tmp_path)
    for path in ("mine.npz", "./mine.npz", str(tmp_path / "mine.npz"), Path("mine.npz")):
        assert (load(path).name, load(path).schema.num_features) == ("mine", 2)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_folder_of_tables_is_a_data_set(suffix: str, tables: Path) -> None:
    if suffix == "parquet":
        (tables / "nodes.csv").unlink()
        NODES.to_parquet(tables / "nodes.parquet")
    private = load(tables)
    assert (private.name, private.graph.num_edges, private.labels.tolist()) == ("people", 2, [1, 0, 1])


def test_a_relative_folder_may_be_a_path_object(tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tables.parent)
    assert load(Path("people")).name == "people"
    with pytest.raises(RunError, match=r"no data set 'people': .*or write \./people for the folder here"):
        load("people")


def two_labels(folder: Path) -> None:
    NODES.assign(other="x").to_csv(folder / "nodes.csv", index=False)


def both(folder: Path) -> None:
    NODES.to_parquet(folder / "nodes.parquet")


MISTAKES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no nodes": (lambda folder: (folder / "nodes.csv").unlink(), "neither nodes.csv nor nodes.parquet"),
    "no edges": (lambda folder: (folder / "edges.csv").unlink(), "neither edges.csv nor edges.parquet"),
    "no schema": (
        lambda folder: (folder / "schema.toml").unlink(),
        "or draft it from public data with 'veilgraph review PUBLIC.csv --label label",
    ),
    "two labels": (two_labels, "2 columns that could be the label: call one 'label'"),
    "two tables": (both, "has both nodes.csv and nodes.parquet: keep one"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_folder_that_is_not_complete_is_refused(mistake: str, tables: Path) -> None:
    spoil, message = MISTAKES[mistake]
    spoil(tables)
    with pytest.raises(GraphError, match=re.escape(message)):
        find_dataset_source(str(tables))


def test_a_column_called_label_is_the_label(tables: Path) -> None:
    NODES.rename(columns={"health": "label"}).assign(other="x").to_csv(tables / "nodes.csv", index=False)
    assert load(tables).labels.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("path", "message"),
    [("./nowhere.npz", r"no file or folder '\./nowhere\.npz'"), ("./README.md", "neither an archive")],
)
def test_another_path_is_refused(path: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "README.md").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RunError, match=message):
        load(path)
