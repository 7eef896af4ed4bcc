"""Label sets compared with GRR at the same epsilon: Veil and the control on public graphs, for the label alone.

Both mechanisms randomize the labels of the same people with the same split, three quarters of all. Differences are
paired by seed. Where the best set names one class, both are GRR, and nothing is computed.

python -m studies.label_sets --datasets FOLDER --first-seed 100 --draws 10
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from studies.deployed import read_labels
from veilgraph.datasets import PrivateGraph
from veilgraph.evaluation import accuracy
from veilgraph.experiments.simulation import label_rng, randomize_labels, simulated_collection
from veilgraph.graph import Split
from veilgraph.models import LabelVeil, Method, StructureOnly
from veilgraph.privacy.mechanisms import GRR
from veilgraph.privacy.mechanisms.registry import LabelRandomizer, best_label_mechanism
from veilgraph.privacy.mechanisms.subset_selection import best_size
from veilgraph.privacy.schema import NO_LABEL

RANDOMIZERS: dict[str, LabelRandomizer] = {"sets": best_label_mechanism, "grr": GRR}

Task = tuple[Path, float, int]
"""File of a graph, epsilon and seed."""


@lru_cache(maxsize=2)
def _graph(path: Path) -> PrivateGraph:
    return read_labels(path)


def compare(task: Task) -> dict[str, float]:
    """Return the accuracy of Veil and of the control on the reports of each mechanism, for one seed."""
    path, epsilon, seed = task
    torch.set_num_threads(1)
    private, found = _graph(path), dict[str, float]()
    split = Split.random(private.graph.num_nodes, seed=seed, eligible=private.labels != NO_LABEL)
    for name, randomizer in RANDOMIZERS.items():
        mechanism = randomizer(private.schema.num_classes, epsilon)
        labels = randomize_labels(private, mechanism, split, rng=label_rng(seed))
        perturbed = simulated_collection(private, split, mechanism, labels)
        methods: dict[str, Method] = {"veil": LabelVeil(seed=seed), "control": StructureOnly(device="cpu")}
        for method, estimator in methods.items():
            predicted = estimator.fit(perturbed, split).predict()
            found[f"{method} {name}"] = accuracy(predicted, private, split.test)
    return found


def summary(path: Path, epsilon: float, draws: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Return means and paired differences with standard errors, in percent."""
    columns = {key: 100 * np.array([each[key] for each in draws]) for key in draws[0]}
    for method in ("veil", "control"):
        columns[f"{method} gain"] = columns[f"{method} sets"] - columns[f"{method} grr"]
    classes = _graph(path).schema.num_classes
    row: dict[str, Any] = {"dataset": path.stem, "classes": classes, "epsilon_user_level": epsilon}
    row["set_size"] = best_size(classes, epsilon)
    for key, values in columns.items():
        row[key] = {"mean": values.mean(), "standard_error": values.std(ddof=1) / len(values) ** 0.5}
    return row


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as a Markdown table, in percent."""
    keys = ("veil grr", "veil sets", "veil gain", "control grr", "control sets", "control gain")
    lines = [f"| graph | classes | epsilon | w | {' | '.join(keys)} |", "| --- |" + " ---: |" * (3 + len(keys))]
    for row in rows:
        cells = [f"{row[key]['mean']:.1f} ± {row[key]['standard_error']:.1f}" for key in keys]
        head = f"{row['dataset']} | {row['classes']} | {row['epsilon_user_level']:g} | {row['set_size']}"
        lines.append(f"| {head} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the table or JSON. Epsilons are at user level (any two records), spent on the label alone."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", type=Path, required=True, help="folder of public graphs, .npz")
    parser.add_argument("--only", nargs="+", default=None, help="names of the graphs; default: all of the folder")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[4.0, 2.0, 1.0, 0.5, 0.25])
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    paths = [options.datasets / f"{name}.npz" for name in options.only or ()] or sorted(options.datasets.glob("*.npz"))
    cells = [
        (path, epsilon)
        for path, epsilon in itertools.product(paths, options.epsilons)
        if best_size(_graph(path).schema.num_classes, epsilon) > 1
    ]
    seeds = range(options.first_seed, options.first_seed + options.draws)
    tasks = [(path, epsilon, seed) for path, epsilon in cells for seed in seeds]
    draws = list[dict[str, float]]()
    with ProcessPoolExecutor(options.processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        for number, found in enumerate(pool.map(compare, tasks), start=1):
            draws.append(found)
            print(f"\r{number} of {len(tasks)}", end="", file=sys.stderr)
    groups = [draws[start : start + len(seeds)] for start in range(0, len(draws), len(seeds))]
    rows = [summary(*cell, group) for cell, group in zip(cells, groups, strict=True)]
    print(json.dumps(rows, indent=2) if options.json else table(rows))


if __name__ == "__main__":
    main()
