"""Everything that `python -m benchmarks` measures, in one run on one machine."""

from __future__ import annotations

import contextlib
import datetime
import importlib
import tempfile
from pathlib import Path
from typing import Any

import torch

import veilgraph
from benchmarks.performance.hot_path import measure_hot_path
from benchmarks.performance.machine import measure_machine
from benchmarks.performance.progress import part
from benchmarks.performance.stages import measure_stages
from benchmarks.performance.table2 import measure_table2, missing_datasets, published_part
from benchmarks.performance.workload import largest
from veilgraph.experiments.data_source import DatasetLoader
from veilgraph.models.engine.device import resolve_device
from veilgraph.progress import Progress

GROWTH_SIZES = (10**4, 10**5, 10**6)


def measure(*, full: bool, data_dir: Path | None, device: str, progress: Progress) -> dict[str, Any]:
    """The report: plain values that JSON can hold.

    Args:
        full: the paper's table and, where it is there, growth with size as well.
        data_dir: folder of the data sets.
        device: "auto", "cpu" or "cuda".
        progress: told what is measured, how much is done, and of how much.
    """
    place, growth = resolve_device(device), _find_growth() if full else None
    parts = 3 + full + (growth is not None)
    progress("the machine", 0, 1)
    machine, workload = measure_machine(place), largest(data_dir)
    report: dict[str, Any] = {
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "veilgraph": veilgraph.__version__,
        "device": place.type,
        "machine": vars(machine) | {"in_words": machine.in_words(), "busy": machine.busy},
        "workload": workload.in_words(),
        "stages": measure_stages(workload, machine, place, progress=part(progress, 1, parts)),
    }
    part(progress, 2, parts)("the hot path", 0, 1)
    report["hot_path"] = measure_hot_path(workload, place)
    if full:
        report["table2"] = _table2(data_dir, place, part(progress, 3, parts))
    if growth is not None:
        report["growth"] = _growth(growth, place, part(progress, 4, parts))
    progress("done", 1, 1)
    return report


def _table2(data_dir: Path | None, device: torch.device, progress: Progress) -> dict[str, Any]:
    experiment = published_part()
    data = DatasetLoader(data_dir)
    if missing := missing_datasets(experiment, data):
        return {"left_out": f"needs data sets that are not there: veilgraph data fetch {' '.join(missing)}"}
    return measure_table2(experiment, data, device, progress=progress)


def _find_growth() -> Any:
    """The benchmark of growth with size, where this checkout has one."""
    try:
        return importlib.import_module("benchmarks.performance.growth")
    except ModuleNotFoundError as error:
        if error.name != "benchmarks.performance.growth":
            raise
        return None


def _growth(growth: Any, device: torch.device, progress: Progress) -> dict[str, Any]:
    """Every size anew, in a process of its own."""
    progress("growth", 0, 1)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(Path(__file__).parents[2]):
        sizes = growth.grow(GROWTH_SIZES, Path(folder), ["--device", device.type])
    progress("growth", 1, 1)
    totals = [sum(size["seconds"].values()) for size in sizes]
    rows = [
        {
            "nodes": size["nodes"],
            "edges": size["edges"],
            "seconds": total,
            "peak GiB": max(size["peak_bytes"].values()) / 2**30,
        }
        for size, total in zip(sizes, totals, strict=True)
    ]
    return {"rows": rows, "exponent": growth.exponent([size["nodes"] for size in sizes], totals), "sizes": sizes}
