"""Time and memory of every stage of label-only Veil on graphs of growing size.

Graphs are block models with a mean degree of 20 and four classes; labels are randomized by GRR at epsilon 1 (user
level, any two records), and three quarters of the people report. Each size is measured in a process of its own, within
a memory limit that grows with the number of nodes. Results are written to veil_growth.json as they finish, and sizes
that it holds are not measured again. Ten million nodes:

python -m benchmarks.performance.veil_growth --sizes 100000 1000000 10000000
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.performance.growth import exponent, peak_bytes
from benchmarks.performance.veil_fit import collect
from veilgraph.atomic_files import write_atomically
from veilgraph.datasets import csbm
from veilgraph.evaluation import accuracy, majority_share
from veilgraph.models import LabelVeil

CLASSES, MEAN_DEGREE = 4, 20.0
BYTES_PER_NODE = 1500
"""Memory limit for each node. It is enough for two training sets at once, at any size."""

_PREFIX = "Veil: "


class StageClock(logging.Handler):
    """Wall time, CPU time and peak memory between messages of the log that name a stage.

    Attributes:
        stages: for each stage, in order, its `seconds`, `cpu_seconds` (of this process) and `peak_bytes`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stages: dict[str, dict[str, float]] = {}
        self._stage: tuple[str, float, float] | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Start the stage that a message names."""
        if (message := record.getMessage()).startswith(_PREFIX):
            self.start(message.removeprefix(_PREFIX))

    def start(self, name: str | None) -> None:
        """End the current stage, and start another; None only ends it."""
        now, used, peak = time.perf_counter(), time.process_time(), peak_bytes()
        if self._stage is not None:
            before, since, used_before = self._stage
            known = self.stages.get(before, {"seconds": 0.0, "cpu_seconds": 0.0, "peak_bytes": 0.0})
            self.stages[before] = {
                "seconds": known["seconds"] + now - since,
                "cpu_seconds": known["cpu_seconds"] + used - used_before,
                "peak_bytes": max(known["peak_bytes"], peak),
            }
        self._stage = None if name is None else (name, time.perf_counter(), time.process_time())


def measure(nodes: int, *, homophily: float, memory: int, seed: int = 0) -> dict[str, Any]:
    """Measure all stages on one graph, in this process.

    Args:
        nodes: number of nodes.
        homophily: homophily of the block model.
        memory: memory limit of the fit, in bytes.
        seed: seed of graph, split and reports.
    """
    clock, logger = StageClock(), logging.getLogger("veilgraph")
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(clock)
    try:
        clock.start("generate and randomize")
        private = csbm(
            nodes, num_classes=CLASSES, mean_degree=MEAN_DEGREE, homophily=homophily, num_features=0, seed=seed
        )
        reports, split = collect(private, seed)
        clock.start("adjacency")
        _ = private.graph.adjacency
        clock.start("folds and class affinity")
        method = LabelVeil(seed=seed).fit(reports, split, memory=memory)
        clock.start(None)
    finally:
        logger.removeHandler(clock)
        logger.setLevel(level)
    return {
        "nodes": nodes,
        "edges": private.graph.num_edges,
        "homophily": homophily,
        "memory": memory,
        "threads": torch.get_num_threads(),
        "load": os.getloadavg()[0],
        "accuracy": accuracy(method.predict(), private, split.test),
        "majority_share": majority_share(private),
        "weights": dict(zip(method.calibration_, method.pool_.weights.tolist(), strict=True)),
        "stages": clock.stages,
    }


def table(sizes: Sequence[dict[str, Any]]) -> str:
    """Return wall time, CPU time and peak memory of each stage at each size, with exponents of CPU time, as Markdown.

    >>> def size(nodes, seconds):
    ...     stage = {"seconds": seconds, "cpu_seconds": 2 * seconds, "peak_bytes": 2.0**30}
    ...     return {"nodes": nodes, "stages": {"PageRank": stage}}
    >>> print(table([size(10, 1.0), size(100, 10.0)]).splitlines()[2])
    | PageRank | 1 s, 2 s CPU, 1.00 GiB | 10 s, 20 s CPU, 1.00 GiB | 1.00 |
    """
    nodes = [size["nodes"] for size in sizes]
    lines = [
        "| stage | " + " | ".join(f"{count:,} nodes" for count in nodes) + " | exponent of CPU time |",
        "|---|" + "---:|" * (len(nodes) + 1),
    ]
    # METIS bisects graphs of up to five million edges, in other processes; larger ones are not bisected by it.
    names = [name for name in sizes[-1]["stages"] if all(name in size["stages"] for size in sizes)]
    rows = {name: [name] for name in names} | {
        "all": names,
        "all but communities": [name for name in names if name != "communities"],
    }
    for row, parts in rows.items():
        chosen = [[size["stages"][name] for name in parts] for size in sizes]
        seconds, used = ([sum(each[key] for each in of) for of in chosen] for key in ("seconds", "cpu_seconds"))
        peaks = [max((each["peak_bytes"] for each in of), default=0.0) / 2**30 for of in chosen]
        cells = [f"{s:.3g} s, {u:.3g} s CPU, {p:.2f} GiB" for s, u, p in zip(seconds, used, peaks, strict=True)]
        slope = f"{exponent(nodes, used):.2f}" if len(nodes) > 1 and min(used) > 0 else ""
        lines.append(f"| {row} | " + " | ".join([*cells, slope]) + " |")
    return "\n".join(lines) + "\n"


def grow(sizes: Sequence[int], folder: Path, arguments: Sequence[str]) -> list[dict[str, Any]]:
    """Measure missing sizes, each in a process of its own; write the table after each; return all sizes."""
    path = folder / "veil_growth.json"
    found: dict[int, dict[str, Any]] = (
        {size["nodes"]: size for size in json.loads(path.read_text(encoding="utf-8"))} if path.exists() else {}
    )
    for nodes in sizes:
        if nodes not in found:
            command = [sys.executable, "-m", "benchmarks.performance.veil_growth", "--one", str(nodes), *arguments]
            found[nodes] = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
            measured = [found[key] for key in sorted(found)]
            write_atomically(path, json.dumps(measured, indent=2))
            write_atomically(folder / "veil_growth.md", table(measured))
    return [found[key] for key in sorted(found)]


def main() -> None:
    """Measure and print a table, or JSON with --json."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.performance.veil_growth",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[10**5, 10**6], help="numbers of nodes")
    parser.add_argument("--homophily", type=float, default=0.5, help="share of edges within a class")
    parser.add_argument("--bytes-per-node", type=int, default=BYTES_PER_NODE, help="memory limit for each node")
    parser.add_argument("--out", type=Path, default=Path("veil_growth"), help="folder of veil_growth.json and .md")
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        logging.basicConfig(level=logging.INFO, format=f"%(asctime)s {options.one:,} nodes, %(message)s")
        print(
            json.dumps(measure(options.one, homophily=options.homophily, memory=options.bytes_per_node * options.one))
        )
        return
    passed_on = ["--homophily", str(options.homophily), "--bytes-per-node", str(options.bytes_per_node)]
    measured = grow(options.sizes, options.out, passed_on)
    print(json.dumps(measured, indent=2) if options.json else table(measured))


if __name__ == "__main__":
    main()
