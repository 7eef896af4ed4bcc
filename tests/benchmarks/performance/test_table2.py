"""Table 2 is timed in full: every fit, through the same code that makes the table."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch
from benchmarks.performance.table2 import measure_cpu, measure_table2, missing_datasets, published_part
from benchmarks.performance.timing import seconds

from benchmarks.performance import table2
from tests.support.miniatures import SMALL as DATA
from veilgraph.experiments.cells import DatasetLoader
from veilgraph.experiments.grid import load_hyperparameters, parse_experiment

SMALL = """
sampled = 5
seeds = 1
epochs = 2
[[grid]]
datasets = ["cora", "german"]
methods = ["rgnn", "graphsage", "structure_only"]
epsilon_x = [1]
epsilon_y = [2, 1]
"""


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table2, "seconds", lambda work: seconds(work, at_least=0.0))


def test_the_rgnn_column_has_48_cells_of_5_seeds() -> None:
    counts = Counter(cell.method for cell in published_part().cells)
    assert counts["rgnn"] == 48 * 5
    assert counts["structure_only"] == 24 * 5  # the control has no epsilon_x
    assert {"graphsage", "lpgnn", "non_private"} <= set(counts)


def test_both_parts_are_timed_and_the_literal_column_is_an_estimate() -> None:
    experiment = parse_experiment("small", SMALL, load_hyperparameters())
    told: list[str] = []
    found = measure_table2(
        experiment, DATA, torch.device("cpu"), jobs=1, progress=lambda what, done, total: told.append(what)
    )
    column, whole = found["rgnn_column"], found["whole_table"]
    assert (column["runs"], whole["runs"]) == (4, 12)
    assert whole["methods"] == ["graphsage", "rgnn", "structure_only"]
    assert [row["dataset"] for row in found["literal_runs"]] == ["cora", "german"]
    estimated = sum(row["runs"] * row["literal_s"] for row in found["literal_runs"])
    assert column["literal_s_estimated"] == estimated
    assert column["ratio"] == estimated / column["veilgraph_s"]
    assert whole["veilgraph_s"] > 0
    assert "german, literal" in told


def test_cpu_seconds_of_the_column_are_compared_with_one_literal_run_for_each_data_set() -> None:
    column = parse_experiment("small", SMALL, load_hyperparameters()).only(methods=["rgnn"])
    threads = torch.get_num_threads()
    found = measure_cpu(column, DATA)
    assert torch.get_num_threads() == threads
    assert [(row["dataset"], row["runs"]) for row in found["literal_runs"]] == [("cora", 2), ("german", 2)]
    assert found["ratio"] == found["literal_cpu_s_estimated"] / found["veilgraph_cpu_s"]
    assert found["veilgraph_cpu_s"] > 0


def test_missing_data_sets_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("VEILGRAPH_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    missing = missing_datasets(published_part(), DatasetLoader(tmp_path))
    assert missing == ["citeseer", "cora", "dblp", "facebook", "german", "student"]
