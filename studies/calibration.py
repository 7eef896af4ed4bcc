"""Calibration of Veil's probabilities and of the control's, on public graphs and a block model of 40 classes.

The expected calibration error (ECE) in 15 bins of equal width, over the nodes of all draws together, for silent nodes
and for nodes that report their label. Its standard error is the jackknife's over draws. Epsilons are at user level
(any two records), spent on the label alone.

python -m studies.calibration --datasets FOLDER --first-seed 100 --draws 10
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
from numpy.typing import NDArray

from studies.deployed import read_labels
from veilgraph.datasets import PrivateGraph, csbm
from veilgraph.errors import GraphError
from veilgraph.evaluation import accuracy
from veilgraph.experiments import simulate
from veilgraph.graph import Split
from veilgraph.models import LabelVeil, Method, StructureOnly
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.schema import NO_LABEL

BLOCK_MODELS: dict[str, dict[str, Any]] = {
    "csbm, 4 classes": {},
    "csbm, 40 classes": {"num_classes": 40},
    "csbm, homophily 0.4": {"homophily": 0.4},
}
"""Block models of 1,000 nodes with mean degree 10, and homophily 0.8 unless they say otherwise."""

CALIBRATION_BINS = 15
"""Number of bins of equal width over confidences from 0 to 1."""

Cell = tuple[str, float, float]
"""Name of a graph, share of the nodes that report, epsilon."""


def draw(cell: Cell, seed: int, folder: Path) -> dict[str, Any]:
    """Fit both methods to one draw; return accuracies and calibration bins of silent and of reporting nodes."""
    name, share, epsilon = cell
    torch.set_num_threads(1)
    private = csbm(1000, seed=seed, **BLOCK_MODELS[name]) if name in BLOCK_MODELS else _read(folder / f"{name}.npz")
    eligible = private.labels != NO_LABEL
    split = Split.random(
        private.graph.num_nodes, seed=seed, train=share * 2 / 3, validation=share / 3, eligible=eligible
    )
    reports = simulate(private, PrivacyBudget(epsilon_y=epsilon), split, rng=np.random.default_rng([seed, 0]))
    methods: dict[str, Method] = {"veil": LabelVeil(seed=seed), "control": StructureOnly(device="cpu")}
    found = dict[str, Any]()
    for method, estimator in methods.items():
        probabilities = estimator.fit(reports, split).predict_proba()
        found[f"{method} accuracy"] = accuracy(probabilities.argmax(axis=1), private, split.test)
        found[f"{method} silent"] = calibration_bins(probabilities, private, split.test).tolist()
        found[f"{method} reporting"] = calibration_bins(probabilities, private, split.labelled).tolist()
    return found


@lru_cache(maxsize=2)
def _read(path: Path) -> PrivateGraph:
    return read_labels(path)


def summary(cell: Cell, draws: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return mean accuracies, ECEs and mean confidences less accuracy, with standard errors."""
    name, share, epsilon = cell
    row: dict[str, Any] = {"graph": name, "reporting": share, "epsilon_user_level": epsilon, "draws": len(draws)}
    for key in draws[0]:
        values = np.array([each[key] for each in draws])
        if key.endswith("accuracy"):
            row[key] = {"mean": float(values.mean()), "standard_error": float(values.std(ddof=1) / len(draws) ** 0.5)}
        else:
            total = values.sum(axis=0)
            overconfidence = float((total[:, 1] - total[:, 2]).sum() / total[:, 0].sum())
            row[key] = {"ece": calibration_error(total), "standard_error": jackknife(values), "gap": overconfidence}
    return row


def calibration_bins(
    probabilities: NDArray[np.floating], private: PrivateGraph, nodes: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return the number of nodes, the sum of confidences and the number of hits of each bin, [bins, 3].

    The confidence of a node is its largest class probability. Bins of several draws may be added.

    Args:
        probabilities: class probabilities, [nodes, classes].
        private: the ground truth; nodes without a true class are left out.
        nodes: mask of the nodes to score, [nodes].
    """
    scored = nodes & (private.labels != NO_LABEL)
    if not scored.any():
        raise GraphError("none of the nodes to score has a true label")
    confidence = probabilities[scored].max(axis=1).astype(np.float64)
    hit = probabilities[scored].argmax(axis=1) == private.labels[scored]
    place = np.minimum((confidence * CALIBRATION_BINS).astype(np.int64), CALIBRATION_BINS - 1)
    columns = (np.ones_like(confidence), confidence, hit)
    return np.stack([np.bincount(place, weights=each, minlength=CALIBRATION_BINS) for each in columns], axis=1)


def calibration_error(bins: NDArray[np.float64]) -> float:
    r"""Return the expected calibration error (ECE): the distance of confidence and share of hits, averaged over bins.

    .. math:: \mathrm{ECE} = \sum_b \frac{n_b}{n} \left| \mathrm{hits}_b - \mathrm{confidence}_b \right|

    Args:
        bins: from `calibration_bins`, [bins, 3].

    Two nodes of confidence 0.9, of which one is a hit:

    >>> round(calibration_error(np.array([[2.0, 1.8, 1.0]])), 6)
    0.4
    """
    return float(np.abs(bins[:, 1] - bins[:, 2]).sum() / bins[:, 0].sum())


def jackknife(bins: NDArray[np.float64]) -> float:
    """Return the jackknife's standard error of the ECE over draws, from their bins [draws, bins, 3].

    >>> jackknife(np.array([[[2.0, 1.8, 1.0]], [[2.0, 1.8, 1.0]], [[2.0, 1.8, 1.0]]]))
    0.0
    """
    left_out = np.array([calibration_error(np.delete(bins, each, axis=0).sum(axis=0)) for each in range(len(bins))])
    return float(np.sqrt((len(bins) - 1) * left_out.var()))


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as a Markdown table; the gap is the mean confidence less the accuracy, of silent nodes."""
    lines = [
        "| graph | report | epsilon_y | Veil, % | control, % | ECE | gap | ECE of reporters | ECE of the control |",
        "| --- |" + " ---: |" * 8,
    ]
    for row in rows:
        scores = [f"{100 * row[k]['mean']:.1f} ± {100 * row[k]['standard_error']:.1f}" for k in _keys("accuracy")]
        errors = [
            f"{row[key]['ece']:.3f} ± {row[key]['standard_error']:.3f}"
            for key in ("veil silent", "veil reporting", "control silent")
        ]
        errors.insert(1, f"{row['veil silent']['gap']:+.3f}")
        head = f"{row['graph']} | {row['reporting']:.0%} | {row['epsilon_user_level']:g}"
        lines.append(f"| {head} | {' | '.join(scores)} | {' | '.join(errors)} |")
    return "\n".join(lines) + "\n"


def _keys(part: str) -> tuple[str, str]:
    return f"veil {part}", f"control {part}"


def main() -> None:
    """Print the table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", type=Path, required=True, help="folder of public graphs, .npz")
    parser.add_argument("--only", nargs="+", default=None, help="names of graphs; default: all, and the block models")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 2.0, 3.0])
    parser.add_argument("--shares", nargs="+", type=float, default=[0.75, 0.5, 0.05])
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    names = options.only or [*sorted(path.stem for path in options.datasets.glob("*.npz")), *BLOCK_MODELS]
    cells = list(itertools.product(names, options.shares, options.epsilons))
    seeds = range(options.first_seed, options.first_seed + options.draws)
    tasks = [(cell, seed, options.datasets) for cell in cells for seed in seeds]
    draws = list[dict[str, Any]]()
    with ProcessPoolExecutor(options.processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        for number, found in enumerate(pool.map(draw, *zip(*tasks, strict=True)), start=1):
            draws.append(found)
            print(f"\r{number} of {len(tasks)}", end="", file=sys.stderr)
    groups = [draws[start : start + len(seeds)] for start in range(0, len(draws), len(seeds))]
    rows = [summary(cell, group) for cell, group in zip(cells, groups, strict=True)]
    print(json.dumps(rows, indent=2) if options.json else table(rows))


if __name__ == "__main__":
    main()
