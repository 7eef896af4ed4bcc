"""Private neighbours on public graphs, between the label alone, randomized adjacency and a public graph.

One line of JSON for each graph, label budget and edge epsilon: accuracy in percent on silent people, mean and standard
error. An infinite label budget is clean labels of half of the people; otherwise three quarters report by GRR.

"randomized" is the known way: every device flips each bit of its row of the adjacency matrix by randomized response, a
pair counts if both ends report it, and Veil learns from that graph. One entry costs the same as with a histogram. Its
report has as many bits as there are people. Where it has more edges than `--most-edges`, it is left out.

python -m benchmarks.studies.private_edges --datasets FOLDER --only cora facebook
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.studies.deployed import read_labels
from veilgraph.datasets import PrivateGraph
from veilgraph.evaluation import accuracy
from veilgraph.experiments.neighbour_design import ANSWERS, NeighbourDesign
from veilgraph.experiments.private_neighbours import simulate_neighbour_waves
from veilgraph.experiments.simulation import label_rng, randomize_labels, simulated_collection
from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.models import LabelVeil, Method, NeighbourWaves
from veilgraph.privacy.mechanisms import GRR
from veilgraph.privacy.schema import NO_LABEL

LABELS = (math.inf, 2.0, 1.0)
EDGES = (1.0, 2.0, 4.0, 8.0)


def randomized_adjacency(graph: Graph, epsilon: float, rng: np.random.Generator) -> Graph:
    """Return the pairs that both ends report after randomized response on every bit of the adjacency matrix.

    A true pair stays with probability p^2, p = 1 / (1 + e^-epsilon), and any other pair appears with (1 - p)^2.
    """
    nodes, keep = graph.num_nodes, 1 / (1 + math.exp(-epsilon))
    kept = graph.edges[:, rng.random(graph.num_edges) < keep**2]
    others = nodes * (nodes - 1) // 2 - graph.num_edges
    pairs = rng.integers(0, nodes, size=(2, int(rng.binomial(others, (1 - keep) ** 2))))
    # A drawn pair is a true one or a repetition with a probability of about degree / nodes: few are lost.
    return Graph.from_edges(np.concatenate([kept, pairs], axis=1), nodes)


def split_of(private: PrivateGraph, seed: int, epsilon_y: float) -> Split:
    """Return the split of a seed: 50/25/25, where clean labels are those of the first half alone."""
    split = Split.random(private.graph.num_nodes, seed=seed, eligible=private.labels != NO_LABEL)
    if math.isfinite(epsilon_y):
        return split
    most = np.random.default_rng(seed).random(len(split.train)) < 0.8
    return Split(train=split.train & most, validation=split.train & ~most, test=split.test)


def draw(
    private: PrivateGraph, epsilon_y: float, edges: Sequence[float], seed: int, most_edges: int
) -> dict[str, float]:
    """Return the accuracies of one seed, by method and edge epsilon."""
    split, label = split_of(private, seed, epsilon_y), GRR(private.schema.num_classes, epsilon_y)
    public = simulated_collection(private, split, label, randomize_labels(private, label, split, rng=label_rng(seed)))
    found = {"label alone": _scored(NeighbourWaves(seed=seed), public, private, split)}
    if private.graph.num_edges <= most_edges:
        found["public graph"] = _scored(LabelVeil(seed=seed), public, private, split)
    for epsilon in edges:
        noisy = private.graph.num_nodes**2 / 2 / (1 + math.exp(epsilon)) ** 2 + private.graph.num_edges
        if noisy <= most_edges:
            graph = randomized_adjacency(private.graph, epsilon, np.random.default_rng([seed, 5]))
            reports = replace(public, graph=graph)
            found[f"randomized, {epsilon:g}"] = _scored(LabelVeil(seed=seed), reports, private, split)
        for answer in ANSWERS:
            design = NeighbourDesign.usual(answer, epsilon_y, epsilon)
            waves = design.waves(private.schema.num_classes)
            _, method = simulate_neighbour_waves(private, split, label, waves, seed=seed, in_turn=design.in_turn)
            found[f"{answer}, {epsilon:g}"] = accuracy(method.predict(), private, split.test)
    return found


def _scored(method: Method, reports: PerturbedGraph, private: PrivateGraph, split: Split) -> float:
    return accuracy(method.fit(reports, split).predict(), private, split.test)


def summary(draws: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Return means in percent with standard errors."""
    row = {}
    for key in draws[0]:
        values = 100 * np.array([each[key] for each in draws])
        error = float(values.std(ddof=1) / len(values) ** 0.5) if len(values) > 1 else math.nan
        row[key] = [round(float(values.mean()), 1), round(error, 1)]
    return row


def main() -> None:
    """Print the rows as JSON, one line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", type=Path, required=True, help="folder of public graphs, .npz")
    parser.add_argument("--only", nargs="+", default=["cora", "citeseer", "dblp", "facebook", "lastfm", "flickr"])
    parser.add_argument("--epsilon-y", nargs="+", type=float, default=list(LABELS), help="inf: clean labels")
    parser.add_argument("--edge-epsilon", nargs="+", type=float, default=list(EDGES))
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--most-edges", type=int, default=1_000_000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    seeds = range(options.first_seed, options.first_seed + options.draws)
    for name in options.only:
        private = read_labels(options.datasets / f"{name}.npz")
        for epsilon_y in options.epsilon_y:
            found = [draw(private, epsilon_y, options.edge_epsilon, seed, options.most_edges) for seed in seeds]
            told = "clean" if math.isinf(epsilon_y) else epsilon_y
            print(json.dumps({"graph": name, "epsilon_y": told, "seeds": list(seeds)} | summary(found)), flush=True)


if __name__ == "__main__":
    main()
