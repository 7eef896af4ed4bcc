"""Veil with and without weights, directions and kinds of links, on drawn graphs where they tell classes or nothing.

Graphs have 800 nodes in four classes of about equal size. All methods read the same reports of the label alone.
Finished cells are kept in a file, so that an interrupted run goes on where it ended.

python -m studies.links --first-seed 100 --draws 20 --out links.jsonl
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from studies.cells import Task, add_options, mean_row, mean_table, percent, run_cells
from veilgraph.datasets import PrivateGraph
from veilgraph.evaluation import accuracy
from veilgraph.experiments.simulation import label_rng, randomize_labels, simulated_collection
from veilgraph.graph import Graph, Split
from veilgraph.models import LabelVeil, StructureOnly
from veilgraph.privacy.mechanisms.registry import best_label_mechanism
from veilgraph.privacy.schema import FeatureSchema

NODES, CLASSES = 800, 4
METHODS = {"links": "Veil with links", "ignored": "links ignored", "control": "control", "largest": "largest class"}

Ends = NDArray[np.int64]
"""Ends of links, [2, links]."""


def joined(rng: np.random.Generator, groups: NDArray[np.int64], degree: int, share: float, *, shift: int = 0) -> Ends:
    """Draw links, a share of which end in the group of their start, or in one `shift` groups further on.

    Args:
        rng: source of randomness.
        groups: group of each node, [nodes].
        degree: mean degree.
        share: share of the links that do not end anywhere.
        shift: number of groups by which the end is further on.
    """
    nodes, count = len(groups), len(groups) * degree // 2
    starts, ends = rng.integers(0, nodes, count), rng.integers(0, nodes, count)
    chosen, number = rng.random(count) < share, int(groups.max()) + 1
    for group in range(number):
        here = chosen & (groups[starts] == group)
        ends[here] = rng.choice(np.flatnonzero(groups == (group + shift) % number), int(here.sum()))
    kept = starts != ends
    pairs = np.stack([starts[kept], ends[kept]])
    return np.unique(pairs if shift else np.sort(pairs, axis=0), axis=1)


def _weighted(rng: np.random.Generator, labels: NDArray[np.int64], told: float) -> tuple[Ends, dict[str, Any]]:
    ends = joined(rng, labels, 10, 0.35)
    inside = labels[ends[0]] == labels[ends[1]]
    return ends, {"weights": np.exp(rng.normal(0, 0.7, ends.shape[1]) + told * inside)}


def _directed(rng: np.random.Generator, labels: NDArray[np.int64], told: bool) -> tuple[Ends, dict[str, Any]]:
    if told:
        return joined(rng, labels, 8, 0.6, shift=1), {"directed": True}
    ends = joined(rng, labels, 6, 0.45)
    return np.where(rng.random(ends.shape[1]) < 0.5, ends[::-1], ends), {"directed": True}


def _two_kinds(rng: np.random.Generator, labels: NDArray[np.int64], noise: str) -> tuple[Ends, dict[str, Any]]:
    first = joined(rng, labels, 6, 0.5)
    others = rng.integers(0, 8, NODES)
    second = {
        "noise": lambda: joined(rng, labels, 12, 0.0),
        "communities": lambda: joined(rng, others, 12, 0.7),
        "alike": lambda: joined(rng, labels, 6, 0.5),
    }[noise]()
    kinds = ["first"] * first.shape[1] + ["second"] * second.shape[1]
    return np.concatenate([first, second], axis=1), {"kinds": kinds}


Draw = Callable[[np.random.Generator, NDArray[np.int64]], tuple[Ends, dict[str, Any]]]

GRAPHS: dict[str, Draw] = {
    "weights tell the class": lambda rng, labels: _weighted(rng, labels, 1.2),
    "random weights": lambda rng, labels: _weighted(rng, labels, 0.0),
    "links go to the next class": lambda rng, labels: _directed(rng, labels, True),
    "random directions": lambda rng, labels: _directed(rng, labels, False),
    "one kind is noise": lambda rng, labels: _two_kinds(rng, labels, "noise"),
    "one kind has communities of its own": lambda rng, labels: _two_kinds(rng, labels, "communities"),
    "both kinds are alike": lambda rng, labels: _two_kinds(rng, labels, "alike"),
}
"""Drawn graphs, by what their links tell."""


def compare(task: Task) -> dict[str, Any]:
    """Return the accuracy with and without what links have, for one draw of graph and reports."""
    _, name, epsilon, seed = task
    torch.set_num_threads(1)
    rng = np.random.default_rng([seed, 77])
    labels = rng.integers(0, CLASSES, NODES)
    ends, links = GRAPHS[name](rng, labels)
    schema = FeatureSchema(classes=tuple("abcd"))
    private = PrivateGraph(
        name=name,
        graph=Graph.from_edges(ends, NODES, **links),
        schema=schema,
        features=np.zeros((NODES, 0), dtype=np.uint8),
        labels=labels,
    )
    split, mechanism = Split.random(NODES, seed=seed), best_label_mechanism(CLASSES, epsilon)
    drawn = randomize_labels(private, mechanism, split, rng=label_rng(seed))
    reports = simulated_collection(private, split, mechanism, drawn)
    ignored = replace(reports, graph=Graph.from_edges(ends, NODES))
    fitted = {
        "links": LabelVeil(seed=seed, device="cpu").fit(reports, split),
        "ignored": LabelVeil(seed=seed, device="cpu").fit(ignored, split),
        "control": StructureOnly(device="cpu").fit(ignored, split),
    }
    found = {key: accuracy(method.predict(), private, split.test) for key, method in fitted.items()}
    found["largest"] = float(np.bincount(labels[split.test]).max() / split.test.sum())
    return {"dataset": name, "epsilon_user_level": epsilon, "seed": seed, **found}


def summary(draws: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return means, and the paired gain by what links have, with standard errors, in percent."""
    columns = percent(draws, list(METHODS))
    return mean_row(draws, columns | {"gain": columns["links"] - columns["ignored"]})


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as a Markdown table, in percent."""
    return mean_table(rows, METHODS | {"gain": "gain"})


def main() -> None:
    """Print the table or JSON. Epsilons are at user level (any two records), spent on the label alone."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, out="links.jsonl", drawn=True)
    parser.set_defaults(epsilons=[0.5, 1.0, 2.0])
    run_cells(parser.parse_args(), compare, summary, table, list(GRAPHS))


if __name__ == "__main__":
    main()
