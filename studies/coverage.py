"""Coverage and size of Veil's sets of classes, from randomized labels alone, on public graphs.

Each person of a graph reports a label with a given share, chosen at random. Sets are asked to hold the true class of
90 % of the people, of those who reported and of those who did not. "Bare" sets may be empty: their coverage says how
well thresholds are calibrated. The sets that a user gets have all classes in place of none, so that they cover more.
"One class" is the share of people whose set has one class, and "right" for how many of these it is the true one. The
control's accuracy stands beside.

python -m studies.coverage --datasets FOLDER --first-seed 100 --draws 10
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
from veilgraph.models import LabelVeil, StructureOnly
from veilgraph.privacy.mechanisms import GRR
from veilgraph.privacy.mechanisms.registry import LabelRandomizer, best_label_mechanism
from veilgraph.privacy.mechanisms.subset_selection import best_size
from veilgraph.privacy.schema import NO_LABEL

RANDOMIZERS: dict[str, LabelRandomizer] = {"GRR": GRR, "sets": best_label_mechanism}

Cell = tuple[Path, float, float, str]
"""File of a graph, share of the people who report, epsilon and name of the randomizer."""


@lru_cache(maxsize=2)
def _graph(path: Path) -> PrivateGraph:
    return read_labels(path)


def measure(cell: Cell, seed: int, coverage: float = 0.9) -> dict[str, float]:
    """Return the coverage and the mean size of sets for one seed, and accuracies among people without a report."""
    path, share, epsilon, randomizer = cell
    torch.set_num_threads(1)
    private = _graph(path)
    eligible = private.labels != NO_LABEL
    split = Split.random(
        private.graph.num_nodes, seed=seed, train=share * 2 / 3, validation=share / 3, eligible=eligible
    )
    mechanism = RANDOMIZERS[randomizer](private.schema.num_classes, epsilon)
    labels = randomize_labels(private, mechanism, split, rng=label_rng(seed))
    perturbed = simulated_collection(private, split, mechanism, labels)
    veil, control = LabelVeil(seed=seed).fit(perturbed, split), StructureOnly(device="cpu").fit(perturbed, split)
    sets, bare = veil.predict_sets(coverage), veil.predict_sets(coverage, allow_empty=True)
    found = {
        "veil": accuracy(veil.predict(), private, split.test),
        "control": accuracy(control.predict(), private, split.test),
    }
    for group, nodes in (("silent", split.test), ("reporting", split.labelled & eligible)):
        truth = private.labels[nodes]
        found |= {
            f"{group} bare": float(bare[nodes, truth].mean()),
            f"{group} covered": float(sets[nodes, truth].mean()),
            f"{group} size": float(sets[nodes].sum(axis=1).mean()),
        }
        single = sets[nodes].sum(axis=1) == 1
        right = veil.predict()[nodes][single] == truth[single]
        found |= {f"{group} one class": float(single.mean()), f"{group} right": float(right.mean())}
    return found


def summary(cell: Cell, draws: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Return the mean, the standard error and the spread of each number."""
    path, share, epsilon, randomizer = cell
    row: dict[str, Any] = {"dataset": path.stem, "share": share, "epsilon_user_level": epsilon, "labels": randomizer}
    for key in draws[0]:
        values = np.array([draw[key] for draw in draws])
        spread = float(values.std(ddof=1)) if len(values) > 1 else float("nan")
        row[key] = {"mean": values.mean(), "standard_error": spread / len(values) ** 0.5, "standard_deviation": spread}
    return row


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as a Markdown table: shares in percent, sizes in classes."""
    groups = ("silent", "reporting")
    heads = [f"{group}: {text}" for group in groups for text in ("bare", "covered", "size", "one class", "right")]
    lines = [
        f"| graph | reports | epsilon | labels | Veil | control | {' | '.join(heads)} |",
        "| --- |" + " ---: |" * (5 + len(heads)),
    ]
    for row in rows:
        cells = [f"{100 * row[method]['mean']:.1f}" for method in ("veil", "control")]
        for group in groups:
            cells += [_percent(row[f"{group} {key}"]) for key in ("bare", "covered")]
            cells += [f"{row[f'{group} size']['mean']:.2f}", f"{100 * row[f'{group} one class']['mean']:.1f}"]
            cells += [_percent(row[f"{group} right"])]
        head = f"{row['dataset']} | {row['share']:.0%} | {row['epsilon_user_level']:g} | {row['labels']}"
        lines.append(f"| {head} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _percent(number: Mapping[str, float]) -> str:
    return f"{100 * number['mean']:.1f} ± {100 * number['standard_error']:.1f}"


def cells_of(paths: Sequence[Path], shares: Sequence[float], epsilons: Sequence[float]) -> list[Cell]:
    """Return all cells; where the best label set names one class, GRR alone."""
    return [
        (path, share, epsilon, randomizer)
        for path, share, epsilon, randomizer in itertools.product(paths, shares, epsilons, RANDOMIZERS)
        if randomizer == "GRR" or best_size(_graph(path).schema.num_classes, epsilon) > 1
    ]


def main() -> None:
    """Print the table or JSON. Epsilons are at user level (any two records), spent on the label alone."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", type=Path, required=True, help="folder of public graphs, .npz")
    parser.add_argument("--only", nargs="+", default=None, help="names of the graphs; default: all of the folder")
    parser.add_argument("--shares", nargs="+", type=float, default=[0.75, 0.5])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[3.0, 2.0, 1.0])
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    paths = [options.datasets / f"{name}.npz" for name in options.only or ()] or sorted(options.datasets.glob("*.npz"))
    cells = cells_of(paths, options.shares, options.epsilons)
    seeds = range(options.first_seed, options.first_seed + options.draws)
    rows = list[dict[str, Any]]()
    with ProcessPoolExecutor(options.processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        pending = [[pool.submit(measure, cell, seed) for seed in seeds] for cell in cells]
        for cell, futures in zip(cells, pending, strict=True):
            rows.append(summary(cell, [future.result() for future in futures]))
            print(f"\r{len(rows)} of {len(cells)}", end="", file=sys.stderr)
    print(json.dumps(rows, indent=2) if options.json else table(rows))


if __name__ == "__main__":
    main()
