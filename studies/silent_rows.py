"""What it costs to hide who took part in the table that is published between waves about private neighbours.

People who sent nothing have the code "unknown" in the table. Two other rows are tried for them: the class shares of
all reports (a constant, which marks them as well), and the rows of people who took part, drawn at random once and kept
in all waves (which hides who took part from a reader of one table).

Three of five people report their label and answer all waves, every fifth is asked about neighbours alone, and every
fifth sends nothing. Accuracy is that of the second fifth, whose label report nobody has: labels by GRR at epsilon 2
(user level, any two records), two waves of histograms at 1 and 3 (one entry).

python -m studies.silent_rows --datasets FOLDER --only cora facebook
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from studies.deployed import read_labels
from veilgraph.evaluation import accuracy
from veilgraph.experiments.private_neighbours import without_edges
from veilgraph.experiments.simulation import label_rng, randomize_labels, simulated_collection
from veilgraph.graph import Split, WaveAnswers
from veilgraph.models import StructureOnly
from veilgraph.models.neighbour_waves import NeighbourWaves
from veilgraph.privacy.belief_table import BeliefTable
from veilgraph.privacy.mechanisms import GRR, NeighbourhoodHistogram
from veilgraph.privacy.schema import NO_LABEL

EPSILON_LABEL, EPSILON_WAVES = 2.0, (1.0, 3.0)
ROWS = ("unknown", "shares", "drawn")


def draw(name: str, seed: int, folder: Path) -> dict[str, float]:
    """Return the accuracy of each kind of row for silent people, and of the control on the public graph."""
    torch.set_num_threads(1)
    private = read_labels(folder / f"{name}.npz")
    people, classes = private.graph.num_nodes, private.schema.num_classes
    split = Split.random(people, seed=seed, train=0.4, validation=0.2, eligible=private.labels != NO_LABEL)
    silent = np.zeros(people, dtype=np.bool_)
    others = np.flatnonzero(split.test)
    silent[np.random.default_rng([seed, 4]).permutation(others)[: len(others) // 2]] = True
    judged = split.test & ~silent
    mechanism = GRR(classes, EPSILON_LABEL)
    labels = randomize_labels(private, mechanism, split, rng=label_rng(seed))
    labelled = simulated_collection(private, split, mechanism, labels, None, None)
    control = StructureOnly(device="cpu").fit(labelled, split).predict()
    found = {"control": accuracy(control, private, judged)}
    ends = private.graph.edge_index
    for rows in ROWS:
        known, rng = without_edges(labelled), np.random.default_rng([seed, 3])
        donor = np.random.default_rng([seed, 5]).random(people)
        for epsilon in EPSILON_WAVES:
            table = filled(NeighbourWaves(seed=seed).fit(known, split).next_table(known), silent, donor, rows)
            asked = NeighbourhoodHistogram(classes, epsilon, table.scale)
            answers = asked.blank(people)
            answers[~silent] = asked.randomize(table.sums_over(ends[0], ends[1])[~silent], rng=rng)
            wave = WaveAnswers(mechanism=asked, table=table, answers=answers, has_answer=~silent)
            known = replace(known, neighbour_waves=(*known.neighbour_waves, wave))
        found[rows] = accuracy(NeighbourWaves(seed=seed).fit(known, split).predict(), private, judged)
    return found


def filled(table: BeliefTable, silent: NDArray[np.bool_], donor: NDArray[np.float64], rows: str) -> BeliefTable:
    """Return the table with other rows for silent people.

    Args:
        table: table in which they are unknown.
        silent: who they are, [people].
        donor: a number below 1 for each person, which chooses the person whose row they get, [people].
        rows: "unknown", "shares" or "drawn".
    """
    if rows == "unknown":
        return table
    codes = table.codes.copy()
    if rows == "shares":
        shares = np.full((1, table.num_classes), 1 / table.num_classes)  # a belief is odds against the shares
        codes[silent] = BeliefTable.of(shares).codes[0]
    else:
        others = np.flatnonzero(~silent)
        codes[silent] = codes[others[(donor[silent] * len(others)).astype(np.int64)]]
    return BeliefTable(table.num_classes, codes)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print accuracies for each graph: mean and standard error over seeds, and paired differences."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", type=Path, required=True)
    parser.add_argument("--only", nargs="+", default=["cora", "facebook"])
    parser.add_argument("--first-seed", type=int, default=100)
    parser.add_argument("--draws", type=int, default=10)
    chosen: Any = parser.parse_args(arguments)
    for name in chosen.only:
        seeds = range(chosen.first_seed, chosen.first_seed + chosen.draws)
        found = [draw(name, seed, chosen.datasets) for seed in seeds]
        for key in found[0]:
            values = 100 * np.array([each[key] for each in found])
            paired = values - 100 * np.array([each["unknown"] for each in found])
            print(f"{name} {key}: {_spread(values)}; against unknown {_spread(paired)}", flush=True)
    return 0


def _spread(values: NDArray[np.float64]) -> str:
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{values.mean():.1f} ± {error:.1f}"


if __name__ == "__main__":
    sys.exit(main())
