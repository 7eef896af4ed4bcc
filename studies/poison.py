"""Poisoned reports: accuracy of methods with hostile nodes, with and without screening.

    python -m studies.poison [--collection paper] [--data cora] [--epsilon-y EPSILON] [--seeds 5]
        [--first-seed 0] [--shares 0,0.1,0.2,0.3,0.4] [--attacks labels,invented] [--placements random,degree,region]
        [--json FILE]

Collections:

- paper: features by GRR-FS and the label by GRR; RGNN and the structure-only control;
- label-sets: the label alone, by the best label mechanism, as campaigns ask for it; Veil and the control;
- label-grr: the same by GRR, for comparison.

Hostile nodes are a share of the reporting nodes. Their aim is that the rarest class is predicted. A report that names
several classes names the target and others. Placements of the hostile nodes:

- random: drawn from all reporting nodes;
- degree: the reporting nodes of the highest degrees;
- region: one region of the graph, in breadth-first order from a random node.

Attacks:

- constant: every feature at its highest code, and the target class, without randomization;
- copies: the same invented report from every hostile node, the other classes of a set included;
- labels: honest features, and the target class without randomization; the other classes of a set are random;
- invented: a record of the target class, randomized as the campaign asks. Screening cannot distinguish it from an
  honest report;
- injected: new nodes, as many as there would be hostile ones, that name the target class without randomization. They
  have the degrees of random nodes, and are joined to the nodes of the placement (Devil's Hand, arXiv 2506.09803).

Accuracy is that of test nodes that are not hostile, whose true labels no method reads: mean and standard deviation over
draws. The last columns are the shares of hostile and honest nodes that screening finds, and the share of label reports
that Veil takes for not randomized. The data set is found through VEILGRAPH_DATA.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order

from veilgraph.campaign.screening import screen
from veilgraph.datasets import PrivateGraph, load
from veilgraph.evaluation import accuracy
from veilgraph.experiments import simulate
from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.models import RGNN, LabelVeil, Method, StructureOnly
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms import GRR, SubsetSelection
from veilgraph.privacy.mechanisms.registry import LabelRandomizer, best_label_mechanism
from veilgraph.privacy.schema import NO_LABEL

Mask = NDArray[np.bool_]
Nodes = NDArray[np.int64]
Placement = Callable[[PerturbedGraph, int, np.random.Generator], Nodes]
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
        attacks=("copies", "labels", "invented", "injected"),
    ),
    "label-grr": Collection(
        budget=PrivacyBudget(epsilon_y=1.0), label=GRR, methods=_label_alone, attacks=("labels", "invented", "injected")
    ),
}


def at_random(perturbed: PerturbedGraph, count: int, rng: np.random.Generator) -> Nodes:
    """Draw reporting nodes."""
    return rng.permutation(_reporting(perturbed))[:count]


def by_degree(perturbed: PerturbedGraph, count: int, _: np.random.Generator) -> Nodes:
    """Return the reporting nodes of the highest degrees."""
    nodes = _reporting(perturbed)
    return nodes[np.argsort(-perturbed.graph.degrees[nodes], kind="stable")[:count]]


def region(perturbed: PerturbedGraph, count: int, rng: np.random.Generator) -> Nodes:
    """Return reporting nodes in breadth-first order from a random one, in further components if one is too small."""
    nodes, graph = _reporting(perturbed), perturbed.graph
    starts, neighbours = graph.adjacency
    shape = (graph.num_nodes, graph.num_nodes)
    adjacency = csr_array((np.ones(len(neighbours)), neighbours, starts), shape=shape)
    found: list[Nodes] = []
    missing = np.ones(graph.num_nodes, dtype=np.bool_)
    for start in rng.permutation(nodes):
        if missing[start] and sum(map(len, found)) < count:
            order = breadth_first_order(adjacency, start, return_predecessors=False).astype(np.int64)
            missing[order] = False
            found.append(order[np.isin(order, nodes)])
    return np.concatenate(found)[:count]


PLACEMENTS: dict[str, Placement] = {"random": at_random, "degree": by_degree, "region": region}


def _reporting(perturbed: PerturbedGraph) -> Nodes:
    return np.flatnonzero(perturbed.has_features | perturbed.has_label)


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
        labels[liars] = mechanism.encode(chosen.tolist())
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
INJECTED = "injected"


def inject(perturbed: PerturbedGraph, victims: Nodes, target: int, rng: np.random.Generator) -> PerturbedGraph:
    """Add as many nodes as there are victims, joined to victims alone, that name the target class.

    A new node has the degree of a random node, as far as there are victims.
    """
    nodes, added = perturbed.graph.num_nodes, len(victims)
    degrees = np.minimum(rng.choice(perturbed.graph.degrees, added).clip(1), added)
    ends = np.concatenate([rng.choice(victims, degree, replace=False) for degree in degrees])
    links = np.stack([np.repeat(np.arange(nodes, nodes + added), degrees), ends])
    graph = Graph.from_edges(np.concatenate([perturbed.graph.edges, links], axis=1), nodes + added)
    new = np.arange(nodes + added) >= nodes

    def extended(rows: NDArray[Any]) -> NDArray[Any]:
        return np.concatenate([rows, np.zeros((added, *rows.shape[1:]), dtype=rows.dtype)])

    larger = replace(
        perturbed,
        graph=graph,
        features=extended(perturbed.features),
        labels=np.concatenate([perturbed.labels, perturbed.labels[perturbed.has_label][:1].repeat(added, axis=0)]),
        has_features=extended(perturbed.has_features),
        has_label=extended(perturbed.has_label) | new,
    )
    return _with_label(larger, new, target, rng, same=False)


def measure(
    private: PrivateGraph, collection: Collection, attack: str, share: float, seed: int, *, placement: str = "random"
) -> dict[str, Any]:
    """Return the accuracies of one draw in percent, and the shares of reports that screening excludes."""
    nodes = private.graph.num_nodes
    split = Split.random(nodes, seed=seed, eligible=private.labels != NO_LABEL)
    honest = simulate(private, collection.budget, split, rng=np.random.default_rng([seed, 1]), label=collection.label)
    rng = np.random.default_rng([seed, 2])
    chosen = PLACEMENTS[placement](honest, round(share * len(_reporting(honest))), rng)
    target = int(np.bincount(private.labels[private.labels != NO_LABEL]).argmin())
    if attack == INJECTED and share:
        attacked = inject(honest, chosen, target, rng)
        hostile = np.arange(attacked.graph.num_nodes) >= nodes
        new, none = hostile[nodes:], ~hostile[nodes:]
        split = Split(
            train=np.concatenate([split.train, new]),
            validation=np.concatenate([split.validation, none]),
            test=np.concatenate([split.test, none]),
        )
    else:
        hostile = np.isin(np.arange(nodes), chosen)
        attacked = ATTACKS["labels" if attack == INJECTED else attack](honest, private, hostile, target, rng)
    screening = screen(attacked)
    test = (split.test & ~hostile)[:nodes]
    found, sent = screening.reports | screening.labels, attacked.has_features | attacked.has_label
    row: dict[str, Any] = {
        "found": float(found[hostile & sent].mean()) if share else None,
        "wrongly_found": float(found[~hostile & sent].mean()),
    }
    for name, reports in (("", attacked), ("_screened", screening.exclude(attacked))):
        for key, method in collection.methods(seed).items():
            row[f"{key}{name}"] = 100 * accuracy(method.fit(reports, split).predict()[:nodes], private, test)
            if isinstance(method, LabelVeil) and not name:
                row["contamination"] = 0.0 if method.contamination_ is None else method.contamination_.share
    return row


def main() -> None:
    """Measure every attack and print the table."""
    parser = argparse.ArgumentParser(description="Poisoned reports.")
    parser.add_argument("--collection", choices=COLLECTIONS, default="paper")
    parser.add_argument("--data", default="cora")
    parser.add_argument("--epsilon-y", type=float)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--shares", default="0,0.1,0.2,0.3,0.4")
    parser.add_argument("--attacks")
    parser.add_argument("--placements", default="random")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    private, collection = load(arguments.data), COLLECTIONS[arguments.collection]
    if arguments.epsilon_y is not None:
        collection = replace(collection, budget=replace(collection.budget, epsilon_y=arguments.epsilon_y))
    attacks = arguments.attacks.split(",") if arguments.attacks else collection.attacks
    rows: list[dict[str, Any]] = []
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    for attack, placement in itertools.product(attacks, arguments.placements.split(",")):
        for share in map(float, arguments.shares.split(",")):
            if share == 0 and rows:
                continue  # without hostile nodes all attacks are equal
            draws = [measure(private, collection, attack, share, seed, placement=placement) for seed in seeds]
            row: dict[str, Any] = {"attack": f"{attack}, {placement}" if share else "none", "share": share}
            row["seeds"] = list(seeds)
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
    measured = f"{100 * row['contamination'][0]:.0f} %" if "contamination" in row else ""
    found = "" if row["found"] is None else f"{100 * row['found'][0]:.0f} %"
    return (
        f"| {row['attack']} | {100 * row['share']:.0f} % | "
        + " | ".join([*cells, found, f"{100 * row['wrongly_found'][0]:.1f} %", measured])
        + " |"
    )


if __name__ == "__main__":
    main()
