"""A graph of a billion edges on one machine with one GPU, from generated shards to predictions, stage by stage.

Shards are generated in several processes: a block model with four classes, and simulated reports of a label and of
features. Then label-only Veil, RGNN and the control learn from them in one process. Accuracy is that of the people who
reported no label. Epsilon of the label is at user level (any two records), that of a feature is of any two values of a
sampled one. The table of stages is written as it grows.

python -m benchmarks.performance.billion --device cuda
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.performance.growth import peak_bytes
from veilgraph.atomic_files import write_atomically
from veilgraph.campaign import Campaign
from veilgraph.datasets.csbm_blocks import CsbmBlocks
from veilgraph.deploy.shard_reports import perturbed_from_shards
from veilgraph.deploy.sources import split_reports
from veilgraph.experiments.shard_simulation import CAMPAIGN, write_simulated_shards
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.models import RGNN, LabelVeil, Method, StructureOnly
from veilgraph.models.engine.device import resolve_device
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.reconstruct.operators import operators_of

BUDGET = PrivacyBudget(epsilon_x=1.0, epsilon_y=1.0, sampled=4)
_VEIL = "Veil: "


class StageTable(logging.Handler):
    """Wall time and peak memory of stages, those of Veil by the messages of its log.

    Args:
        path: file that is written after each stage.
        device: device whose memory is measured.
        facts: what is written beside the stages.
    """

    def __init__(self, path: Path, device: torch.device, facts: dict[str, Any]) -> None:
        super().__init__()
        self.stages: dict[str, dict[str, float]] = {}
        self.facts, self._path, self._device = facts, path, device
        self._name, self._since = "", 0.0

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Measure the context as a stage; a message of Veil's log starts another one."""
        self._start(name)
        try:
            yield
        finally:
            self._end()

    def emit(self, record: logging.LogRecord) -> None:
        """Start the stage that a message of Veil names."""
        if (message := record.getMessage()).startswith(_VEIL):
            self._end()
            self._start(message)

    def _start(self, name: str) -> None:
        self._synchronize()
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        peak_bytes()
        self._name, self._since = name, time.perf_counter()
        print(f"{name} ...", flush=True)

    def _end(self) -> None:
        self._synchronize()
        stage = {"seconds": time.perf_counter() - self._since, "peak_bytes": float(peak_bytes())}
        if self._device.type == "cuda":
            stage["peak_gpu_bytes"] = float(torch.cuda.max_memory_allocated())
        self.stages[self._name] = stage
        print(f"{self._name}: {stage['seconds']:.1f} s", flush=True)
        write_atomically(self._path, json.dumps(self.facts | {"stages": self.stages}, indent=2))

    def _synchronize(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize()


def table(measured: dict[str, Any]) -> str:
    """Return the stages as Markdown.

    >>> stage = {"seconds": 2.0, "peak_bytes": 2.0**30, "peak_gpu_bytes": 2.0**31}
    >>> print(table({"stages": {"read": stage}}).splitlines()[2])
    | read | 2.0 | 1.0 | 2.0 |
    """
    lines = ["| stage | seconds | GiB of memory | GiB on the GPU |", "|---|---:|---:|---:|"]
    for name, stage in measured["stages"].items():
        gpu = f"{stage['peak_gpu_bytes'] / 2**30:.1f}" if "peak_gpu_bytes" in stage else ""
        lines.append(f"| {name} | {stage['seconds']:.1f} | {stage['peak_bytes'] / 2**30:.1f} | {gpu} |")
    seconds = sum(stage["seconds"] for stage in measured["stages"].values())
    return "\n".join([*lines, f"| all | {seconds:.1f} | | |"]) + "\n"


def measure(model: CsbmBlocks, folder: Path, stages: StageTable, *, device: str, memory: int, epochs: int) -> None:
    """Generate shards, and fit Veil, RGNN and the control on them in this process.

    Args:
        model: the graph and its records.
        folder: folder for the shards; it is removed.
        stages: clock of the stages, and the facts.
        device: "auto", "cpu" or "cuda".
        memory: memory limit of a fit, in bytes.
        epochs: number of training epochs of RGNN.
    """
    with stages("generate shards"):
        shards = write_simulated_shards(folder, model, BUDGET, jobs=os.cpu_count() or 1)
    campaign = Campaign.from_json((folder / CAMPAIGN).read_bytes())
    with stages("read the graph"):
        graph = shards.graph()
    with stages("read the reports"):
        perturbed = perturbed_from_shards(campaign, shards, graph)
        split, _ = split_reports(perturbed, LabelVeil(), seed=0, hold_out=0.0)
    shutil.rmtree(folder)
    with stages("degrees"):
        _ = graph.degrees
    with stages("adjacency"):
        _ = operators_of(graph, resolve_device(device)).adjacency
    fits: dict[str, tuple[Method, Callable[[Any], object]]] = {
        "Veil": (LabelVeil(device=device), lambda method: method.fit(perturbed, split, memory=memory)),
        "RGNN": (RGNN(device=device, epochs=epochs), lambda method: method.fit(perturbed, split, memory=memory)),
        "control": (StructureOnly(device=device), lambda method: method.fit(perturbed, split)),
    }
    for name, (method, fit) in fits.items():
        with stages(f"{name}: start" if name == "Veil" else name):
            fit(method)
        stages.facts.setdefault("accuracy", {})[name] = _accuracy(method, model, perturbed, split)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def _accuracy(method: Method, model: CsbmBlocks, perturbed: PerturbedGraph, split: Split) -> float:
    """Return the share of the people without a label report whose class is predicted."""
    silent = np.flatnonzero(~perturbed.has_label & ~split.labelled)
    return float((method.predict()[silent] == model.labels(silent)).mean())


def main() -> None:
    """Measure and print a table, or JSON with --json."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.performance.billion",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--nodes", type=int, default=50_000_000, help="number of nodes")
    parser.add_argument("--mean-degree", type=float, default=40.0, help="mean number of neighbours")
    parser.add_argument("--homophily", type=float, default=0.4, help="share of edges within a class")
    parser.add_argument("--features", type=int, default=16, help="number of binary features")
    parser.add_argument("--epochs", type=int, default=100, help="training epochs of RGNN")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--memory", type=int, default=70 * 2**30, help="memory limit of a fit, in bytes")
    parser.add_argument("--out", type=Path, default=Path("billion"), help="folder of billion.json and of the shards")
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")
    options = parser.parse_args()
    model = CsbmBlocks(
        num_nodes=options.nodes,
        mean_degree=options.mean_degree,
        homophily=options.homophily,
        num_features=options.features,
    )
    facts = {"nodes": options.nodes, "edges": model.num_edges, "homophily": options.homophily} | {
        "features": options.features,
        "epochs": options.epochs,
        "memory": options.memory,
        "cores": os.cpu_count(),
    }
    stages = StageTable(options.out / "billion.json", resolve_device(options.device), facts)
    logger = logging.getLogger("veilgraph")
    logger.setLevel(logging.INFO)
    logger.addHandler(stages)
    options.out.mkdir(parents=True, exist_ok=True)
    measure(
        model,
        options.out / "shards",
        stages,
        device=options.device,
        memory=options.memory,
        epochs=options.epochs,
    )
    found = stages.facts | {"stages": stages.stages}
    write_atomically(options.out / "billion.json", json.dumps(found, indent=2))
    write_atomically(options.out / "billion.md", table(found))
    print(json.dumps(found, indent=2) if options.json else table(found) + json.dumps(stages.facts))


if __name__ == "__main__":
    main()
