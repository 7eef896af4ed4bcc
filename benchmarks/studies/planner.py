"""The budget planner's recommendations, compared with every division of the budget that was run on real graphs.

veilgraph paper run frontier
python -m benchmarks.studies.planner
"""

from __future__ import annotations

import argparse
import json
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch

from veilgraph.experiments.budget_planner import plan_collection
from veilgraph.experiments.cells import DatasetLoader
from veilgraph.experiments.grid import load_experiment
from veilgraph.experiments.results import ResultStore, Row, read_rows

DATASETS = ("citeseer", "cora", "dblp", "facebook", "german", "student")
TOTALS = (1.0, 2.0, 4.0, 8.0, 13.0)


def recommended_share(dataset: str, total: float, data_dir: Path | None) -> float:
    """Return the label's share of the total that the planner recommends for a graph and a schema."""
    torch.set_num_threads(1)
    private = DatasetLoader(data_dir).load(dataset)
    return plan_collection(private.graph, private.schema, total_epsilon=total).recommended.label_share


def measured(rows: list[Row], dataset: str, total: float) -> dict[float, float]:
    """Return the accuracy of Veil for each share of the label in the total."""
    return {
        round((row.epsilon_y or 0) / total, 6): row.mean
        for row in rows
        if row.dataset == dataset
        and row.method in ("veil_labels", "veil_equal")
        and abs(10 * (row.epsilon_x or 0) + (row.epsilon_y or 0) - total) < 1e-9
    }


def main() -> None:
    """Print the table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--out", type=Path, default=Path("runs/paper"), help="folder with the results of the experiment frontier"
    )
    parser.add_argument("--data-dir", type=Path, default=None)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    data = DatasetLoader(options.data_dir)
    rows = read_rows(load_experiment("frontier"), ResultStore(options.out), data=data)
    settings = [(dataset, total) for dataset in DATASETS for total in TOTALS]
    with ProcessPoolExecutor(options.jobs) as pool:
        shares = pool.map(recommended_share, *zip(*settings, strict=True), [options.data_dir] * len(settings))
        results = [_compare(rows, *setting, share) for setting, share in zip(settings, shares, strict=True)]
    within = sum(result["regret"] <= 0.02 for result in results)
    if options.json:
        print(json.dumps({"within_2_points": within, "settings": results}, indent=2))
        return
    print("| data set | total epsilon (any two records) | recommended | its accuracy | best | its accuracy | regret |")
    print("|---|---|---|---|---|---|---|")
    for result in results:
        print(
            "| {dataset} | {total:g} | {share:.0%} | {own:.1%} | {best:.0%} | {top:.1%} | {regret:.1%} |".format(
                **result
            )
        )
    print(f"\n{within} of {len(results)} within 2 points of the best division.")


def _compare(rows: list[Row], dataset: str, total: float, share: float) -> dict[str, Any]:
    found = measured(rows, dataset, total)
    best = max(found, key=lambda each: found[each])
    own = found[round(share, 6)]
    return {
        "dataset": dataset,
        "total": total,
        "share": share,
        "own": own,
        "best": best,
        "top": found[best],
        "regret": found[best] - own,
    }


if __name__ == "__main__":
    main()
