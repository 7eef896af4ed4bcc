"""Fits for which one process and several must give equal results; under torchrun, the leader writes them."""

from __future__ import annotations

import gc
import sys
from contextlib import ExitStack
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import distributed

from veilgraph.datasets import csbm
from veilgraph.distributed.process_group import join_process_group
from veilgraph.experiments import simulate
from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.models import RGNN, PlainGNN
from veilgraph.models.base import FitTask
from veilgraph.models.engine.distributed_fit import fit_distributed, join_fit
from veilgraph.models.engine.gnn_method import GNNMethod
from veilgraph.models.engine.replica_networks import ReplicaAdam
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms.registry import grr_fs, joint_grr_best

NODES, ISOLATED = 300, 20
SPLIT = Split.random(NODES + ISOLATED, seed=0)


@cache
def perturbed(everyone: bool, joint: bool = False) -> PerturbedGraph:
    """Simulate a collection.

    Args:
        everyone: whether every node reports; otherwise some nodes are silent, and so is a whole region.
        joint: whether features are randomized by joint GRR, where nobody is asked about every feature.
    """
    private = csbm(NODES + ISOLATED, seed=0)
    edges = private.graph.edges[:, (private.graph.edges < NODES).all(axis=0)]
    budget = PrivacyBudget(epsilon_x=2.0, epsilon_y=2.0, sampled=2 if joint else 8)
    randomizer = joint_grr_best if joint else grr_fs
    drawn = simulate(private, budget, SPLIT, rng=np.random.default_rng(0), features=randomizer)
    graph = Graph.from_edges(edges, NODES + ISOLATED)
    if everyone:
        return replace(drawn, graph=graph)
    numbers = np.arange(graph.num_nodes)
    # Nodes around the node of largest degree are silent, so that some have no report in reach.
    hub = int(graph.degrees.argmax())
    near = np.isin(numbers, graph.edges[:, (graph.edges == hub).any(axis=0)])
    heard = (numbers % 3 > 0) & ~near
    return replace(drawn, graph=graph, has_features=heard, has_label=drawn.has_label & heard)


def cases() -> dict[str, tuple[GNNMethod, tuple[bool, bool]]]:
    """Return methods and the arguments of the collections that they learn from."""
    fewer: dict[str, Any] = {"epochs": 12, "device": "cpu"}
    hops: dict[str, Any] = {"feature_hops": 3, "label_hops": 2}
    return {
        "rgnn sage": (RGNN(**hops, **fewer), (False, False)),
        "rgnn gcn": (RGNN(backbone="gcn", num_clusters=40, **hops, **fewer), (True, False)),
        "rgnn without bags": (
            RGNN(use_proportions=False, weight_decay=0.01, dropout=0.0, **hops, **fewer),
            (False, False),
        ),
        "rgnn of joint reports": (RGNN(**hops, **fewer), (False, True)),
        "plain sage": (PlainGNN(**fewer), (True, False)),
        "plain gcn": (PlainGNN(backbone="gcn", dropout=0.2, seed=3, **fewer), (False, False)),
    }


def case(name: str) -> tuple[FitTask[GNNMethod], None]:
    """Return the task of a case on the whole graph."""
    method, collection = cases()[name]
    return FitTask(method=method, perturbed=perturbed(*collection), split=SPLIT), None


class Meter:
    """A counter of the bytes that this process receives in exchanges."""

    def __init__(self) -> None:
        self.bytes, self._exchange = 0, distributed.all_to_all_single
        distributed.all_to_all_single = self  # type: ignore[assignment]

    def __call__(self, received: torch.Tensor, *rest: Any) -> None:
        self.bytes += received.nbytes
        self._exchange(received, *rest)


class Watched:
    """A record of the optimizer's gradients, and of the data that this process holds during training.

    Attributes:
        gradients: gradients of each step.
        nodes: number of nodes whose reports are in memory, counted once for each collection.
        whole_graphs: number of whole graphs in memory.
    """

    def __init__(self) -> None:
        self.gradients: list[torch.Tensor] = []
        self.nodes = self.whole_graphs = 0
        self._watching = ExitStack()

    def __enter__(self) -> Watched:
        original = ReplicaAdam.step

        def step(optimizer: ReplicaAdam) -> None:
            assert optimizer.weights.grad is not None
            self.gradients.append(optimizer.weights.grad.clone())
            if len(self.gradients) == 1:
                self._look_around()
            original(optimizer)

        self._watching.enter_context(patch.object(ReplicaAdam, "step", step))
        return self

    def __exit__(self, *exception: object) -> None:
        self._watching.close()

    def _look_around(self) -> None:
        gc.collect()
        things = gc.get_objects()  # isinstance would raise for some of them
        self.nodes = sum(len(thing.features) for thing in things if type(thing) is PerturbedGraph)
        self.whole_graphs = sum(type(thing) is Graph for thing in things)


def everywhere(here: torch.Tensor, count: int) -> torch.Tensor:
    """Gather a tensor from every process, [processes, ...]."""
    gathered = [torch.empty_like(here) for _ in range(count)]
    distributed.all_gather(gathered, here)
    return torch.stack(gathered)


def main(out: Path) -> None:
    """Fit every case, in all processes together."""
    meter = Meter()
    # Small messages, so that an object takes several of them.
    with join_process_group(torch.device("cpu"), max_message_bytes=10_007) as processes:
        found: dict[str, Any] = {"processes": processes.world_size}
        for name in cases():
            meter.bytes = 0
            with Watched() as watched:
                if processes.is_leader:
                    method, _ = fit_distributed(processes, partial(case, name))
                else:
                    join_fit(processes)
            held = torch.tensor([watched.nodes, watched.whole_graphs])
            for key, here in {"gradients": torch.cat(watched.gradients), "held": held}.items():
                found[f"{name}: {key}"] = everywhere(here, processes.world_size).numpy()
            if not processes.is_leader:
                continue
            found[f"{name}: traffic"] = np.array(meter.bytes)
            found[f"{name}: probabilities"] = method.predict_proba()
            found[f"{name}: loss"] = np.array(method.curve_.train_loss)
            found[f"{name}: score"] = np.array(method.curve_.validation_score)
        if processes.is_leader:
            np.savez(out, **found)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
