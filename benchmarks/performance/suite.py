"""All measurements of `python -m benchmarks`, in one run on one machine."""

from __future__ import annotations

import contextlib
import datetime
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

import veilgraph
from benchmarks.performance.growth import exponent, grow
from benchmarks.performance.hot_path import measure_hot_path
from benchmarks.performance.machine import measure_machine
from benchmarks.performance.progress import part
from benchmarks.performance.stages import measure_stages
from benchmarks.performance.table2 import measure_table2, missing_datasets, published_part
from benchmarks.performance.workload import largest
from veilgraph.experiments.cells import DatasetLoader
from veilgraph.models.engine.device import resolve_device
from veilgraph.progress import Progress

GROWTH_SIZES = (10**4, 10**5, 10**6)


Grow = Callable[[Sequence[int], Path, Sequence[str]], list[dict[str, Any]]]
"""Measures graphs of several sizes; see `benchmarks.performance.growth.grow`."""


def measure(*, full: bool, data_dir: Path | None, device: str, progress: Progress, grow: Grow = grow) -> dict[str, Any]:
    """Measure everything and return the results, JSON-ready.

    Args:
        full: measure the paper's Table 2 and growth with size too.
        data_dir: folder of the data sets.
        device: "auto", "cpu" or "cuda".
        progress: called with the measurement, the number of finished parts, and the number of all parts.
        grow: measures graphs of several sizes.
    """
    place, parts = resolve_device(device), 5 if full else 3
    progress("the machine", 0, 1)
    machine, workload = measure_machine(place), largest(data_dir)
    results: dict[str, Any] = {
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "veilgraph": veilgraph.__version__,
        "device": place.type,
        "machine": vars(machine) | {"in_words": machine.in_words(), "busy": machine.busy},
        "workload": workload.in_words(),
        "stages": measure_stages(workload, machine, place, progress=part(progress, 1, parts)),
    }
    part(progress, 2, parts)("the hot path", 0, 1)
    results["hot_path"] = measure_hot_path(workload, place)
    if full:
        results["table2"] = _table2(data_dir, place, part(progress, 3, parts))
        results["growth"] = measure_growth(grow, place, part(progress, 4, parts))
    progress("done", 1, 1)
    return results


def _table2(data_dir: Path | None, device: torch.device, progress: Progress) -> dict[str, Any]:
    experiment = published_part()
    data = DatasetLoader(data_dir)
    if missing := missing_datasets(experiment, data):
        return {"left_out": f"needs data sets that are not there: veilgraph lab data {' '.join(missing)} --fetch"}
    return measure_table2(experiment, data, device, progress=progress)


def measure_growth(grow: Grow, device: torch.device, progress: Progress) -> dict[str, Any]:
    """Measure graphs of all sizes again, each in a separate process."""
    progress("growth", 0, 1)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(Path(__file__).parents[2]):
        sizes = grow(GROWTH_SIZES, Path(folder), ["--device", device.type])
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
    return {"rows": rows, "exponent": exponent([size["nodes"] for size in sizes], totals), "sizes": sizes}
