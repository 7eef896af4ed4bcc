"""Fits for which one process and several must give equal results; under torchrun, the leader writes them."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from benchmarks.performance.distributed import Meter
from numpy.typing import NDArray
from torch import distributed

from tests.support.partition import Partition
from veilgraph.datasets import csbm
from veilgraph.distributed.process_group import join_process_group
from veilgraph.experiments import simulate
from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.graph.shards import ShardGraph
from veilgraph.models import RGNN, PlainGNN
from veilgraph.models.engine.gnn_method import GNNMethod
from veilgraph.models.engine.replica_weights import ReplicaAdam
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms.registry import grr_fs, joint_grr_best
from veilgraph.reconstruct.operators import operators_of

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
    edges = Graph.from_edges(edges, NODES + ISOLATED).edges
    # Random draws come from counters of nodes on it, as with several processes.
    graph = ShardGraph(num_nodes=NODES + ISOLATED, edges=edges, identity="a graph")
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
        "rgnn gat": (RGNN(backbone="gat", **hops, **fewer), (False, False)),
        "plain gat": (PlainGNN(backbone="gat", dropout=0.0, weight_decay=0.01, **fewer), (True, False)),
        "plain sage": (PlainGNN(**fewer), (True, False)),
        "plain gcn": (PlainGNN(backbone="gcn", dropout=0.2, seed=3, **fewer), (False, False)),
    }


def part_of(whole: PerturbedGraph, method: GNNMethod, rank: int, processes: int) -> tuple[PerturbedGraph, Split]:
    """Return the reports and the split of one process's part."""
    clusters = operators_of(whole.graph, torch.device("cpu")).decompositions
    part = Partition(
        whole.graph, processes, clusters={count: clusters.clusters(count) for count in method.bag_counts()}
    )[rank]

    def local(rows: NDArray[Any]) -> NDArray[Any]:
        return rows[part.global_ids]

    arrays = {name: local(getattr(whole, name)) for name in ("features", "labels", "has_features", "has_label")}
    split = Split(train=local(SPLIT.train), validation=local(SPLIT.validation), test=local(SPLIT.test))
    return replace(whole, graph=part, **arrays), split  # type: ignore[arg-type]


class Watched:
    """A record of the optimizer's gradients.

    Attributes:
        gradients: gradients of each step.
    """

    def __init__(self) -> None:
        self.gradients: list[torch.Tensor] = []
        self._watching = ExitStack()

    def __enter__(self) -> Watched:
        original = ReplicaAdam.step

        def step(optimizer: ReplicaAdam) -> None:
            assert optimizer.weights.grad is not None
            self.gradients.append(optimizer.weights.grad.clone())
            original(optimizer)

        self._watching.enter_context(patch.object(ReplicaAdam, "step", step))
        return self

    def __exit__(self, *exception: object) -> None:
        self._watching.close()


def everywhere(here: torch.Tensor, count: int) -> torch.Tensor:
    """Gather a tensor from every process, [processes, ...]."""
    gathered = [torch.empty_like(here) for _ in range(count)]
    distributed.all_gather(gathered, here)
    return torch.stack(gathered)


def main(out: Path) -> None:
    """Fit every case, in all processes together."""
    with join_process_group(torch.device("cpu")) as processes:
        meter = Meter(processes.rank)
        found: dict[str, Any] = {"processes": processes.world_size}
        for name, (method, collection) in cases().items():
            reports, split = part_of(perturbed(*collection), method, processes.rank, processes.world_size)
            meter.start(name)
            with Watched() as watched:
                method.fit(reports, split)
            here = everywhere(torch.cat(watched.gradients), processes.world_size)
            found[f"{name}: gradients"] = here.numpy()
            found[f"{name}: traffic"] = np.array(meter.stages[name]["received"])
            answers = reports.graph.global_ids, method.predict_proba()  # type: ignore[attr-defined]
            everyone = processes.gather(answers)
            if not processes.is_leader:
                continue
            nodes, probabilities = (np.concatenate(each) for each in zip(*everyone, strict=True))
            found[f"{name}: probabilities"] = probabilities[np.argsort(nodes)]
            found[f"{name}: loss"] = np.array(method.curve_.train_loss)
            found[f"{name}: score"] = np.array(method.curve_.validation_score)
        if processes.is_leader:
            np.savez(out, **found)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
