"""Timing of work."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch


def seconds(work: Callable[[], object], *, device: torch.device | None = None, at_least: float = 1.0) -> float:
    """Return the shortest time of several runs, which other work on the machine disturbs least.

    Work is repeated until `at_least` seconds are spent, so long work runs once. Both sides of a ratio are measured by
    the same rule.

    >>> seconds(lambda: time.sleep(0.002), at_least=0.01) >= 0.002
    True
    """
    best = total = 0.0
    while total < at_least or not best:
        _finish(device)
        started = time.perf_counter()
        work()
        _finish(device)
        spent = time.perf_counter() - started
        best, total = min(best or spent, spent), total + spent
    return best


def _finish(device: torch.device | None) -> None:
    """Wait for a GPU, which works asynchronously."""
    if device is not None and device.type == "cuda":
        torch.cuda.synchronize(device)
