"""Time and memory of every stage on graphs of growing size; `python -m benchmarks.performance.growth`.

Each size is measured in a separate process. Results are written to growth.json as they finish, and sizes that it holds
are not measured again.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from veilgraph.atomic_files import write_atomically
from veilgraph.datasets import csbm
from veilgraph.evaluation import accuracy, majority_share
from veilgraph.experiments import simulate
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.graph.clustering import MAX_METIS_EDGES
from veilgraph.models import RGNN
from veilgraph.models.base import DEFAULT_MEMORY, FitTask
from veilgraph.models.engine.batch_planner import BLOCK_NODES
from veilgraph.models.engine.device import resolve_device
from veilgraph.models.engine.output_layer import NodeSubset
from veilgraph.pages.rendering import colour, inline_svg, standalone_svg
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.reconstruct import Bags
from veilgraph.reconstruct.operators import GraphOperators, operators_of

BUDGET = PrivacyBudget(epsilon_x=1.0, epsilon_y=1.0, sampled=10)
HOPS, FEATURES, MEAN_DEGREE, BAGS = 4, 48, 20, 16
STAGES = ("generate", "randomize", "matrices", "features", "labels", "bags", "train", "predict")
COLOURS = {
    "generate": "muted",
    "randomize": "plain",
    "matrices": "non_private",
    "features": "rgnn",
    "labels": "lpgnn",
    "bags": "structure_only",
    "train": "refuted",
}


class Stages:
    """Time and peak memory of each stage. Stages nest: an inner stage does not count for the outer one."""

    def __init__(self, device: torch.device) -> None:
        self.seconds: dict[str, float] = {}
        self.peak_bytes: dict[str, int] = {}
        self._device, self._since = device, time.perf_counter()
        self._active: list[str] = []

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Measure the context as a stage."""
        self._charge()
        self._active.append(name)
        logging.getLogger("veilgraph").info("%s", name)
        try:
            yield
        finally:
            self._charge()
            self._active.pop()

    def _charge(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize()
        now, peak = time.perf_counter(), peak_bytes()
        if self._active:
            name = self._active[-1]
            self.seconds[name] = self.seconds.get(name, 0) + now - self._since
            self.peak_bytes[name] = max(self.peak_bytes.get(name, 0), peak)
        self._since = time.perf_counter()


class StagedRGNN(RGNN):
    """RGNN with a clock: it computes exactly what RGNN computes."""

    stages: Stages
    epoch_starts: list[float]

    def network_inputs(self, perturbed: PerturbedGraph, operators: GraphOperators) -> Tensor:
        """Time the reconstruction of features."""
        with self.stages("features"):
            return super().network_inputs(perturbed, operators)

    @classmethod
    def training_targets(cls, runs: Sequence[FitTask[Self]], operators: GraphOperators) -> Tensor:
        """Time the reconstruction of labels."""
        with runs[0].method.stages("labels"):
            return super().training_targets(runs, operators)

    @classmethod
    def bags(cls, runs: Sequence[FitTask[Self]], operators: GraphOperators) -> Bags:
        """Time the estimation of bag proportions."""
        with runs[0].method.stages("bags"):
            return super().bags(runs, operators)

    @classmethod
    def make_loss(
        cls, runs: Sequence[FitTask[Self]], operators: GraphOperators, nodes: NodeSubset
    ) -> Callable[[Tensor], Tensor]:
        """Record when each epoch starts."""
        loss, starts = super().make_loss(runs, operators, nodes), runs[0].method.epoch_starts

        def watched(logits: Tensor) -> Tensor:
            starts.append(time.perf_counter())
            return loss(logits)

        return watched


def measure(
    nodes: int,
    *,
    epochs: int,
    device: str,
    memory: int,
    block_nodes: int = BLOCK_NODES,
    max_metis_edges: int = MAX_METIS_EDGES,
) -> dict[str, Any]:
    """Measure all stages on one graph, in this process.

    Args:
        nodes: number of nodes.
        epochs: number of training epochs.
        device: "auto", "cpu" or "cuda".
        memory: memory limit of training, in bytes.
        block_nodes: number of nodes in a block, if hidden units of all nodes do not fit into memory.
        max_metis_edges: larger graphs are clustered by a streaming algorithm.
    """
    where, before = resolve_device(device), peak_bytes()
    stages = Stages(where)
    with stages("generate"):
        private = csbm(nodes, mean_degree=MEAN_DEGREE, num_features=FEATURES, seed=0)
    with stages("randomize"):
        split = Split.random(nodes, seed=0)
        perturbed = simulate(private, BUDGET, split, rng=np.random.default_rng(0))
    with stages("matrices"):
        operators = operators_of(private.graph, where)
        for matrix in ("mean", "neighbours"):  # built at first use
            getattr(operators, matrix)
    method = StagedRGNN(feature_hops=HOPS, label_hops=HOPS, num_clusters=BAGS, epochs=epochs, device=device)
    method.stages, method.epoch_starts = stages, []
    with stages("bags"):
        operators.decompositions.prepare_clusters(
            method.bag_counts(), workers=torch.get_num_threads(), max_metis_edges=max_metis_edges
        )
    with stages("train"):
        task = FitTask(method=method, perturbed=perturbed, split=split)
        for fit in StagedRGNN.start_together([task], memory=memory, block_nodes=block_nodes):
            fit.result()
    with stages("predict"):
        score = accuracy(method.predict(), private, split.test)
    return {
        "nodes": nodes,
        "edges": private.graph.num_edges,
        "features": FEATURES,
        "hops": HOPS,
        "epochs": epochs,
        "device": where.type,
        "threads": torch.get_num_threads(),
        "memory": memory,
        "accuracy": score,
        "majority_share": majority_share(private),
        "seconds": {name: stages.seconds[name] for name in STAGES},
        "seconds_per_epoch": _seconds_per_epoch(method, where),
        "bytes_before": before,
        "peak_bytes": {name: stages.peak_bytes[name] for name in STAGES},
        "peak_gpu_bytes": torch.cuda.max_memory_allocated() if where.type == "cuda" else None,
    }


def _seconds_per_epoch(method: StagedRGNN, device: torch.device) -> float:
    """Return the median time between two losses. A GPU replays a CUDA graph, so there it is the mean of all epochs."""
    if device.type == "cuda" or method.epochs == 1:
        return method.stages.seconds["train"] / method.epochs
    return float(np.median(np.diff(method.epoch_starts)))


def peak_bytes() -> int:
    """Return the peak resident memory since the last call; on systems other than Linux, since the start."""
    status, clear = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not clear.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    clear.write_text("5")
    return int(line.split()[1]) * 1024


def exponent(nodes: Sequence[int], values: Sequence[float]) -> float:
    """Return the slope of a straight line through log(value) over log(nodes); 1 is proportional growth.

    >>> round(exponent([10, 100, 1000], [3, 30, 300]), 9)
    1.0
    """
    return float(np.polyfit(np.log(nodes), np.log(values), 1)[0])


def table(sizes: Sequence[dict[str, Any]]) -> str:
    """Return time and peak memory of each stage at each size, with exponents of time, as Markdown."""
    nodes = [size["nodes"] for size in sizes]
    lines = [
        "| stage | " + " | ".join(f"{count:,} nodes" for count in nodes) + " | exponent | last tenfold |",
        "|---|" + "---:|" * (len(nodes) + 2),
    ]
    for name in STAGES:
        peaks = [f", {size['peak_bytes'][name] / 2**30:.2f} GiB" for size in sizes]
        lines.append(_row(name, nodes, [size["seconds"][name] for size in sizes], peaks))
    # Two algorithms make the bags, depending on the size; one line through both would be meaningless.
    for name, left_out in (("all", ()), ("all but bags", ("bags",))):
        kept = [stage for stage in STAGES if stage not in left_out]
        peaks = [f", {max(size['peak_bytes'][stage] for stage in kept) / 2**30:.2f} GiB" for size in sizes]
        lines.append(_row(name, nodes, [sum(size["seconds"][stage] for stage in kept) for size in sizes], peaks))
    lines.append(_row("one epoch", nodes, [size["seconds_per_epoch"] for size in sizes], [""] * len(sizes)))
    return "\n".join(lines) + "\n"


def _row(name: str, nodes: Sequence[int], seconds: Sequence[float], peaks: Sequence[str]) -> str:
    cells = [f"{value:.3g} s{peak}" for value, peak in zip(seconds, peaks, strict=True)]
    slopes = [exponent(nodes, seconds), exponent(nodes[-2:], seconds[-2:])] if len(nodes) > 1 else []
    return f"| {name} | " + " | ".join([*cells, *([f"{slope:.2f}" for slope in slopes] or ["", ""])]) + " |"


def figure(sizes: Sequence[dict[str, Any]]) -> str:
    """Return a figure of time and peak memory over nodes, on logarithmic axes, as the content of an SVG file."""
    nodes = [size["nodes"] for size in sizes]

    def paint(canvas: Figure) -> None:
        time_axes, memory_axes = canvas.subplots(1, 2)
        canvas.subplots_adjust(left=0.08, right=0.97, top=0.9, bottom=0.13, wspace=0.22)
        for name, shade in COLOURS.items():
            time_axes.plot(
                nodes, [size["seconds"][name] for size in sizes], "o-", color=colour(shade), label=name, ms=3
            )
        totals = [sum(size["seconds"].values()) for size in sizes]
        time_axes.plot(nodes, totals, "o-", color=colour("ink"), linewidth=2.5, label="all")
        ideal = [totals[0] * count / nodes[0] for count in nodes]
        time_axes.plot(nodes, ideal, color=colour("muted"), linestyle=(0, (1, 2)), label="proportional")
        peaks = [max(size["peak_bytes"].values()) / 2**30 for size in sizes]
        memory_axes.plot(nodes, peaks, "o-", color=colour("rgnn"), linewidth=2.5)
        for axes, title in ((time_axes, "seconds"), (memory_axes, "peak memory, GiB")):
            axes.set(xscale="log", yscale="log", xlabel="nodes")
            axes.minorticks_off()
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axes.set_title(title, loc="left", fontsize=11)
            axes.grid(visible=True)
        memory_axes.set_yticks([0.3, 1, 3, 10])
        time_axes.legend(frameon=False, fontsize=8, ncols=2, loc="upper left")

    spoken = "; ".join(
        f"{size['nodes']:,} nodes: {sum(size['seconds'].values()):.3g} s, "
        f"{max(size['peak_bytes'].values()) / 2**30:.2f} GiB"
        for size in sizes
    )
    return standalone_svg(inline_svg(paint, width=900, height=380, name="growth", label=f"Growth. {spoken}."))


def grow(sizes: Sequence[int], folder: Path, arguments: Sequence[str]) -> list[dict[str, Any]]:
    """Measure missing sizes, each in a separate process; write table and figure after each; return all sizes."""
    path = folder / "growth.json"
    found: dict[int, dict[str, Any]] = (
        {size["nodes"]: size for size in json.loads(path.read_text(encoding="utf-8"))} if path.exists() else {}
    )
    for nodes in sizes:
        if nodes in found:
            continue
        command = [sys.executable, "-m", "benchmarks.performance.growth", "--one", str(nodes), *arguments]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        found[nodes] = json.loads(done.stdout)
        measured = [found[key] for key in sorted(found)]
        write_atomically(path, json.dumps(measured, indent=2))
        write_atomically(folder / "growth.md", table(measured))
        write_atomically(folder / "growth.svg", figure(measured))
    return [found[key] for key in sorted(found)]


def main() -> None:
    """Measure and print a table, or JSON with --json."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.performance.growth", description=__doc__)
    parser.add_argument("--largest", type=int, default=10**6, help="largest number of nodes; sizes grow tenfold to it")
    parser.add_argument("--epochs", type=int, default=5, help="training epochs")
    parser.add_argument("--device", default="cpu", help="auto, cpu or cuda")
    parser.add_argument("--memory", type=int, default=DEFAULT_MEMORY, help="memory limit of training, in bytes")
    parser.add_argument("--limit", type=int, help="memory limit of the process, in bytes")
    parser.add_argument("--out", type=Path, default=Path("growth"), help="folder of growth.json, .md and .svg")
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        logging.basicConfig(level=logging.INFO, format=f"%(asctime)s {options.one:,} nodes, %(message)s")
        if options.limit is not None:
            resource.setrlimit(resource.RLIMIT_DATA, (options.limit, options.limit))
        found = measure(options.one, epochs=options.epochs, device=options.device, memory=options.memory)
        print(json.dumps(found))
        return
    passed_on = ["--epochs", str(options.epochs), "--device", options.device, "--memory", str(options.memory)]
    if options.limit is not None:
        passed_on += ["--limit", str(options.limit)]
    smallest = min(10**4, options.largest)
    sizes = [smallest * 10**i for i in range(1 + round(math.log10(options.largest / smallest)))]
    measured = grow(sizes, options.out, passed_on)
    print(json.dumps(measured, indent=2) if options.json else table(measured))


if __name__ == "__main__":
    main()
