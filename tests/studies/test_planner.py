"""The study of the planner: plans from structure alone, and a truth from the true labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from studies.planner import SEEDS, Cell, measure, table

from veilgraph.datasets import csbm
from veilgraph.datasets.archive import Archive

PRIVATE = csbm(80, num_classes=2, mean_degree=6, num_features=0, seed=0)


def written(folder: Path) -> Path:
    none = np.empty(0, dtype=np.int64)
    archive = Archive.from_parts(
        name="small", edges=PRIVATE.graph.edges, labels=PRIVATE.labels, ones=np.stack([none, none]), width=3
    )
    archive.write(path := folder / "small.npz")
    return path


def test_a_cell_compares_the_interval_with_the_true_labels(tmp_path: Path) -> None:
    cell = measure(written(tmp_path), 4.0, True)
    assert (cell.dataset, cell.total, cell.known) == ("small", 4.0, True)
    assert 0 <= cell.low <= cell.high <= 1
    # The homophily is 0.8 and labels are nearly clean: far better than chance, up to five standard errors.
    assert cell.truth > 0.6 - 5 * np.sqrt(0.25 / (20 * len(SEEDS)))


def test_the_table_counts_what_holds() -> None:
    cell = Cell(dataset="cora", total=1.0, known=False, low=0.26, high=0.77, truth=0.74)
    missed = replace(cell, truth=0.78)
    assert (cell.holds, missed.holds) == (True, False)
    assert table([cell, missed])[-1] == "1 of 2 intervals hold the truth; they are 51 points wide on average."
