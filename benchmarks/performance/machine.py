"""Limits of this machine, measured now: bandwidths and arithmetic peak, from which lower bounds are computed."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from benchmarks.performance.timing import seconds


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Limits of one device.

    Attributes:
        name: name of the CPU or GPU.
        cores: number of cores of the machine.
        threads: number of threads of torch.
        torch: version of torch.
        load: load average of the minute before the measurement; None if the system does not have it.
        memory_bandwidth: bytes per second, read and written, of a copy much larger than any cache.
        cache_bandwidth: bytes per second of a copy that stays in the cache.
        peak: float32 operations per second of a large matrix product.
        peak_one_thread: the same with one thread; on a GPU, that of the whole GPU.
    """

    name: str
    cores: int
    threads: int
    torch: str
    load: float | None
    memory_bandwidth: float
    cache_bandwidth: float
    peak: float
    peak_one_thread: float

    @property
    def busy(self) -> bool:
        """Whether other work may have slowed down the measurement."""
        return self.load is not None and self.load > self.cores / 2

    def in_words(self) -> str:
        """Return a description for people."""
        return (
            f"{self.name}, {self.cores} cores, torch {self.torch} with {self.threads} threads; "
            f"copies {self.memory_bandwidth / 1e9:.0f} GB/s through memory and {self.cache_bandwidth / 1e9:.0f} GB/s "
            f"in the cache, multiplies matrices at {self.peak / 1e9:,.0f} GFLOP/s "
            f"({self.peak_one_thread / 1e9:,.0f} with one thread)"
        )


def measure_machine(device: torch.device, *, scale: float = 1.0) -> Machine:
    """Measure copies and matrix products. A `scale` below 1 shrinks the arrays, for tests only."""
    large, small, side = (2**26, 2**19, 2048) if device.type == "cpu" else (2**29, 2**21, 8192)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    peak = matrix_product_rate(int(side * scale), device)
    with _one_thread():
        alone = peak if device.type == "cuda" else matrix_product_rate(int(side * scale), device)
    return Machine(
        name=_name(device),
        cores=os.cpu_count() or 1,
        threads=torch.get_num_threads(),
        torch=torch.__version__,
        load=load,
        memory_bandwidth=copy_rate(int(large * scale), device, copies=1),
        cache_bandwidth=copy_rate(int(small * scale), device, copies=32),
        peak=peak,
        peak_one_thread=alone,
    )


def copy_rate(numbers: int, device: torch.device, *, copies: int) -> float:
    """Return bytes read and written per second by repeated copies of a float32 array."""
    source = torch.ones(numbers, device=device)
    target = source.clone()  # its pages are allocated before the clock runs

    def work() -> None:
        for _ in range(copies):
            target.copy_(source)

    return 2 * source.nbytes * copies / seconds(work, device=device, at_least=0.5)


def matrix_product_rate(side: int, device: torch.device) -> float:
    """Return operations per second of a product of two square matrices."""
    left, right = torch.ones(side, side, device=device), torch.ones(side, side, device=device)
    product = torch.empty_like(left)
    return 2 * side**3 / seconds(lambda: torch.mm(left, right, out=product), device=device, at_least=0.5)


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
