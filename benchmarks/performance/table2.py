"""Time of the paper's Table 2: its RGNN column, and the whole table with baselines and control.

`python -m benchmarks.performance.table2 --data-dir FOLDER` compares CPU seconds of the RGNN column and of the literal
loops, with one thread each: they say more than wall times on a machine that others use.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import tempfile
import time
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.performance.progress import part
from benchmarks.performance.timing import seconds
from benchmarks.reference import literal
from benchmarks.reference.literal_run import literal_run
from veilgraph.errors import RunError
from veilgraph.experiments.cells import DatasetLoader
from veilgraph.experiments.grid import Cell, Experiment, load_experiment
from veilgraph.experiments.results import ResultStore
from veilgraph.experiments.runner import Resources, run_experiment
from veilgraph.graph import Split
from veilgraph.models import RGNN
from veilgraph.models.registry import find_method
from veilgraph.privacy.schema import NO_LABEL
from veilgraph.progress import Progress, no_progress


def published_part() -> Experiment:
    """Return Table 2 at the budgets of the paper; the experiment has a smaller epsilon_x too."""
    experiment = load_experiment("table2")
    printed = {float(row["epsilon_x"]) for row in experiment.published}
    cells = tuple(cell for cell in experiment.cells if cell.epsilon_x is None or cell.epsilon_x in printed)
    return replace(experiment, cells=cells)


def missing_datasets(experiment: Experiment, data: DatasetLoader) -> list[str]:
    """Return the data sets of an experiment that are not on this machine."""
    cells = {cell.dataset: cell for cell in experiment.cells}
    return [name for name, cell in cells.items() if not _is_there(cell, data)]


def measure_table2(
    experiment: Experiment, data: DatasetLoader, device: torch.device, *, progress: Progress, jobs: int | None = None
) -> dict[str, Any]:
    """Time both parts from the start; estimate the literal loops from one run for each data set."""
    jobs = jobs or ((os.cpu_count() or 1) if device.type == "cpu" else 1)
    column = experiment.only(methods=[RGNN.name])
    column_s = _seconds_of(column, data, device, jobs, part(progress, 0, 3))
    whole_s = _seconds_of(experiment, data, device, jobs, part(progress, 1, 3))
    literal_rows = _literal_rows(column, data, device, part(progress, 2, 3))
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


def _is_there(cell: Cell, data: DatasetLoader) -> bool:
    try:
        data(cell)
    except RunError:  # it was never fetched
        return False
    return True


def _seconds_of(
    experiment: Experiment, data: DatasetLoader, device: torch.device, jobs: int, progress: Progress
) -> float:
    """Return the time from the first report to the last file, including the start of the processes.

    Data sets are read again before: whatever earlier measurements computed from them is not reused.
    """
    data = replace(data, read=partial(data.read))  # which has read nothing yet
    for cell in experiment.cells:
        data(cell)
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        store = ResultStore(Path(folder))
        run_experiment(
            experiment, store, data=data, resources=Resources(device=device.type, jobs=jobs), progress=progress
        )
        return time.perf_counter() - started


def _literal_rows(
    column: Experiment, data: DatasetLoader, device: torch.device, progress: Progress
) -> list[dict[str, Any]]:
    counts = Counter(cell.dataset for cell in column.cells)
    rows: list[dict[str, Any]] = []
    literal.layers()  # imported before the clock runs
    for dataset, runs in counts.items():
        progress(f"{dataset}, literal", len(rows), len(counts))
        cell = _middle(column, dataset)
        rows.append({"dataset": dataset, "runs": runs, "literal_s": seconds(partial(_literal, cell, data, device))})
    return rows


def _middle(column: Experiment, dataset: str) -> Cell:
    """Return a cell from the middle of the table: epsilon_y = 1 if the grid has it, else its last one."""
    return max((c for c in column.cells if c.dataset == dataset), key=lambda c: (c.epsilon_y == 1.0, -c.seed))


def measure_cpu(column: Experiment, data: DatasetLoader) -> dict[str, Any]:
    """Return CPU seconds of a column and of the literal loops, with one thread, and their ratio.

    Literal runs are estimated as in `measure_table2`: one for each data set, times the number of runs.
    """
    device, threads = torch.device("cpu"), torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        started = _cpu_seconds()
        _seconds_of(column, data, device, 1, no_progress)
        spent = _cpu_seconds() - started
        rows: list[dict[str, Any]] = []
        literal.layers()  # imported before the clock runs
        for dataset, runs in Counter(cell.dataset for cell in column.cells).items():
            started = _cpu_seconds()
            _literal(_middle(column, dataset), data, device)
            rows.append({"dataset": dataset, "runs": runs, "literal_cpu_s": _cpu_seconds() - started})
    finally:
        torch.set_num_threads(threads)
    estimated = sum(row["runs"] * row["literal_cpu_s"] for row in rows)
    found = {"veilgraph_cpu_s": spent, "literal_cpu_s_estimated": estimated, "ratio": estimated / spent}
    return found | {"literal_runs": rows}


def _cpu_seconds() -> float:
    """Return the CPU seconds of this process and of its children that have ended."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _literal(cell: Cell, data: DatasetLoader, device: torch.device) -> None:
    private = data(cell)
    split = Split.random(private.graph.num_nodes, seed=cell.seed, eligible=private.labels != NO_LABEL)
    budget = find_method(cell.method).budget(private.schema, cell.epsilon_x, cell.epsilon_y, cell.sampled)
    literal_run(private, budget, split, RGNN(**cell.parameters, seed=cell.seed), device)


def main() -> None:
    """Measure CPU seconds of the RGNN column and print JSON."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.performance.table2",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data-dir", type=Path, help="folder of the data sets")
    experiment, data = published_part(), DatasetLoader(parser.parse_args().data_dir)
    if missing := missing_datasets(experiment, data):
        raise SystemExit(f"data sets are missing: veilgraph lab data {' '.join(missing)} --fetch")
    print(json.dumps(measure_cpu(experiment.only(methods=[RGNN.name]), data), indent=2))


if __name__ == "__main__":
    main()
