"""A simulation in one file: private records, reports, reconstruction, a GNN, and the control beside it.

It uses five seeds, because one split says little. Every accuracy has its spread and its user-level epsilon.
"""

from __future__ import annotations

import statistics

import numpy as np

from veilgraph import RGNN, Method, PrivacyBudget, Split, StructureOnly, simulate
from veilgraph.datasets import patients
from veilgraph.evaluation import accuracy
from veilgraph.privacy.epsilon import show_epsilon

SEEDS = 5
BUDGET = PrivacyBudget(epsilon_x=1.0, epsilon_y=1.0, sampled=10)


def main() -> None:
    """Fit RGNN and the structure-only control on the same reports, and print both accuracies."""
    private = patients()
    print(private)
    scores: dict[str, list[float]] = {}
    spent: dict[str, float] = {}
    for seed in range(SEEDS):
        split = Split.random(private.graph.num_nodes, seed=seed)
        # A simulation may use a seeded generator. Real reports are drawn with OSRandom().
        perturbed = simulate(private, BUDGET, split, rng=np.random.default_rng(seed))
        methods: tuple[Method, ...] = (RGNN(feature_hops=6, label_hops=3, seed=seed, device="cpu"), StructureOnly())
        for method in methods:
            method.fit(perturbed, split)
            scores.setdefault(method.name, []).append(accuracy(method.predict(), private, split.test))
            spent[method.name] = method.epsilon_spent(perturbed.guarantee)
    for name, values in scores.items():
        mean, spread = statistics.mean(values), statistics.stdev(values)
        print(
            f"{name:14}  {mean:.1%} ± {100 * spread:.1f} over {SEEDS} seeds,"
            f" user-level epsilon (any two records) {show_epsilon(spent[name])}"
        )
    print(*perturbed.guarantee.in_words(), sep="\n")


if __name__ == "__main__":
    main()
