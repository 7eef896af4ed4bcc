"""How often the planner's 90% interval holds the accuracy that the recommended collection has on real graphs.

python -m studies.planner --datasets FOLDER
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from veilgraph.datasets import PrivateGraph
from veilgraph.datasets.archive import Archive
from veilgraph.experiments.budget_planner import Beliefs, Trial, plan_collection, simulated_accuracies

TOTALS = (0.5, 1.0, 2.0, 4.0)
SEEDS = (100, 101, 102, 103, 104)
"""Reporting seeds, for the true accuracies."""

LABEL_SHARE = 0.75


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One plan, compared with the truth.

    Attributes:
        dataset: name of the data set.
        total: user-level epsilon of a report, any two records.
        known: whether the planner was given the homophily of the true labels.
        low: lower end of the interval.
        high: upper end of the interval.
        truth: accuracy of the recommended collection with the true labels, mean over the seeds.
    """

    dataset: str
    total: float
    known: bool
    low: float
    high: float
    truth: float

    @property
    def holds(self) -> bool:
        """Whether the interval holds the truth."""
        return self.low <= self.truth <= self.high


def label_alone(path: Path) -> PrivateGraph:
    """Read a data set without its features: the planner's interval is about the labels."""
    private = Archive.read(path).private_graph(group=1)
    return replace(private, schema=replace(private.schema, columns=(), group=1), features=private.features[:, :0])


def measure(path: Path, total: float, known: bool) -> Cell:
    """Plan from the graph and the schema, then run the recommended collection with the true labels."""
    torch.set_num_threads(1)
    private = label_alone(path)
    homophily = (private.homophily, private.homophily) if known else None
    plan = plan_collection(
        private.graph,
        private.schema,
        total_epsilon=total,
        beliefs=Beliefs(label_share=LABEL_SHARE, homophily=homophily),
    )
    trials = [Trial(private=private, candidate=plan.recommended, label_share=LABEL_SHARE, seed=seed) for seed in SEEDS]
    low, high = plan.expected_accuracy
    truth = statistics.mean(simulated_accuracies(trials))
    return Cell(dataset=path.stem, total=total, known=known, low=low, high=high, truth=truth)


def table(cells: Sequence[Cell]) -> list[str]:
    """Return the lines of a Markdown table, and the share of intervals that hold the truth.

    >>> print(table([Cell(dataset="cora", total=1.0, known=False, low=0.26, high=0.77, truth=0.74)])[-1])
    1 of 1 intervals hold the truth; they are 51 points wide on average.
    """
    rows = [
        f"| {cell.dataset} | {cell.total:g} | {cell.low:.0%} to {cell.high:.0%} | {cell.truth:.1%} "
        f"| {'yes' if cell.holds else 'no'} |"
        for cell in cells
    ]
    held = sum(cell.holds for cell in cells)
    width = statistics.mean(cell.high - cell.low for cell in cells)
    return [
        "| data set | total epsilon (any two records) | 90% interval | true accuracy | holds |",
        "|---|---|---|---|---|",
        *rows,
        "",
        f"{held} of {len(cells)} intervals hold the truth; they are {100 * width:.0f} points wide on average.",
    ]


def main() -> None:
    """Print both tables, or JSON: with an unknown homophily, and with that of the true labels."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", type=Path, required=True, help="folder of data sets, .npz")
    parser.add_argument("--epsilon", type=float, nargs="+", default=TOTALS, help="totals to plan for")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    paths = sorted(options.datasets.glob("*.npz"))
    settings = [(path, total, known) for known in (False, True) for path in paths for total in options.epsilon]
    with ProcessPoolExecutor(options.jobs) as pool:
        cells = []
        for cell in pool.map(measure, *zip(*settings, strict=True)):
            cells.append(cell)
            print(f"{len(cells)} of {len(settings)}: {cell}", file=sys.stderr, flush=True)
    if options.json:
        print(json.dumps([asdict(cell) | {"holds": cell.holds} for cell in cells], indent=2))
        return
    for known, title in ((False, "The homophily is unknown"), (True, "The homophily of the true labels is given")):
        print(f"{title}:\n", *table([cell for cell in cells if cell.known is known]), "", sep="\n")


if __name__ == "__main__":
    main()
