"""Times each stage against the paper's loops and against the memory-bandwidth floor, in one run."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks import literal
from veilgraph.budget import PrivacyBudget
from veilgraph.datasets import csbm
from veilgraph.experiments import simulate
from veilgraph.graph import Split
from veilgraph.reconstruct import NeighbourhoodMean, reconstruct_features, reconstruct_labels

HOPS = 4
BUDGET = PrivacyBudget(epsilon_x=1.0, epsilon_y=1.0, sampled=10)


def seconds(work: Callable[[], object], *, repeats: int = 5) -> float:
    """The best of a few runs: what the machine can do, not what else it was doing."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


def bandwidth() -> float:
    """Bytes per second that a large copy reads and writes on this machine, now."""
    source = torch.ones(2**25)
    target = torch.empty_like(source)
    return 2 * source.nbytes / seconds(lambda: target.copy_(source))


def main() -> None:
    """Print the ratios as a table, or as JSON with --json."""
    private = csbm(5000, num_features=48, mean_degree=15, seed=0)
    split = Split.random(private.graph.num_nodes, seed=0)
    perturbed = simulate(private, BUDGET, split, rng=np.random.default_rng(0))
    mean = NeighbourhoodMean.of(private.graph)
    sizes = private.schema.domain_sizes
    features = perturbed.features
    # The least that K hops must move: the matrix and the columns in, the columns out.
    columns = torch.zeros(private.graph.num_nodes, len(sizes))
    matrix = mean.matrix
    moved = matrix.values().nbytes + matrix.col_indices().nbytes + matrix.crow_indices().nbytes + 2 * columns.nbytes
    rows: list[dict[str, Any]] = [
        {
            "stage": f"features, {HOPS} hops",
            "literal_s": seconds(
                lambda: literal.feature_frequencies(
                    private.graph, features, sizes, BUDGET.epsilon_x, BUDGET.sampled, HOPS
                ),
                repeats=1,
            ),
            "veilgraph_s": seconds(lambda: reconstruct_features(perturbed, HOPS, mean=mean)),
        },
        {
            "stage": f"labels, {HOPS} hops",
            "literal_s": seconds(
                lambda: literal.label_frequencies(
                    private.graph, perturbed.labels, perturbed.has_label, 4, BUDGET.epsilon_y, HOPS
                ),
                repeats=1,
            ),
            "veilgraph_s": seconds(lambda: reconstruct_labels(perturbed, HOPS, mean=mean)),
        },
    ]
    propagation = seconds(lambda: mean.propagate(columns, HOPS))
    floor = HOPS * moved / bandwidth()
    report: dict[str, Any] = {
        "stages": [{**row, "ratio": row["literal_s"] / row["veilgraph_s"]} for row in rows],
        "propagation": {"seconds": propagation, "floor_seconds": floor, "distance_to_floor": propagation / floor},
    }
    if "--json" in sys.argv:
        print(json.dumps(report, indent=2))
        return
    print(f"{'stage':24} {'literal':>10} {'veilgraph':>10} {'ratio':>8}")
    for row in report["stages"]:
        print(f"{row['stage']:24} {row['literal_s']:9.3f}s {row['veilgraph_s']:9.4f}s {row['ratio']:7.0f}x")
    print(f"propagation of {len(sizes)} columns: {propagation / floor:.1f} times the memory-bandwidth floor")


if __name__ == "__main__":
    main()
