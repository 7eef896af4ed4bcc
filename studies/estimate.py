"""How often the intervals of answers about groups hold the truth, on public graphs and on two networks of people.

Each draw lets a random part of the people report one answer, randomized by the best label mechanism. The truth is the
share of each class among all people of a group: villages (kfamily), dorms and years (amherst), METIS clusters of the
other graphs, which have no public columns. Intervals have a level of 90 %, from reports alone and with the
out-of-fold predictions of Veil; groups have at least 30 reports.

python -m studies.estimate --datasets FOLDER --first-seed 100 --draws 20 --log FILE
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from studies.deployed import read_labels
from veilgraph.datasets import PrivateGraph
from veilgraph.deploy.group_shares import EMPTY, GroupShares, estimate_shares
from veilgraph.experiments.simulation import label_rng, randomize_labels, simulated_collection
from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.graph.attribute_kinds import Categories
from veilgraph.graph.clustering import cluster
from veilgraph.models import LabelVeil
from veilgraph.privacy.mechanisms.registry import best_label_mechanism
from veilgraph.privacy.schema import NO_LABEL, FeatureSchema

LEVEL = 0.9
FEWEST = 30
CLUSTERS = 20
PEOPLE = (
    ("kfamily", "adopted", "village"),
    ("amherst", "year", "dorm"),
    ("amherst", "gender", "dorm"),
    ("amherst", "gender", "year"),
)
"""Tables of people: name, the question, and the public column."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question to the people of a graph, and the groups that they are in."""

    name: str
    private: PrivateGraph
    groups: Categories | None


def questions(folder: Path, only: Sequence[str] | None) -> list[Question]:
    """Return the questions of a folder of public graphs, with its folder `people`."""
    found = []
    for path in sorted(folder.glob("*.npz")):
        if only is None or path.stem in only:
            private = read_labels(path)
            groups = Categories.of("cluster", list(map(str, cluster(private.graph, CLUSTERS).tolist())))
            found.append(Question(name=f"{path.stem} by cluster", private=private, groups=groups))
    for name, answer, column in PEOPLE:
        if only is None or name in only:
            found.append(_of_people(folder / "people", name, answer, column))
    return found


def _of_people(folder: Path, name: str, answer: str, column: str) -> Question:
    with (folder / f"{name}_people.csv").open(encoding="utf-8") as file:
        people = list(csv.DictReader(file))
    graph = Graph.from_files(folder / f"{name}_edges.csv", nodes=folder / f"{name}_people.csv")
    classes = tuple(sorted({person[answer] for person in people} - {""}))
    labels = [classes.index(person[answer]) if person[answer] else NO_LABEL for person in people]
    private = PrivateGraph(
        name=name,
        graph=graph,
        schema=FeatureSchema(classes=classes),
        features=np.zeros((len(people), 0), dtype=np.uint8),
        labels=np.array(labels),
    )
    groups = Categories.of(column, [person[column] for person in people])
    return Question(name=f"{name}: {answer} by {column}", private=private, groups=groups)


def measure(question: Question, epsilon: float, share: float, seed: int, *, model: bool = True) -> dict[str, Any]:
    """Return every interval of one simulated collection with its truth."""
    private, people = question.private, question.private.labels != NO_LABEL
    split = Split.random(private.graph.num_nodes, seed=seed, train=share * 2 / 3, validation=share / 3, eligible=people)
    mechanism = best_label_mechanism(private.schema.num_classes, epsilon)
    labels = randomize_labels(private, mechanism, split, rng=label_rng(seed))
    perturbed = simulated_collection(private, split, mechanism, labels)
    # People without an answer are in no group, and nobody wants to know how many of them have a class.
    asked, groups = _of(perturbed, people), question.groups and question.groups.select(people)
    truth, row = private.labels[people], {"question": question.name, "epsilon": epsilon, "share": share, "seed": seed}
    settings: dict[str, Any] = {"level": LEVEL, "half_width": 10.0}
    bases = {"reports": estimate_shares(asked, groups, **settings)}
    if model:
        predictions = LabelVeil(seed=seed).fit(perturbed, split).predict_without_own_report(perturbed)
        bases["model"] = estimate_shares(asked, groups, predictions=predictions[people], **settings)
    return row | {name: _checks(found, groups, truth) for name, found in bases.items()}


def _of(perturbed: PerturbedGraph, people: NDArray[np.bool_]) -> PerturbedGraph:
    return replace(
        perturbed,
        graph=Graph.without_edges(int(people.sum())),
        features=perturbed.features[people],
        labels=perturbed.labels[people],
        has_features=perturbed.has_features[people],
        has_label=perturbed.has_label[people],
    )


def _checks(found: GroupShares, groups: Categories | None, truth: NDArray[np.int64]) -> dict[str, Any]:
    """Return, for each interval, whether it is about all people, its truth, whether it holds, width, and the model."""
    checks, together = [], True
    classes = list(dict.fromkeys(share.name for share in found.shares))
    for share in found.shares:
        if share.reports < FEWEST:
            continue
        inside = np.ones(len(truth), dtype=np.bool_)
        if groups is not None and share.group is not None:
            inside = groups.codes == (-1 if share.group == EMPTY else groups.values.index(share.group))
        true = float((truth[inside] == classes.index(share.name)).mean())
        together &= share.low_together - 1e-9 <= true <= share.high_together + 1e-9
        checks.append(
            {
                "all": share.group is None,
                "truth": true,
                "holds": share.low - 1e-9 <= true <= share.high + 1e-9,
                "width": share.high - share.low,
                "assisted": share.assisted,
            }
        )
    return {"checks": checks, "together": bool(together)}


def table(results: Sequence[Mapping[str, Any]]) -> str:
    """Return coverage and widths as a Markdown table, in percent and points."""
    heads = ("groups", "all people")
    columns = [f"{head}: {text}" for head in heads for text in ("hold", "width", "with the model", "width")]
    lines = [
        f"| question | epsilon | report | {' | '.join(columns)} | model used | all at once |",
        "| --- |" + " ---: |" * (len(columns) + 4),
    ]
    for key in dict.fromkeys((row["question"], row["epsilon"], row["share"]) for row in results):
        rows = [row for row in results if (row["question"], row["epsilon"], row["share"]) == key]
        lines.append(f"| {key[0]} | {key[1]:g} | {key[2]:.0%} | {' | '.join(_cells(rows))} |")
    return "\n".join([*lines, f"| all | | | {' | '.join(_cells(results))} |"]) + "\n"


def _cells(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    cells = []
    for everybody in (False, True):
        for basis in ("reports", "model"):
            checks = [[c for c in row[basis]["checks"] if c["all"] == everybody] for row in rows if basis in row]
            if not any(checks):
                cells += ["", ""]
                continue
            sums, counts = np.array([[sum(c["holds"] for c in each), len(each)] for each in checks]).T
            rate = sums.sum() / counts.sum()
            # Over collections: intervals of one collection share their reports.
            error = float(np.sqrt(((sums - rate * counts) ** 2).sum()) / counts.sum())
            width = np.mean([c["width"] for each in checks for c in each])
            cells += [f"{100 * rate:.1f} ± {100 * error:.1f}", f"{100 * width:.1f}"]
    assisted = [c["assisted"] for row in rows if "model" in row for c in row["model"]["checks"]]
    cells.append(f"{100 * np.mean(assisted):.0f}" if assisted else "")
    return [*cells, f"{100 * np.mean([row['reports']['together'] for row in rows]):.0f}"]


def main() -> None:
    """Print the table. Epsilons are at user level (any two records), spent on the label alone."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", type=Path, required=True, help="folder of public graphs, .npz, and of people")
    parser.add_argument("--only", nargs="+", default=None, help="names of the graphs; default: all of the folder")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 2.0, 4.0])
    parser.add_argument("--shares", nargs="+", type=float, default=[0.75])
    parser.add_argument("--first-seed", type=int, default=100)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--everybody", action="store_true", help="shares of all people alone, without groups")
    parser.add_argument("--reports-only", action="store_true", help="fit no model")
    parser.add_argument("--log", type=Path, default=None, help="file of all collections; what it has is not repeated")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = list[dict[str, Any]]()
    if options.log is not None and options.log.is_file():
        results = [json.loads(line) for line in options.log.read_text().splitlines()]
    done = {(row["question"], row["epsilon"], row["share"], row["seed"]) for row in results}
    asked = questions(options.datasets, options.only)
    if options.everybody:
        asked = [replace(question, groups=None) for question in asked]
    seeds = range(options.first_seed, options.first_seed + options.draws)
    cells = [(q, e, share, seed) for seed in seeds for share in options.shares for e in options.epsilons for q in asked]
    for number, cell in enumerate(cells, start=1):
        if (cell[0].name, *cell[1:]) not in done:
            results.append(measure(*cell, model=not options.reports_only))
            if options.log is not None:
                with options.log.open("a") as log:
                    log.write(json.dumps(results[-1]) + "\n")
        print(f"\r{number} of {len(cells)}", end="", file=sys.stderr)
    print(json.dumps(results) if options.json else table(results))


if __name__ == "__main__":
    main()
