"""Cells of a study: one draw of the reports each, computed in processes, kept in a file and summed up in a table."""

from __future__ import annotations

import argparse
import itertools
import json
import math
import multiprocessing
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Task = tuple[Path, str, float, int]
"""Folder of the data, name, epsilon and seed."""


def add_options(parser: argparse.ArgumentParser, *, out: str, drawn: bool = False) -> None:
    """Add what a study of cells can be told; one on drawn graphs alone reads no folder."""
    parser.add_argument("--datasets", type=Path, required=not drawn, help="folder of graphs, .npz, and of people/")
    parser.add_argument("--only", nargs="+", default=None, help="names of the data; default: all of the folder")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.5, 1.0, 2.0, 4.0])
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(out), help="file of finished cells")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--json", action="store_true")


def finished(path: Path) -> dict[tuple[str, float, int], dict[str, Any]]:
    """Return the cells of a file by name, epsilon and seed; a line that was cut off is left out."""
    cells: dict[tuple[str, float, int], dict[str, Any]] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        try:
            cell = json.loads(line)
        except ValueError:
            continue
        cells[cell["dataset"], cell["epsilon_user_level"], cell["seed"]] = cell
    return cells


def run_cells(
    options: argparse.Namespace,
    compare: Callable[[Task], dict[str, Any]],
    summary: Callable[[Sequence[Mapping[str, Any]]], dict[str, Any]],
    table: Callable[[Sequence[Mapping[str, Any]]], str],
    names: Sequence[str],
) -> None:
    """Compute the cells that the file lacks in processes, and print the rows as a table or as JSON."""
    seeds = range(options.first_seed, options.first_seed + options.draws)
    wanted = list(itertools.product(options.only or names, options.epsilons, seeds))
    cells = finished(options.out)
    missing = [cell for cell in wanted if cell not in cells]
    options.out.write_text("".join(json.dumps(cell) + "\n" for cell in cells.values()), encoding="utf-8")
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.processes, mp_context=context) as pool, options.out.open("a") as file:
        started = [pool.submit(compare, (options.datasets, *cell)) for cell in missing]
        for number, future in enumerate(as_completed(started), start=1):
            file.write(json.dumps(future.result()) + "\n")
            file.flush()
            print(f"\r{number} of {len(missing)}", end="", file=sys.stderr)
    cells = finished(options.out)
    rows = [
        summary([cells[name, epsilon, seed] for seed in seeds])
        for name, epsilon in itertools.product(options.only or names, options.epsilons)
    ]
    print(json.dumps(rows, indent=2) if options.json else table(rows))


def percent(draws: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> dict[str, NDArray[np.float64]]:
    """Return the accuracies of some methods in percent, [draws] each."""
    return {key: 100 * np.array([each[key] for each in draws], dtype=np.float64) for key in keys}


def mean_row(draws: Sequence[Mapping[str, Any]], columns: Mapping[str, NDArray[np.float64]]) -> dict[str, Any]:
    """Return what the draws share, their number, and the mean and the standard error of each column.

    >>> row = mean_row([{"dataset": "a", "epsilon_user_level": 1.0}] * 2, {"veil": np.array([50.0, 60.0])})
    >>> row["draws"], row["veil"]
    (2, {'mean': 55.0, 'standard_error': 5.0})
    """
    row = {key: draws[0][key] for key in ("dataset", "epsilon_user_level")} | {"draws": len(draws)}
    for key, values in columns.items():
        error = float(values.std(ddof=1) / len(values) ** 0.5) if len(values) > 1 else math.nan
        row[key] = {"mean": float(values.mean()), "standard_error": error}
    return row


def mean_table(rows: Sequence[Mapping[str, Any]], names: Mapping[str, str], *, epsilon: str = "epsilon") -> str:
    """Return rows as a Markdown table; a column is named by its key, and a text stays. Unknown figures are empty."""
    lines = [f"| data | {epsilon} | draws | {' | '.join(names.values())} |", "| --- |" + " ---: |" * (2 + len(names))]
    for row in rows:
        head = f"{row['dataset']} | {row['epsilon_user_level']:g} | {row['draws']}"
        lines.append(f"| {head} | {' | '.join(_cell(row[key]) for key in names)} |")
    return "\n".join(lines) + "\n"


def _cell(found: Any) -> str:
    if not isinstance(found, Mapping):
        return str(found)
    return "" if math.isnan(found["mean"]) else f"{found['mean']:.1f} ± {found['standard_error']:.1f}"
