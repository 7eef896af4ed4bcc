"""Search hyper-parameters of RGNN; the score is the likelihood of randomized validation labels.

python -m veilgraph.experiments.tune_datasets citeseer cora --trials 48 --seeds 10

It writes the best parameters of each data set to OUT/NAME.toml, in the form that experiments read, and goes on where it
was stopped.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tomli_w

from veilgraph.atomic_files import write_atomically
from veilgraph.datasets.registry import short_name
from veilgraph.experiments.cells import DatasetLoader
from veilgraph.experiments.grid import make_cell
from veilgraph.experiments.tune import FIRST_SEED, Search, SearchResult, tune

LABEL_BUDGETS = (3.0, 2.0, 1.0, 0.5)


def main(arguments: Sequence[str] | None = None) -> None:
    """Search, and print the parameters as TOML."""
    parser = argparse.ArgumentParser(description="Search hyper-parameters of RGNN.")
    parser.add_argument("datasets", nargs="+", help="names, or paths of your own")
    parser.add_argument("--epsilon-x", type=float, default=1.0, help="budget of each sampled feature")
    parser.add_argument("--epsilon-y", type=float, action="append", help="budget of the label; default: 3, 2, 1, 0.5")
    parser.add_argument("--sampled", type=int, default=10, help="number of features that each person samples")
    parser.add_argument("--trials", type=int, default=30, help="settings for each data set and budget")
    parser.add_argument("--seeds", type=int, default=10, help="draws that each setting is averaged over")
    parser.add_argument("--epochs", type=int, default=100, help="training epochs")
    parser.add_argument("--out", type=Path, default=Path("runs/tune"), help="folder of journal and results")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    asked = parser.parse_args(arguments)
    search = Search(trials=asked.trials, seeds=asked.seeds, epochs=asked.epochs, device=asked.device)
    found: dict[str, dict[str, SearchResult]] = {}
    for dataset in asked.datasets:
        for label_budget in asked.epsilon_y or LABEL_BUDGETS:
            sys.stderr.write(f"tune {dataset}, epsilon_y {label_budget:g}\n")
            cell = make_cell(
                dataset=dataset,
                method="rgnn",
                epsilon_x=asked.epsilon_x,
                epsilon_y=label_budget,
                sampled=asked.sampled,
                seed=FIRST_SEED,
                parameters={},
            )
            journal = asked.out / f"{short_name(dataset)}.journal"
            result = tune(cell, search, journal=journal, data=DatasetLoader())
            found.setdefault(dataset, {})[f"{label_budget:g}"] = result
        write_atomically(
            asked.out / f"{short_name(dataset)}.toml", tomli_w.dumps(_parameters({dataset: found[dataset]}))
        )
    sys.stdout.write(tomli_w.dumps(_parameters(found)))


def _parameters(found: dict[str, dict[str, SearchResult]]) -> dict[str, Any]:
    """Return the parameters in the form that experiments read."""
    return {name: {budget: dict(result.parameters) for budget, result in each.items()} for name, each in found.items()}


if __name__ == "__main__":
    main()
