"""Poisoned reports on Cora: accuracy of RGNN and of the structure-only control, with and without screening.

    python -m benchmarks.studies.poison [--seeds 5] [--shares 0,0.1,0.2,0.3,0.4] [--json FILE]

Hostile nodes are drawn at random among the reporting nodes. Their aim is that the rarest class is predicted. Attacks:

- constant: every feature at its highest code, and the target class, without randomization;
- copies: the same invented report from every hostile node, and the target class;
- labels: honest features, and the target class without randomization;
- invented: a record of the target class, randomized as the campaign asks. Screening cannot distinguish it from an
  honest report.

Accuracy is that of test nodes, whose true labels no method reads. The data set is found through VEILGRAPH_DATA.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.campaign.screening import screen
from veilgraph.datasets import PrivateGraph, load
from veilgraph.evaluation import accuracy
from veilgraph.experiments import simulate
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.models import RGNN, Method, StructureOnly
from veilgraph.privacy.budget import PrivacyBudget

BUDGET = PrivacyBudget(epsilon_x=1.0, epsilon_y=2.0, sampled=10)
Mask = NDArray[np.bool_]
Attack = Callable[[PerturbedGraph, PrivateGraph, Mask, int, np.random.Generator], PerturbedGraph]


def _with_label(perturbed: PerturbedGraph, hostile: Mask, target: int) -> PerturbedGraph:
    return replace(perturbed, labels=np.where(hostile & perturbed.has_label, target, perturbed.labels))


def constant(
    perturbed: PerturbedGraph, _: PrivateGraph, hostile: Mask, target: int, __: np.random.Generator
) -> PerturbedGraph:
    """Report the highest code of every feature, and the target class."""
    features = perturbed.features.copy()
    features[hostile] = np.array(perturbed.schema.domain_sizes) - 1
    return _with_label(replace(perturbed, features=features), hostile, target)


def copies(
    perturbed: PerturbedGraph, _: PrivateGraph, hostile: Mask, target: int, rng: np.random.Generator
) -> PerturbedGraph:
    """Report the same random codes from every hostile node, and the target class."""
    features = perturbed.features.copy()
    features[hostile] = rng.integers(0, perturbed.schema.domain_sizes)
    return _with_label(replace(perturbed, features=features), hostile, target)


def labels(
    perturbed: PerturbedGraph, _: PrivateGraph, hostile: Mask, target: int, __: np.random.Generator
) -> PerturbedGraph:
    """Report honest features and the target class."""
    return _with_label(perturbed, hostile, target)


def invented(
    perturbed: PerturbedGraph, private: PrivateGraph, hostile: Mask, target: int, rng: np.random.Generator
) -> PerturbedGraph:
    """Report another person's record of the target class, randomized as the campaign asks."""
    donors = rng.choice(np.flatnonzero(private.labels == target), size=int(hostile.sum()))
    features = perturbed.features.copy()
    if perturbed.feature_mechanism is not None:
        features[hostile] = perturbed.feature_mechanism.randomize(private.features[donors], rng=rng)
    reported = perturbed.labels.copy()
    reported[hostile] = perturbed.label_mechanism.randomize(np.full(int(hostile.sum()), target), rng=rng)
    return replace(perturbed, features=features, labels=np.where(perturbed.has_label, reported, perturbed.labels))


ATTACKS: dict[str, Attack] = {"constant": constant, "copies": copies, "labels": labels, "invented": invented}


def measure(private: PrivateGraph, attack: str, share: float, seed: int) -> dict[str, Any]:
    """Return the accuracies of one draw in percent, and the shares of reports that screening excludes."""
    nodes = private.graph.num_nodes
    split = Split.random(nodes, seed=seed)
    honest = simulate(private, BUDGET, split, rng=np.random.default_rng([seed, 1]))
    rng = np.random.default_rng([seed, 2])
    hostile = np.zeros(nodes, dtype=np.bool_)
    hostile[rng.permutation(nodes)[: round(share * nodes)]] = True
    target = int(np.bincount(private.labels).argmin())
    attacked = ATTACKS[attack](honest, private, hostile, target, rng)
    screening = screen(attacked)
    test = split.test & ~hostile
    found = screening.reports | screening.labels
    row: dict[str, Any] = {
        "found": float(found[hostile].mean()) if share else None,
        "wrongly_found": float(found[~hostile].mean()),
    }
    for name, reports in (("", attacked), ("_screened", screening.exclude(attacked))):
        for key, method in _methods(seed):
            row[f"{key}{name}"] = 100 * accuracy(method.fit(reports, split).predict(), private, test)
    return row


def _methods(seed: int) -> list[tuple[str, Method]]:
    return [("rgnn", RGNN(seed=seed, device="cpu", epochs=60)), ("structure_only", StructureOnly())]


def main() -> None:
    """Measure every attack and print the table."""
    parser = argparse.ArgumentParser(description="Poisoned reports on Cora.")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--shares", default="0,0.1,0.2,0.3,0.4")
    parser.add_argument("--attacks", default=",".join(ATTACKS))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    private = load("cora")
    rows: list[dict[str, Any]] = []
    for attack in arguments.attacks.split(","):
        for share in map(float, arguments.shares.split(",")):
            if share == 0 and rows:
                continue  # without hostile nodes all attacks are equal
            draws = [measure(private, attack, share, seed) for seed in range(arguments.seeds)]
            row: dict[str, Any] = {"attack": attack if share else "none", "share": share}
            for key in draws[0]:
                values = [draw[key] for draw in draws if draw[key] is not None]
                spread = statistics.stdev(values) if len(values) > 1 else 0.0
                row[key] = [statistics.mean(values), spread] if values else None
            rows.append(row)
            print(_line(row), flush=True)
            if arguments.json:
                arguments.json.write_text(json.dumps(rows, indent=2), encoding="utf-8")
    print(BUDGET, file=sys.stderr)


def _line(row: dict[str, Any]) -> str:
    keys = ("rgnn", "rgnn_screened", "structure_only", "structure_only_screened")
    cells = [f"{row[key][0]:.1f} ± {row[key][1]:.1f}" for key in keys]
    found = "" if row["found"] is None else f"{100 * row['found'][0]:.0f} %"
    return (
        f"| {row['attack']} | {100 * row['share']:.0f} % | "
        + " | ".join([*cells, found, f"{100 * row['wrongly_found'][0]:.1f} %"])
        + " |"
    )


if __name__ == "__main__":
    main()
