"""Veil and the control on graphs that played no part in choosing Veil's constants, for the label alone.

People of whom no graph of the design was made (a family planning study, a college), graphs that networkx generates or
has, each draw a new one, and random fields of labels on public graphs, whose true labels are not read.

python -m studies.other_graphs --datasets FOLDER --first-seed 100 --draws 10
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import torch
from numpy.typing import NDArray

from studies.deployed import read_labels
from studies.public_attributes import QUESTIONS, people
from veilgraph.datasets import PrivateGraph
from veilgraph.evaluation import accuracy
from veilgraph.experiments.label_fields import LabelFields
from veilgraph.experiments.simulation import label_rng, randomize_labels, simulated_collection
from veilgraph.graph import Graph, Split
from veilgraph.models import LabelVeil, StructureOnly
from veilgraph.privacy.mechanisms.registry import best_label_mechanism
from veilgraph.privacy.schema import NO_LABEL, FeatureSchema

FIELD_CLASSES, FIELD_ASSORTATIVITY = 5, 0.5


def _private(name: str, graph: Graph, labels: NDArray[np.int64]) -> PrivateGraph:
    schema = FeatureSchema(classes=tuple(f"class {each}" for each in range(int(labels.max()) + 1)))
    features = np.zeros((graph.num_nodes, 0), dtype=np.uint8)
    return PrivateGraph(name=name, graph=graph, schema=schema, features=features, labels=labels)


def _of_networkx(name: str, made: nx.Graph, labels: NDArray[np.int64]) -> PrivateGraph:
    edges = np.array([edge for edge in made.edges if edge[0] != edge[1]]).T
    return _private(name, Graph.from_edges(edges, num_nodes=made.number_of_nodes()), labels)


def karate_club(seed: int) -> PrivateGraph:
    """Return Zachary's karate club: 34 people, and which of two clubs each joined."""
    made = nx.karate_club_graph()
    clubs = [made.nodes[node]["club"] for node in made]
    return _of_networkx("karate club", made, np.array([club == "Officer" for club in clubs], dtype=np.int64))


def caves(seed: int) -> PrivateGraph:
    """Return 100 cliques of ten people, a fifth of whose edges lead elsewhere; a clique has one of five classes."""
    made = nx.relaxed_caveman_graph(100, 10, 0.2, seed=seed)
    classes = np.random.default_rng(seed).integers(0, 5, size=100)
    return _of_networkx("cliques", made, classes[np.arange(1000) // 10])


def unequal_communities(seed: int) -> PrivateGraph:
    """Return communities and degrees with power laws (Lancichinetti, Fortunato and Radicchi 2008); six classes."""
    made = nx.LFR_benchmark_graph(1000, 2.5, 1.5, 0.3, average_degree=10, max_degree=60, min_community=30, seed=seed)
    communities = {min(made.nodes[node]["community"]): made.nodes[node]["community"] for node in made}
    labels, rng = np.zeros(1000, dtype=np.int64), np.random.default_rng(seed)
    for members in communities.values():
        labels[list(members)] = rng.integers(0, 6)
    return _of_networkx("unequal communities", made, labels)


def places(seed: int) -> PrivateGraph:
    """Return people who know who lives within a distance; the class is the quarter of the square."""
    made = nx.random_geometric_graph(1000, 0.06, seed=seed)
    where = np.array([made.nodes[node]["pos"] for node in made])
    return _of_networkx("places", made, (where[:, 0] > 0.5) * 2 + (where[:, 1] > 0.5).astype(np.int64))


GENERATED: dict[str, Callable[[int], PrivateGraph]] = {
    "karate club": karate_club,
    "cliques": caves,
    "unequal communities": unequal_communities,
    "places": places,
}
FIELDS = ("student", "cora", "citeseer")


def drawn(folder: Path, name: str, seed: int) -> PrivateGraph:
    """Return the graph of a name for a draw."""
    if name in GENERATED:
        return GENERATED[name](seed)
    if name in QUESTIONS:
        return replace(people(folder, name), public=None)
    graph = read_labels(folder / f"{name.removeprefix('field on ')}.npz").graph
    field = LabelFields(graph=graph, num_classes=FIELD_CLASSES, seed=seed)
    return _private(name, graph, field.draw(np.random.default_rng([seed, 1]), wanted=FIELD_ASSORTATIVITY))


def names_in(folder: Path | None) -> list[str]:
    """Return the names of all graphs; without a folder, of those that need none."""
    if folder is None:
        return list(GENERATED)
    fields = [f"field on {name}" for name in FIELDS if (folder / f"{name}.npz").is_file()]
    asked = [name for name in QUESTIONS if (folder / "people" / f"{name.partition('-')[0]}_people.csv").is_file()]
    return [*asked, *GENERATED, *fields]


def compare(private: PrivateGraph, epsilon: float, seed: int) -> tuple[float, float, float]:
    """Return the accuracies of Veil, the control and the largest class among silent people."""
    torch.set_num_threads(1)
    eligible = private.labels != NO_LABEL
    split = Split.random(private.graph.num_nodes, seed=seed, eligible=eligible)
    mechanism = best_label_mechanism(private.schema.num_classes, epsilon)
    labels = randomize_labels(private, mechanism, split, rng=label_rng(seed))
    reports = simulated_collection(private, split, mechanism, labels)
    veil, control = LabelVeil(seed=seed).fit(reports, split), StructureOnly(device="cpu").fit(reports, split)
    silent = private.labels[split.test & eligible]
    largest = float(np.bincount(silent).max() / len(silent))
    return *(accuracy(each.predict(), private, split.test) for each in (veil, control)), largest  # type: ignore[return-value]


def row(name: str, epsilon: float, draws: Sequence[tuple[float, float, float]]) -> str:
    """Return a row of the table, in percent: means, and paired differences with standard errors.

    >>> row("two people", 1.0, [(0.5, 0.5, 0.5), (0.6, 0.5, 0.5)])
    '| two people | 1 | 55.0 ± 5.0 | 50.0 ± 0.0 | 50.0 ± 0.0 | +5.0 ± 5.0 |'
    """
    values = 100 * np.array(draws)
    columns = np.column_stack([values, values[:, 0] - values[:, 1]])
    means, errors = columns.mean(axis=0), columns.std(axis=0, ddof=1) / np.sqrt(len(columns))
    signs = ("", "", "", "+")
    cells = [f"{mean:{sign}.1f} ± {error:.1f}" for mean, error, sign in zip(means, errors, signs, strict=True)]
    return f"| {name} | {epsilon:g} | {' | '.join(cells)} |"


def main() -> None:
    """Print the table. Epsilons are at user level (any two records), spent on the label alone."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", type=Path, help="folder of public graphs, .npz; without it, generated ones alone")
    parser.add_argument("--only", nargs="+", help="names of graphs; default: all")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.5, 1.0, 2.0])
    parser.add_argument("--first-seed", type=int, default=100)
    parser.add_argument("--draws", type=int, default=10)
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.draws)
    print("| graph | epsilon | Veil | control | largest class | Veil - control |")
    print("| --- |" + " ---: |" * 5)
    for name, epsilon in itertools.product(options.only or names_in(options.datasets), options.epsilons):
        draws = [compare(drawn(options.datasets, name, seed), epsilon, seed) for seed in seeds]
        print(row(name, epsilon, draws), flush=True)
        print(f"{name} at {epsilon:g}", file=sys.stderr)


if __name__ == "__main__":
    main()
