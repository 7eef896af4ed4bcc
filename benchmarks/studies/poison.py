"""Poisoned reports: accuracy of methods with hostile nodes, with and without screening.

    python -m benchmarks.studies.poison [--collection paper] [--data cora] [--epsilon-y EPSILON] [--seeds 5]
        [--shares 0,0.1,0.2,0.3,0.4] [--attacks labels,invented] [--json FILE]

Collections:

- paper: features by GRR-FS and the label by GRR; RGNN and the structure-only control;
- label-sets: the label alone, by the best label mechanism, as campaigns ask for it; Veil and the control;
- label-grr: the same by GRR, for comparison.

Hostile nodes are drawn at random among the reporting nodes. Their aim is that the rarest class is predicted. A report
that names several classes names the target and others. Attacks:

- constant: every feature at its highest code, and the target class, without randomization;
- copies: the same invented report from every hostile node, the other classes of a set included;
- labels: honest features, and the target class without randomization; the other classes of a set are random;
- invented: a record of the target class, randomized as the campaign asks. Screening cannot distinguish it from an
  honest report.

Accuracy is that of test nodes, whose true labels no method reads. The data set is found through VEILGRAPH_DATA.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.campaign.screening import screen
from veilgraph.datasets import PrivateGraph, load
from veilgraph.evaluation import accuracy
from veilgraph.experiments import simulate
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.models import RGNN, LabelVeil, Method, StructureOnly
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms import GRR, SubsetSelection
from veilgraph.privacy.mechanisms.registry import LabelRandomizer, best_label_mechanism
from veilgraph.privacy.schema import NO_LABEL

Mask = NDArray[np.bool_]
Attack = Callable[[PerturbedGraph, PrivateGraph, Mask, int, np.random.Generator], PerturbedGraph]


@dataclass(frozen=True, kw_only=True)
class Collection:
    """What hostile nodes poison.

    Attributes:
        budget: epsilons and number of sampled features.
        label: makes the label mechanism.
        methods: makes the methods of a seed, by the names of their columns.
        attacks: attacks that differ from each other here.
    """

    budget: PrivacyBudget
    label: LabelRandomizer
    methods: Callable[[int], dict[str, Method]]
    attacks: Sequence[str]


def _with_features(seed: int) -> dict[str, Method]:
    return {"rgnn": RGNN(seed=seed, device="cpu", epochs=60), "control": StructureOnly()}


def _label_alone(seed: int) -> dict[str, Method]:
    return {"veil": LabelVeil(seed=seed, device="cpu"), "control": StructureOnly()}


COLLECTIONS = {
    "paper": Collection(
        budget=PrivacyBudget(epsilon_x=1.0, epsilon_y=2.0, sampled=10),
        label=GRR,
        methods=_with_features,
        attacks=("constant", "copies", "labels", "invented"),
    ),
    "label-sets": Collection(
        budget=PrivacyBudget(epsilon_y=1.0),
        label=best_label_mechanism,
        methods=_label_alone,
        attacks=("copies", "labels", "invented"),
    ),
    "label-grr": Collection(
        budget=PrivacyBudget(epsilon_y=1.0), label=GRR, methods=_label_alone, attacks=("labels", "invented")
    ),
}


def _with_label(
    perturbed: PerturbedGraph, hostile: Mask, target: int, rng: np.random.Generator, *, same: bool
) -> PerturbedGraph:
    """Let hostile nodes name the target class; the other classes of a set are random, or the same for all."""
    mechanism, labels = perturbed.label_mechanism, perturbed.labels.copy()
    liars = np.flatnonzero(hostile & perturbed.has_label)
    if isinstance(mechanism, SubsetSelection):
        order = rng.random((1 if same else len(liars), mechanism.domain_size))
        order[:, target] = -1
        chosen = np.argsort(order, axis=1)[:, : mechanism.set_size]
        labels[liars] = mechanism.masks(chosen.tolist())
    else:
        labels[liars] = target
    return replace(perturbed, labels=labels)


def constant(
    perturbed: PerturbedGraph, _: PrivateGraph, hostile: Mask, target: int, rng: np.random.Generator
) -> PerturbedGraph:
    """Report the highest code of every feature, and the target class."""
    features = perturbed.features.copy()
    features[hostile] = np.array(perturbed.schema.domain_sizes) - 1
    return _with_label(replace(perturbed, features=features), hostile, target, rng, same=True)


def copies(
    perturbed: PerturbedGraph, _: PrivateGraph, hostile: Mask, target: int, rng: np.random.Generator
) -> PerturbedGraph:
    """Report the same random codes from every hostile node, and the target class."""
    features = perturbed.features.copy()
    if perturbed.feature_mechanism is not None:
        features[hostile] = rng.integers(0, perturbed.schema.domain_sizes)
    return _with_label(replace(perturbed, features=features), hostile, target, rng, same=True)


def labels(
    perturbed: PerturbedGraph, _: PrivateGraph, hostile: Mask, target: int, rng: np.random.Generator
) -> PerturbedGraph:
    """Report honest features and the target class."""
    return _with_label(perturbed, hostile, target, rng, same=False)


def invented(
    perturbed: PerturbedGraph, private: PrivateGraph, hostile: Mask, target: int, rng: np.random.Generator
) -> PerturbedGraph:
    """Report another person's record of the target class, randomized as the campaign asks."""
    donors = rng.choice(np.flatnonzero(private.labels == target), size=int(hostile.sum()))
    features = perturbed.features.copy()
    if perturbed.feature_mechanism is not None:
        features[hostile] = perturbed.feature_mechanism.randomize(private.features[donors], rng=rng)
    reported, silent = perturbed.labels.copy(), ~perturbed.has_label
    reported[hostile] = perturbed.label_mechanism.randomize(np.full(int(hostile.sum()), target), rng=rng)
    reported[silent] = perturbed.labels[silent]
    return replace(perturbed, features=features, labels=reported)


ATTACKS: dict[str, Attack] = {"constant": constant, "copies": copies, "labels": labels, "invented": invented}


def measure(private: PrivateGraph, collection: Collection, attack: str, share: float, seed: int) -> dict[str, Any]:
    """Return the accuracies of one draw in percent, and the shares of reports that screening excludes."""
    nodes = private.graph.num_nodes
    split = Split.random(nodes, seed=seed, eligible=private.labels != NO_LABEL)
    honest = simulate(private, collection.budget, split, rng=np.random.default_rng([seed, 1]), label=collection.label)
    rng = np.random.default_rng([seed, 2])
    hostile = np.zeros(nodes, dtype=np.bool_)
    hostile[rng.permutation(nodes)[: round(share * nodes)]] = True
    target = int(np.bincount(private.labels[private.labels != NO_LABEL]).argmin())
    attacked = ATTACKS[attack](honest, private, hostile, target, rng)
    screening = screen(attacked)
    test = split.test & ~hostile
    found, sent = screening.reports | screening.labels, attacked.has_features | attacked.has_label
    row: dict[str, Any] = {
        "found": float(found[hostile & sent].mean()) if share else None,
        "wrongly_found": float(found[~hostile & sent].mean()),
    }
    for name, reports in (("", attacked), ("_screened", screening.exclude(attacked))):
        for key, method in collection.methods(seed).items():
            row[f"{key}{name}"] = 100 * accuracy(method.fit(reports, split).predict(), private, test)
    return row


def main() -> None:
    """Measure every attack and print the table."""
    parser = argparse.ArgumentParser(description="Poisoned reports.")
    parser.add_argument("--collection", choices=COLLECTIONS, default="paper")
    parser.add_argument("--data", default="cora")
    parser.add_argument("--epsilon-y", type=float)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--shares", default="0,0.1,0.2,0.3,0.4")
    parser.add_argument("--attacks")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    private, collection = load(arguments.data), COLLECTIONS[arguments.collection]
    if arguments.epsilon_y is not None:
        collection = replace(collection, budget=replace(collection.budget, epsilon_y=arguments.epsilon_y))
    attacks = arguments.attacks.split(",") if arguments.attacks else collection.attacks
    rows: list[dict[str, Any]] = []
    for attack in attacks:
        for share in map(float, arguments.shares.split(",")):
            if share == 0 and rows:
                continue  # without hostile nodes all attacks are equal
            draws = [measure(private, collection, attack, share, seed) for seed in range(arguments.seeds)]
            row: dict[str, Any] = {"attack": attack if share else "none", "share": share}
            for key in draws[0]:
                values = [draw[key] for draw in draws if draw[key] is not None]
                spread = statistics.stdev(values) if len(values) > 1 else 0.0
                row[key] = [statistics.mean(values), spread] if values else None
            rows.append(row)
            print(_line(row, collection), flush=True)
            if arguments.json:
                arguments.json.write_text(json.dumps(rows, indent=2), encoding="utf-8")
    print(collection.budget, collection.label(private.schema.num_classes, collection.budget.epsilon_y), file=sys.stderr)


def _line(row: dict[str, Any], collection: Collection) -> str:
    keys = [f"{name}{screened}" for name in collection.methods(0) for screened in ("", "_screened")]
    cells = [f"{row[key][0]:.1f} ± {row[key][1]:.1f}" for key in keys]
    found = "" if row["found"] is None else f"{100 * row['found'][0]:.0f} %"
    return (
        f"| {row['attack']} | {100 * row['share']:.0f} % | "
        + " | ".join([*cells, found, f"{100 * row['wrongly_found'][0]:.1f} %"])
        + " |"
    )


if __name__ == "__main__":
    main()
