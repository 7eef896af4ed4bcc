"""The paper's Table 2 against the clock: its RGNN column, and the whole of it with baselines and control."""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.performance.progress import Progress, part
from benchmarks.performance.timing import seconds
from benchmarks.reference import literal
from benchmarks.reference.literal_run import literal_run
from veilgraph.errors import RunError
from veilgraph.experiments.grid import Cell, Experiment, load_experiment
from veilgraph.experiments.result_store import CellStore
from veilgraph.experiments.runner import load_data, run_experiment
from veilgraph.graph import Split
from veilgraph.models import RGNN
from veilgraph.models.registry import find_method
from veilgraph.privacy.schema import NO_LABEL


def published_part() -> Experiment:
    """Table 2 at the budgets that the paper prints; ours goes on to a smaller epsilon_x."""
    experiment = load_experiment("table2")
    printed = {float(row["epsilon_x"]) for row in experiment.published}
    cells = tuple(cell for cell in experiment.cells if cell.epsilon_x is None or cell.epsilon_x in printed)
    return replace(experiment, cells=cells)


def missing_datasets(experiment: Experiment, data_dir: Path | None) -> list[str]:
    """Data sets of an experiment that no folder has."""
    return [name for name in dict.fromkeys(cell.dataset for cell in experiment.cells) if not _is_there(name, data_dir)]


def measure_table2(
    experiment: Experiment, data_dir: Path | None, device: torch.device, *, progress: Progress, jobs: int | None = None
) -> dict[str, Any]:
    """Both parts for real, each from nothing; one literal run for each data set, multiplied by its number of runs."""
    jobs = jobs or ((os.cpu_count() or 1) if device.type == "cpu" else 1)
    column = experiment.only(methods=[RGNN.name])
    column_s = _seconds_of(column, data_dir, device, jobs, part(progress, 0, 3))
    whole_s = _seconds_of(experiment, data_dir, device, jobs, part(progress, 1, 3))
    literal_rows = _literal_rows(column, data_dir, device, part(progress, 2, 3))
    literal_s = sum(row["runs"] * row["literal_s"] for row in literal_rows)
    return {
        "jobs": jobs,
        "rgnn_column": {
            "runs": len(column.cells),
            "veilgraph_s": column_s,
            "literal_s_estimated": literal_s,
            "ratio": literal_s / column_s,
        },
        "whole_table": {
            "runs": len(experiment.cells),
            "methods": sorted({cell.method for cell in experiment.cells}),
            "veilgraph_s": whole_s,
        },
        "literal_runs": literal_rows,
    }


def _is_there(dataset: str, data_dir: Path | None) -> bool:
    try:
        load_data(dataset, data_dir)
    except RunError:  # it was never fetched
        return False
    return True


def _seconds_of(
    experiment: Experiment, data_dir: Path | None, device: torch.device, jobs: int, progress: Progress
) -> float:
    """From the first report to the last file, the start of the processes included.

    Data sets are read anew before: what this process made of them in an earlier measurement does not count.
    """
    load_data.cache_clear()
    for cell in experiment.cells:
        load_data(cell.dataset, data_dir, cell.original_columns)
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        run_experiment(
            experiment, CellStore(Path(folder)), data_dir=data_dir, device=device.type, jobs=jobs, progress=progress
        )
        return time.perf_counter() - started


def _literal_rows(
    column: Experiment, data_dir: Path | None, device: torch.device, progress: Progress
) -> list[dict[str, Any]]:
    counts = Counter(cell.dataset for cell in column.cells)
    rows: list[dict[str, Any]] = []
    literal.layers()  # imported before the clock runs
    for dataset, runs in counts.items():
        progress(f"{dataset}, literal", len(rows), len(counts))
        # In the middle of the table: epsilon_y = 1 where the grid has it, its last one otherwise.
        cell = max((c for c in column.cells if c.dataset == dataset), key=lambda c: (c.epsilon_y == 1.0, -c.seed))
        rows.append({"dataset": dataset, "runs": runs, "literal_s": seconds(partial(_literal, cell, data_dir, device))})
    return rows


def _literal(cell: Cell, data_dir: Path | None, device: torch.device) -> None:
    private = load_data(cell.dataset, data_dir, cell.original_columns)
    split = Split.random(private.graph.num_nodes, seed=cell.seed, eligible=private.labels != NO_LABEL)
    budget = find_method(cell.method).budget(private.schema, cell.epsilon_x, cell.epsilon_y, cell.sampled)
    literal_run(private, budget, split, RGNN(**cell.parameters, seed=cell.seed), device)
