"""The study of coverage: one small graph, and the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from studies.coverage import cells_of, measure, summary, table

from veilgraph.datasets import csbm


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    private, path = csbm(300, num_classes=6, num_features=1, seed=0), tmp_path / "blocks.npz"
    arrays: dict[str, Any] = {"edge_index": private.graph.edges, "num_nodes": 300, "y": private.labels}
    arrays |= {"x_indptr": np.zeros(301, dtype=np.int64), "x_indices": np.empty(0, dtype=np.int64), "x_shape": [300, 1]}
    np.savez(path, **arrays)
    return path


def test_where_the_best_set_names_one_class_there_is_no_second_cell(graph: Path) -> None:
    cells = cells_of([graph], [0.5], [3.0, 1.0])
    assert [(epsilon, randomizer) for _, _, epsilon, randomizer in cells] == [(3.0, "GRR"), (1.0, "GRR"), (1.0, "sets")]


def test_sets_that_users_get_cover_at_least_as_many_people_as_bare_ones(graph: Path) -> None:
    cell = cells_of([graph], [0.5], [2.0])[0]
    draws = [measure(cell, seed) for seed in (0, 1)]
    for draw in draws:
        for group in ("silent", "reporting"):
            assert draw[f"{group} covered"] >= draw[f"{group} bare"]
            assert 1 <= draw[f"{group} size"] <= 6
        assert draw["silent covered"] >= draw["veil"]
    row = summary(cell, draws)
    assert row["veil"]["mean"] == pytest.approx(np.mean([draw["veil"] for draw in draws]))
    assert "| blocks | 50% | 2 | GRR |" in table([row])
