"""Training beside a busy process; `python -m benchmarks.performance.busy_core`.

One epoch of RGNN and one fit of Veil with two threads, on an otherwise idle machine and beside a process that never
sleeps. Each is measured with the waiting policy of the package, and with the default of OpenMP (`OMP_WAIT_POLICY`). All
are measured in one run, one after another, each in a process of its own. The loss is the ratio of the two times. With
as many threads as cores, a fair scheduler takes half of one core away: a loss of at most two is to be expected.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

from benchmarks.performance.growth import measure
from benchmarks.performance.veil_fit import collect
from veilgraph.datasets import csbm
from veilgraph.models import LabelVeil
from veilgraph.models.base import DEFAULT_MEMORY

POLICIES = {"package": False, "OpenMP's default": True}
"""Whether torch is imported before the package, for each waiting policy."""

_RUN = "import torch, runpy; runpy.run_module('benchmarks.performance.busy_core', run_name='__main__')"
_IMPORT_TORCH_FIRST = ["-c", _RUN]
_VEIL_NODES, _REPETITIONS = 20_000, 3


def seconds_of_epoch(nodes: int, epochs: int) -> float:
    """Return the median time of an epoch of RGNN on a block model."""
    return float(measure(nodes, epochs=epochs, device="cpu", memory=DEFAULT_MEMORY)["seconds_per_epoch"])


def seconds_of_veil(nodes: int, repetitions: int = _REPETITIONS) -> float:
    """Return the median time of a label-only fit of Veil on a graph whose bisections and eigenvectors are known."""
    reports, split = collect(csbm(nodes, mean_degree=20.0, homophily=0.5, num_features=0, seed=0), 0)
    LabelVeil().fit(reports, split)
    times = []
    for _ in range(repetitions):
        started = time.perf_counter()
        LabelVeil().fit(reports, split)
        times.append(time.perf_counter() - started)
    return float(np.median(times))


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Run processes that never sleep."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for each in busy:
            each.kill()
            each.wait()


def times_of(torch_first: bool, busy: int, arguments: Sequence[str]) -> dict[str, float]:
    """Return the times of one process beside some busy processes.

    Args:
        torch_first: whether torch is imported before the package, which then cannot set a waiting policy.
        busy: number of busy processes.
        arguments: options of the process.
    """
    environment = {key: value for key, value in os.environ.items() if key != "OMP_WAIT_POLICY"}
    start = _IMPORT_TORCH_FIRST if torch_first else ["-m", "benchmarks.performance.busy_core"]
    with busy_processes(busy):
        command = [sys.executable, *start, "--one", *arguments]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def table(measured: dict[str, dict[str, dict[str, float]]]) -> str:
    """Return times without and beside a busy process, and their ratio, as Markdown.

    >>> one = {"free": {"epoch": 2.0}, "busy": {"epoch": 3.0}}
    >>> print(table({"package": one}).splitlines()[-1])
    | epoch | package | 2 s | 3 s | 1.5 |
    """
    lines = ["| work | waiting policy | free | beside a busy process | loss |", "|---|---|---:|---:|---:|"]
    for work in next(iter(measured.values()))["free"]:
        for policy, times in measured.items():
            free, busy = times["free"][work], times["busy"][work]
            lines.append(f"| {work} | {policy} | {free:.3g} s | {busy:.3g} s | {busy / free:.3g} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and print a table, or JSON with --json."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.performance.busy_core",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--nodes", type=int, default=10**5, help="nodes of RGNN's graph")
    parser.add_argument("--veil-nodes", type=int, default=_VEIL_NODES, help="nodes of Veil's graph")
    parser.add_argument("--epochs", type=int, default=10, help="training epochs")
    parser.add_argument("--threads", type=int, default=2, help="threads of torch")
    parser.add_argument("--out", type=Path, help="file of the results as JSON")
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        torch.set_num_threads(options.threads)
        found = {
            "one epoch of RGNN": seconds_of_epoch(options.nodes, options.epochs),
            "one fit of Veil": seconds_of_veil(options.veil_nodes),
        }
        print(json.dumps(found))
        return
    passed_on = [f"--{name}={getattr(options, name.replace('-', '_'))}" for name in ("nodes", "veil-nodes", "epochs")]
    passed_on.append(f"--threads={options.threads}")
    measured = {
        name: {state: times_of(torch_first, busy, passed_on) for state, busy in (("free", 0), ("busy", 1))}
        for name, torch_first in POLICIES.items()
    }
    text = json.dumps(measured, indent=2)
    if options.out is not None:
        options.out.write_text(text, encoding="utf-8")
    print(text if options.json else table(measured))


if __name__ == "__main__":
    main()
