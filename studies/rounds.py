"""Accuracy from the rounds of a series: from the latest report of each person, and from all of them jointly.

L-GRR on public graphs, the label alone; 75 % of the people report in every round. Epsilons are those of two values that
never change, over all rounds; the table says what any two histories cost. "changed" is the share of people who had
another label in the first half of the rounds; accuracy is that of today's labels.

With --features, label and features of block models with 1,500 nodes are asked: 8 of 32 features, which are reported
by everyone.

python -m studies.rounds --datasets FOLDER --only cora lastfm
python -m studies.rounds --features
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
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from studies.deployed import read_labels
from veilgraph.datasets import PrivateGraph, csbm
from veilgraph.evaluation import accuracy
from veilgraph.experiments.simulation import simulated_collection
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.models import LabelVeil, Method, StructureOnly, Veil
from veilgraph.privacy.mechanisms import NOT_ASKED, LongitudinalFeatures, LongitudinalGRR, RandomIntegers, RoundEvidence
from veilgraph.privacy.mechanisms.round_evidence import NO_REPORT
from veilgraph.privacy.schema import NO_LABEL

ROUNDS = 12

Cell = tuple[str, float, float, float]
"""Name of a graph, epsilon of a permanent answer, epsilon of a round's report, share of people who changed."""


def simulate_rounds(
    private: PrivateGraph,
    series: LongitudinalGRR,
    split: Split,
    *,
    rng: RandomIntegers,
    features: LongitudinalFeatures | None = None,
    histories: NDArray[Any] | None = None,
    finished: int | None = None,
    latest: bool = False,
) -> PerturbedGraph:
    """Randomize labels of labelled nodes, and features of all, in every round, and combine the reports of each node.

    Args:
        private: the true records.
        series: mechanism of the label in the rounds.
        split: nodes that report a label are its training and validation nodes.
        rng: source of randomness.
        features: mechanism of the features, which never change here; default: none are asked.
        histories: true labels in each round, [nodes, rounds]; default: they never change.
        finished: number of rounds that are over; default: all of them.
        latest: learn from each node's latest report alone, and not from the most frequent one.
    """
    reporting, nodes = split.labelled & (private.labels != NO_LABEL), private.graph.num_nodes
    finished = series.rounds if finished is None else finished
    if histories is None:
        histories = np.repeat(private.labels[:, None], series.rounds, axis=1)
    reports = np.full((nodes, series.rounds), NO_REPORT, dtype=np.int64)
    reports[reporting] = series.randomize(histories[reporting], rng=rng)
    reports[:, finished:] = NO_REPORT
    evidence = RoundEvidence.of(series, reports[reporting], latest=latest)
    if features is None:
        return simulated_collection(private, split, evidence, reports)
    columns = features.randomize(np.tile(private.features, features.rounds), rng=rng).reshape(
        nodes, features.rounds, -1
    )
    columns[:, finished:] = NOT_ASKED
    combined = features.combining(columns, latest=latest)
    collected = simulated_collection(private, split, evidence, reports, combined, combined.evidence(columns))
    return replace(collected, feature_rounds=columns)


def draw(cell: Cell, seed: int, folder: Path) -> dict[str, float]:
    """Fit both methods after 1, 3 and 12 rounds, to the latest reports and to all; return accuracies."""
    name, epsilon, round_epsilon, changed = cell
    torch.set_num_threads(1)
    private = read_labels(folder / f"{name}.npz")
    series = LongitudinalGRR(private.schema.num_classes, epsilon, round_epsilon, rounds=ROUNDS, values=2)
    split = Split.random(
        private.graph.num_nodes, seed=seed, train=0.5, validation=0.25, eligible=private.labels != NO_LABEL
    )
    histories = _histories(private, changed, np.random.default_rng([seed, 1]))
    found = dict[str, float]()
    some = ((ROUNDS, True), (ROUNDS, False))
    for rounds, latest in some if changed else ((1, True), (3, True), (3, False), *some):
        reports = simulate_rounds(
            private,
            series,
            split,
            rng=np.random.default_rng([seed, 0]),
            histories=histories,
            finished=rounds,
            latest=latest,
        )
        methods: dict[str, Method] = {"veil": LabelVeil(seed=seed), "control": StructureOnly(device="cpu")}
        for method, estimator in methods.items():
            predicted = estimator.fit(reports, split).predict()
            found[f"{method}, {rounds} {'latest' if latest else 'all'}"] = accuracy(predicted, private, split.test)
    return found


def draw_features(seed: int) -> dict[str, float]:
    """Fit Veil after 3 and 12 rounds, with and without features; return accuracies."""
    torch.set_num_threads(1)
    private = csbm(1500, num_classes=4, mean_degree=5.0, homophily=0.5, feature_signal=0.8, seed=seed)
    split = Split.random(1500, seed=seed, train=0.5, validation=0.25)
    label = LongitudinalGRR(4, 2.0, 1.0, rounds=ROUNDS)
    features = LongitudinalFeatures(private.schema.domain_sizes, 8, 1.0, 0.5, rounds=ROUNDS)
    found = dict[str, float]()
    for (rounds, latest), asked in itertools.product(((3, False), (ROUNDS, True), (ROUNDS, False)), (None, features)):
        rng = np.random.default_rng([seed, 0])
        reports = simulate_rounds(private, label, split, rng=rng, features=asked, finished=rounds, latest=latest)
        predicted = Veil(seed=seed, device="cpu").fit(reports, split).predict()
        which = f"{'label' if asked is None else 'label and features'}, {rounds} {'latest' if latest else 'all'}"
        found[which] = accuracy(predicted, private, split.test)
    return found


def _histories(private: PrivateGraph, changed: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return labels in each round, [nodes, rounds]; some people had another label in the first half."""
    labels = np.where(private.labels == NO_LABEL, 0, private.labels).astype(np.int64)
    classes = private.schema.num_classes
    histories = np.repeat(labels[:, None], ROUNDS, axis=1)
    before = (labels + rng.integers(1, classes, size=len(labels))) % classes
    moved = rng.random(len(labels)) < changed
    histories[moved, : ROUNDS // 2] = before[moved, None]
    return histories


def summary(cell: Cell, draws: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Return mean accuracies in percent with standard errors, and the epsilons of the series."""
    name, epsilon, round_epsilon, changed = cell
    row: dict[str, Any] = {"graph": name, "epsilon": epsilon, "round_epsilon": round_epsilon, "changed": changed}
    for key in draws[0]:
        values = 100 * np.array([each[key] for each in draws])
        row[key] = [round(float(values.mean()), 2), round(float(values.std(ddof=1) / len(values) ** 0.5), 2)]
    return row


def main() -> None:
    """Print the rows as JSON, one line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", type=Path, help="folder of public graphs, .npz")
    parser.add_argument("--features", action="store_true", help="ask for features, too, on block models")
    parser.add_argument("--only", nargs="+", default=["cora", "lastfm"], help="names of graphs")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    options = parser.parse_args()
    if options.features:
        seeds = range(options.first_seed, options.first_seed + options.draws)
        print(json.dumps(summary(("block model", 2.0, 1.0, 0.0), [draw_features(seed) for seed in seeds])))
        return
    if options.datasets is None:
        parser.error("give --datasets, or --features")
    budgets = [(1.0, 0.5), (2.0, 1.0), (2.0, 2.0), (4.0, 2.0)]
    cells = [(name, *each, 0.0) for name, each in itertools.product(options.only, budgets)]
    cells += [(name, 2.0, 2.0, 0.2) for name in options.only]
    seeds = range(options.first_seed, options.first_seed + options.draws)
    tasks = [(cell, seed, options.datasets) for cell in cells for seed in seeds]
    draws = list[dict[str, float]]()
    with ProcessPoolExecutor(options.processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        for number, found in enumerate(pool.map(draw, *zip(*tasks, strict=True)), start=1):
            draws.append(found)
            print(f"\r{number} of {len(tasks)}", end="", file=sys.stderr)
            if number % len(seeds) == 0:
                cell = cells[number // len(seeds) - 1]
                print(json.dumps(summary(cell, draws[-len(seeds) :])), flush=True)


if __name__ == "__main__":
    main()
