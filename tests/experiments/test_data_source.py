"""Data of cells: read once, identified by content, and never sent to another process."""

from __future__ import annotations

import pickle

from tests.support.miniatures import SMALL, miniature
from veilgraph.datasets import PrivateGraph
from veilgraph.experiments.data_source import DatasetLoader, forget_datasets, key_of
from veilgraph.experiments.grid import Cell, load_experiment

CELL = Cell(dataset="cora", method="rgnn", epsilon_x=1.0, epsilon_y=2.0, sampled=10, seed=0)


def test_a_data_set_is_read_once_until_it_is_forgotten() -> None:
    read: list[str] = []

    def counted(name: str, **options: object) -> PrivateGraph:
        read.append(name)
        return miniature(name)

    data = DatasetLoader(read=counted)
    assert data(CELL) is data(CELL)
    assert read == ["cora"]
    forget_datasets()
    data(CELL)
    assert read == ["cora", "cora"]


def test_a_loader_is_sent_to_other_processes_without_data() -> None:
    SMALL(CELL)
    assert len(pickle.dumps(SMALL)) < 1000


def test_other_data_under_the_same_name_is_computed_anew() -> None:
    other = DatasetLoader(read=lambda name, **options: miniature(f"another {name}"))
    assert key_of(CELL, other) != key_of(CELL, SMALL)


def test_columns_as_they_came_are_loaded_where_an_experiment_asks_for_them() -> None:
    merged, original = (SMALL.load(CELL.dataset, original_columns=original) for original in (False, True))
    assert (merged.schema.num_features, original.schema.num_features) == (12, 24)
    assert {cell.original_columns for cell in load_experiment("table1").cells} == {True}
