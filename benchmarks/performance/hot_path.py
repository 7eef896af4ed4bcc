"""Profile of training: operations by their own time, the largest first."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.performance.stages import table_runs
from benchmarks.performance.workload import Workload
from veilgraph.models import RGNN
from veilgraph.models.base import FitTask

_NEGLIGIBLE = 0.01


def measure_hot_path(workload: Workload, device: torch.device, *, seeds: int = 2, epochs: int = 20) -> dict[str, Any]:
    """Return every operation above one percent of the time, the largest first, and the rest in one row.

    Time between operations (Python, and numpy in the dropout masks) has its own row. On a GPU the rows are kernels,
    and the rest of the wall time is waiting for their launch.
    """
    runs = table_runs(workload, device, seeds=seeds)
    for run in runs:
        run.method.epochs = epochs
    _fit(runs)  # fills caches, which are not part of the hot path
    total, spent = _profiled(runs, device)
    shares = {name: own / total for name, own in spent.items()}
    shares["between operations"] = max(0.0, 1 - sum(shares.values()))
    ordered = sorted(shares.items(), key=lambda item: -item[1])
    rows = _head([{"operation": name, "share": share} for name, share in ordered])
    return {"replicas": len(runs), "epochs": epochs, "seconds": total, "rows": rows}


def _profiled(runs: list[FitTask[RGNN]], device: torch.device) -> tuple[float, dict[str, float]]:
    gpu = device.type == "cuda"
    activity = ProfilerActivity.CUDA if gpu else ProfilerActivity.CPU
    with profile(activities=[activity]) as found:
        started = time.perf_counter()
        _fit(runs)
        if gpu:
            torch.cuda.synchronize(device)
        total = time.perf_counter() - started
    own = {
        event.key: (event.self_device_time_total if gpu else event.self_cpu_time_total) / 1e6
        for event in found.key_averages()
    }
    return total, {name: value for name, value in own.items() if value > 0}


def _head(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows that are not negligible, with their cumulative share, and the rest in one row."""
    kept, total = [], 0.0
    for row in rows:
        if row["share"] >= _NEGLIGIBLE:
            total += row["share"]
            kept.append({**row, "sum": total})
    return [*kept, {"operation": "all others", "share": max(0.0, 1 - total), "sum": 1.0}]


def _fit(runs: list[FitTask[RGNN]]) -> None:
    for _ in RGNN.fit_together(runs):
        pass
