"""How long work takes, at its best."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch


def seconds(work: Callable[[], object], *, device: torch.device | None = None, at_least: float = 1.0) -> float:
    """The best of several runs: what the machine can do, not what else it was doing.

    Short work is repeated until `at_least` seconds are spent, long work is done once; both sides of a ratio are
    measured by the same rule.

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
    """A GPU works on after the call that asked it to."""
    if device is not None and device.type == "cuda":
        torch.cuda.synchronize(device)
