"""Use your own GNN: any torch.nn.Module whose forward(x, edge_index) returns class scores.

A method needs a factory (num_inputs, num_classes) -> Module. The number of inputs follows from the reconstruction.
This module is written in plain torch.
"""

from __future__ import annotations

import statistics
import tempfile

import numpy as np
import torch
from torch import Tensor, nn

from veilgraph import RGNN, PrivacyBudget, Split, StructureOnly, simulate
from veilgraph.datasets import csbm
from veilgraph.evaluation import accuracy

SEEDS = 3
BUDGET = PrivacyBudget(epsilon_x=0.5, epsilon_y=1.0, sampled=8)


class Residual(nn.Module):
    """A linear layer for the node itself and one for the mean of its neighbours."""

    def __init__(self, num_inputs: int, num_classes: int) -> None:
        super().__init__()
        self.own = nn.Linear(num_inputs, 32)
        self.neighbours = nn.Linear(num_inputs, 32)
        self.out = nn.Linear(32, num_classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return class scores (logits), [nodes, classes]."""
        sources, targets = edge_index
        total = torch.zeros_like(x).index_add(0, targets, x[sources])
        degree = torch.bincount(targets, minlength=len(x)).clamp(min=1).unsqueeze(1)
        scores: Tensor = self.out(torch.relu(self.own(x) + self.neighbours(total / degree)))
        return scores


def main() -> None:
    """Train with the factory, save, load with the factory, and compare with the control."""
    private = csbm(seed=0)
    scores: dict[str, list[float]] = {"RGNN with a GNN of your own": [], "structure-only control": []}
    for seed in range(SEEDS):
        split = Split.random(private.graph.num_nodes, seed=seed)
        perturbed = simulate(private, BUDGET, split, rng=np.random.default_rng(seed))
        model = RGNN(backbone=Residual, feature_hops=4, label_hops=2, seed=seed, device="cpu").fit(perturbed, split)
        control = StructureOnly().fit(perturbed, split)
        for name, method in zip(scores, (model, control), strict=True):
            scores[name].append(accuracy(method.predict(), private, split.test))
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)  # parameters and weights, no code; so load needs the factory
        loaded = RGNN.load(folder, backbone=Residual, device="cpu")
    print(f"loaded again, predicts the same: {np.array_equal(loaded.predict(), model.predict())}")
    for name, values in scores.items():
        print(f"{name:27}  {statistics.mean(values):.1%} ± {100 * statistics.stdev(values):.1f} over {SEEDS} seeds")
    print(perturbed.guarantee.in_words()[0])
    print("The control uses no features: it costs the epsilon of the label only.")


if __name__ == "__main__":
    main()
