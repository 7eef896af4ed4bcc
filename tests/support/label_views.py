"""Label reports of a block model in folds, and a view that knows the truth."""

from __future__ import annotations

import numpy as np
import torch

from veilgraph.datasets import PrivateGraph, csbm
from veilgraph.experiments import simulate
from veilgraph.graph import Split
from veilgraph.models.veil.cross_fitting import CrossFitting
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms import GRR
from veilgraph.privacy.mechanisms.registry import LabelRandomizer


def cross_fitted(epsilon_y: float, label: LabelRandomizer = GRR) -> tuple[PrivateGraph, CrossFitting]:
    """Return 800 nodes of three classes with their label reports."""
    private = csbm(800, num_classes=3, num_features=2, seed=0)
    split = Split.random(800, seed=0)
    budget = PrivacyBudget(1.0, epsilon_y, 1)
    perturbed = simulate(private, budget, split, rng=np.random.default_rng(0), label=label)
    return private, CrossFitting.random(perturbed, seed=0)


def true_log_probabilities(private: PrivateGraph, confidence: float) -> torch.Tensor:
    """Return log-probabilities [nodes, 3] that give every true class the same confidence."""
    other = (1 - confidence) / 2
    shares = torch.nn.functional.one_hot(torch.from_numpy(private.labels), 3) * (confidence - other) + other
    return shares.float().log()
