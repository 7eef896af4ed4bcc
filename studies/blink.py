"""Private neighbours with public attributes, beside Blink's published figures, with the same inputs.

Blink (CCS 2023) protects one entry of a neighbour list, and reads clean features and the clean labels of half of the
people. Here attributes are public and the same half gives clean labels; the list is protected by histograms in two
waves or by a randomized list, each with the same epsilon for one entry.

python -m studies.blink --datasets FOLDER --first-seed 100 --draws 10 --out cells.jsonl
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from studies.cells import Task, add_options, mean_row, mean_table, percent, run_cells
from studies.grids.private_edges import BLINK
from studies.public_attributes import people
from veilgraph.evaluation import accuracy
from veilgraph.experiments.edge_knowledge import ALONE, KNOWLEDGE
from veilgraph.experiments.neighbour_design import HISTOGRAM, LIST
from veilgraph.experiments.simulation import label_rng, randomize_labels, simulated_collection
from veilgraph.graph import Split
from veilgraph.models import LabelVeil, Method, NeighbourWaves
from veilgraph.privacy.mechanisms import GRR
from veilgraph.privacy.schema import NO_LABEL

MOST_PAIRS = 2_000_000
"""Pairs that a graph of randomized lists may have; with more, no list is tried."""

METHODS = {"histogram": "histogram", "list": "randomized list", "alone": "attributes alone", "largest": "largest class"}


def compare(task: Task) -> dict[str, Any]:
    """Return the accuracy of every answer on the test nodes, for one draw; NaN for a list that is not tried."""
    folder, name, epsilon, seed = task
    torch.set_num_threads(1)
    private = people(folder, name)
    eligible = private.labels != NO_LABEL
    split = Split.random(private.graph.num_nodes, seed=seed, train=0.4, validation=0.1, eligible=eligible)
    clean = GRR(private.schema.num_classes, math.inf)
    labels = randomize_labels(private, clean, split, rng=label_rng(seed))
    reports = simulated_collection(private, split, clean, labels)
    nodes, found = private.graph.num_nodes, dict.fromkeys(METHODS, math.nan)
    for answer in (HISTOGRAM, LIST, ALONE):
        if answer == LIST and nodes**2 / 2 / (1 + math.exp(epsilon)) ** 2 > MOST_PAIRS:
            continue
        known = KNOWLEDGE[answer].known(private, reports, split, epsilon, seed)
        method: Method = LabelVeil(seed=seed, device="cpu") if answer == LIST else NeighbourWaves(seed=seed)
        found[answer] = accuracy(method.fit(known, split).predict(), private, split.test)
    counted = private.labels[split.test & eligible]
    found["largest"] = float(np.bincount(counted).max() / len(counted))
    return {"dataset": name, "epsilon_user_level": epsilon, "seed": seed, **found}


def summary(draws: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return means with standard errors, in percent, and what Blink published."""
    row = mean_row(draws, percent(draws, list(METHODS)))
    return row | {"blink": BLINK.get(row["dataset"], {}).get(row["epsilon_user_level"], "")}


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as a Markdown table, in percent. Its epsilon is for one entry of a list."""
    return mean_table(rows, METHODS | {"blink": "Blink, published"}, epsilon="epsilon of one entry")


def main() -> None:
    """Print the table or JSON. Epsilons are for one entry of a neighbour list; labels and attributes are clean."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, out="blink.jsonl")
    parser.set_defaults(epsilons=[1.0, 2.0, 4.0, 8.0])
    run_cells(parser.parse_args(), compare, summary, table, ["cora", "citeseer", "facebook"])


if __name__ == "__main__":
    main()
