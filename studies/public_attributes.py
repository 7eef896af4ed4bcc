"""Veil with and without public attributes, with permuted ones, and the control, for the label alone.

All methods read the same reports of the same people. The features of a graph are public; permuted, they say nothing.
Finished cells are kept in a file, so that an interrupted run goes on where it ended.

python -m studies.public_attributes --datasets FOLDER --first-seed 100 --draws 10 --out cells.jsonl
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from studies.cells import Task, add_options, mean_row, mean_table, percent, run_cells
from veilgraph.datasets import PrivateGraph, load
from veilgraph.evaluation import accuracy
from veilgraph.experiments.simulation import label_rng, randomize_labels, simulated_collection
from veilgraph.graph import Graph, PerturbedGraph, PublicAttributes, Split, read_table
from veilgraph.models import LabelVeil, StructureOnly
from veilgraph.privacy.mechanisms.registry import best_label_mechanism
from veilgraph.privacy.schema import NO_LABEL, FeatureSchema

QUESTIONS = {
    "amherst-year": ("year", ()),
    "amherst-gender": ("gender", ()),
    "kfamily-adopted": ("adopted", ("cfp",)),
}
"""Questions about the people of a table: the column that is asked, and columns that would answer it."""

METHODS = ("public", "veil", "permuted", "control", "largest")
_PERMUTED = 9000
"""Stream of the permutations."""


@lru_cache(maxsize=1)
def people(folder: Path, name: str) -> PrivateGraph:
    """Return people with public attributes, of whom the label alone is private."""
    if name not in QUESTIONS:
        return load(str(folder / f"{name}.npz"), merge_columns=False).with_public_features()
    asked, left_out = QUESTIONS[name]
    stem = folder / "people" / name.partition("-")[0]
    table = read_table(f"{stem}_people.csv")
    ids = list(table["id"])
    schema = FeatureSchema(classes=tuple(sorted(table[asked].dropna().unique())))
    return PrivateGraph(
        name=name,
        graph=Graph.from_table(read_table(f"{stem}_edges.csv"), nodes=ids),
        schema=schema,
        features=np.zeros((len(ids), 0), dtype=np.uint8),
        labels=schema.encode_labels(table[asked], name=asked),
        public=PublicAttributes.from_table(table.drop(columns=[asked, *left_out]), ids=ids),
    )


def collected(task: Task) -> tuple[PrivateGraph, Split, PerturbedGraph]:
    """Return people with public attributes, a split, and one draw of the reports of their labels."""
    folder, name, epsilon, seed = task
    private = people(folder, name)
    split = Split.random(private.graph.num_nodes, seed=seed, eligible=private.labels != NO_LABEL)
    mechanism = best_label_mechanism(private.schema.num_classes, epsilon)
    labels = randomize_labels(private, mechanism, split, rng=label_rng(seed))
    return private, split, simulated_collection(private, split, mechanism, labels)


def compare(task: Task) -> dict[str, Any]:
    """Return the accuracy of every method on the test nodes, for one draw of the reports."""
    _, name, epsilon, seed = task
    torch.set_num_threads(1)
    private, split, reports = collected(task)
    order = np.random.default_rng([seed, _PERMUTED]).permutation(private.graph.num_nodes)
    permuted = None if private.public is None else private.public.select(order)
    variants = {
        "public": reports,
        "veil": replace(reports, public=None),
        "permuted": replace(reports, public=permuted),
    }
    found = {
        key: accuracy(LabelVeil(seed=seed).fit(variant, split).predict(), private, split.test)
        for key, variant in variants.items()
    }
    found["control"] = accuracy(StructureOnly(device="cpu").fit(reports, split).predict(), private, split.test)
    counted = private.labels[split.test & (private.labels != NO_LABEL)]
    found["largest"] = float(np.bincount(counted).max() / len(counted))
    return {"dataset": name, "epsilon_user_level": epsilon, "seed": seed, **found}


def summary(draws: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return means and paired differences to Veil without attributes, with standard errors, in percent."""
    columns = percent(draws, METHODS)
    gains = {"gain": columns["public"] - columns["veil"], "permuted gain": columns["permuted"] - columns["veil"]}
    return mean_row(draws, columns | gains)


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as a Markdown table, in percent."""
    names = {"veil": "Veil", "public": "with public attributes", "gain": "gain", "permuted gain": "gain where permuted"}
    return mean_table(rows, names | {"control": "control", "largest": "largest class"})


def names_in(folder: Path) -> list[str]:
    """Return the names of all data with public attributes in a folder."""
    archives = sorted(folder.glob("*.npz"))
    graphs = [path.stem for path in archives if np.load(path)["x_shape"][1] > 0]
    return graphs + [
        name for name in QUESTIONS if (folder / "people" / f"{name.partition('-')[0]}_people.csv").is_file()
    ]


def main() -> None:
    """Print the table or JSON. Epsilons are at user level (any two records), spent on the label alone."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, out="public_attributes.jsonl")
    options = parser.parse_args()
    run_cells(options, compare, summary, table, names_in(options.datasets))


if __name__ == "__main__":
    main()
