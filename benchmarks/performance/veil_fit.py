"""Time of a fit of Veil: the first on a graph, and the next, for which trees and eigenvectors are kept.

CPU time of one thread, the shortest of several fits, so that other work on the machine disturbs it little. Labels are
randomized by GRR at epsilon 1 (user level, any two records); three quarters of the people report. To compare two
versions, run it with `PYTHONPATH` set to the `src` of each, at the same time.

python -m benchmarks.performance.veil_fit --datasets FOLDER cora facebook
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from veilgraph.datasets import PrivateGraph, csbm
from veilgraph.datasets.archive import Archive
from veilgraph.experiments.simulation import label_rng, randomize_labels, simulated_collection
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.models import LabelVeil
from veilgraph.privacy.mechanisms import GRR

EPSILON = 1.0


def read_graph(name: str, folder: Path) -> PrivateGraph:
    """Return a public graph of the folder, or `csbm:CLASSES:HOMOPHILY` with 3,000 nodes of mean degree 10."""
    if not name.startswith("csbm:"):
        return Archive.read(folder / f"{name}.npz").private_graph(group=1)
    _, classes, homophily = name.split(":")
    return csbm(3000, num_classes=int(classes), homophily=float(homophily), mean_degree=10.0, num_features=0, seed=0)


def collect(private: PrivateGraph, seed: int) -> tuple[PerturbedGraph, Split]:
    """Return the label reports of a simulated collection."""
    split, mechanism = Split.random(private.graph.num_nodes, seed=seed), GRR(private.schema.num_classes, EPSILON)
    labels = randomize_labels(private, mechanism, split, rng=label_rng(seed))
    return simulated_collection(private, split, mechanism, labels), split


def fit_times(reports: PerturbedGraph, split: Split, repetitions: int) -> dict[str, float]:
    """Return the shortest CPU times of a first fit and of the fit after it, in seconds."""
    times: dict[str, list[float]] = {"first": [], "next": []}
    for _ in range(repetitions):
        unseen = replace(reports, graph=replace(reports.graph))
        for seconds in times.values():
            seconds.append(_cpu_time(partial(LabelVeil().fit, unseen, split)))
    return {name: min(seconds) for name, seconds in times.items()}


def _cpu_time(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def main() -> None:
    """Print the times of each graph, a line of JSON each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="+", help="names of data sets, or csbm:CLASSES:HOMOPHILY")
    parser.add_argument("--datasets", type=Path, default=Path(), help="folder of the data sets")
    parser.add_argument("--repetitions", type=int, default=4, help="fits of which the shortest counts")
    parser.add_argument("--seed", type=int, default=1, help="seed of split and reports")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    fit_times(*collect(csbm(200, num_classes=3, num_features=0, seed=0), 0), 1)  # what a process does once
    for name in arguments.graphs:
        times = fit_times(*collect(read_graph(name, arguments.datasets), arguments.seed), arguments.repetitions)
        print(json.dumps({"graph": name} | {each: round(seconds, 3) for each, seconds in times.items()}), flush=True)


if __name__ == "__main__":
    main()
