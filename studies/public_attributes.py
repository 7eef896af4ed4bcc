"""Veil with and without public attributes, with permuted ones, and the control, for the label alone.

All methods read the same reports of the same people. The features of a graph are public; permuted, they say nothing.
Finished cells are kept in a file, so that an interrupted run goes on where it ended.

python -m studies.public_attributes --datasets FOLDER --first-seed 100 --draws 10 --out cells.jsonl
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

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

Task = tuple[Path, str, float, int]
"""Folder of the data, name, epsilon and seed."""


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
    columns = {key: 100 * np.array([each[key] for each in draws]) for key in METHODS}
    columns["gain"] = columns["public"] - columns["veil"]
    columns["permuted gain"] = columns["permuted"] - columns["veil"]
    row = {key: draws[0][key] for key in ("dataset", "epsilon_user_level")} | {"draws": len(draws)}
    for key, values in columns.items():
        error = float(values.std(ddof=1) / len(values) ** 0.5) if len(values) > 1 else float("nan")
        row[key] = {"mean": float(values.mean()), "standard_error": error}
    return row


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as a Markdown table, in percent."""
    keys = ("veil", "public", "gain", "permuted gain", "control", "largest")
    names = ("Veil", "with public attributes", "gain", "gain where permuted", "control", "largest class")
    lines = [f"| data | epsilon | draws | {' | '.join(names)} |", "| --- |" + " ---: |" * (2 + len(keys))]
    for row in rows:
        cells = [f"{row[key]['mean']:.1f} ± {row[key]['standard_error']:.1f}" for key in keys]
        head = f"{row['dataset']} | {row['epsilon_user_level']:g} | {row['draws']}"
        lines.append(f"| {head} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def names_in(folder: Path) -> list[str]:
    """Return the names of all data with public attributes in a folder."""
    archives = sorted(folder.glob("*.npz"))
    graphs = [path.stem for path in archives if np.load(path)["x_shape"][1] > 0]
    return graphs + [
        name for name in QUESTIONS if (folder / "people" / f"{name.partition('-')[0]}_people.csv").is_file()
    ]


def finished(path: Path) -> dict[tuple[str, float, int], dict[str, Any]]:
    """Return the cells of a file by name, epsilon and seed; a line that was cut off is left out."""
    cells: dict[tuple[str, float, int], dict[str, Any]] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        try:
            cell = json.loads(line)
        except ValueError:
            continue
        cells[cell["dataset"], cell["epsilon_user_level"], cell["seed"]] = cell
    return cells


def add_options(parser: argparse.ArgumentParser, *, out: str, drawn: bool = False) -> None:
    """Add what a study of cells can be told; one on drawn graphs alone reads no folder."""
    parser.add_argument("--datasets", type=Path, required=not drawn, help="folder of graphs, .npz, and of people/")
    parser.add_argument("--only", nargs="+", default=None, help="names of the data; default: all of the folder")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.5, 1.0, 2.0, 4.0])
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(out), help="file of finished cells")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--json", action="store_true")


def run_cells(
    options: argparse.Namespace,
    compare: Callable[[Task], dict[str, Any]],
    summary: Callable[[Sequence[Mapping[str, Any]]], dict[str, Any]],
    table: Callable[[Sequence[Mapping[str, Any]]], str],
) -> None:
    """Compute the cells that the file lacks in processes, and print the rows as a table or as JSON."""
    names = options.only or names_in(options.datasets)
    seeds = range(options.first_seed, options.first_seed + options.draws)
    wanted = list(itertools.product(names, options.epsilons, seeds))
    cells = finished(options.out)
    missing = [cell for cell in wanted if cell not in cells]
    options.out.write_text("".join(json.dumps(cell) + "\n" for cell in cells.values()), encoding="utf-8")
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.processes, mp_context=context) as pool, options.out.open("a") as file:
        started = [pool.submit(compare, (options.datasets, *cell)) for cell in missing]
        for number, future in enumerate(as_completed(started), start=1):
            file.write(json.dumps(future.result()) + "\n")
            file.flush()
            print(f"\r{number} of {len(missing)}", end="", file=sys.stderr)
    cells = finished(options.out)
    rows = [
        summary([cells[name, epsilon, seed] for seed in seeds])
        for name, epsilon in itertools.product(names, options.epsilons)
    ]
    print(json.dumps(rows, indent=2) if options.json else table(rows))


def main() -> None:
    """Print the table or JSON. Epsilons are at user level (any two records), spent on the label alone."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, out="public_attributes.jsonl")
    run_cells(parser.parse_args(), compare, summary, table)


if __name__ == "__main__":
    main()
