"""Small random graphs and inputs, on which networks are compared with those of torch_geometric."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from veilgraph.graph import Graph
from veilgraph.models.engine.backbones import ReplicaSettings
from veilgraph.reconstruct.operators import GraphOperators

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message=".*torch.jit", category=DeprecationWarning)
    layers: Any = importlib.import_module("torch_geometric.nn")

NODES, COLUMNS, CLASSES = 30, 7, 3
# Sums of at most a few dozen products of numbers up to a few units, added in another order.
TOLERANCE = 1e-5


def random_operators(seed: int) -> GraphOperators:
    """Return a random graph on 30 nodes, of which the last five are isolated."""
    edges = np.random.default_rng(seed).integers(0, NODES - 5, (2, 50))
    return GraphOperators(Graph.from_edges(np.concatenate([edges, [[0], [1]]], axis=1), num_nodes=NODES))


def random_inputs(seed: int) -> Tensor:
    """Return random inputs of all nodes, [nodes, columns]."""
    return torch.randn(NODES, COLUMNS, generator=torch.Generator().manual_seed(seed))


def settings_of(seed: int, **changed: float) -> ReplicaSettings:
    """Return settings without dropout and weight decay, except for what is changed."""
    settings: dict[str, Any] = {"dropout": 0.0, "learning_rate": 0.01, "weight_decay": 0.0}
    return ReplicaSettings(seed=seed, **(settings | changed))
