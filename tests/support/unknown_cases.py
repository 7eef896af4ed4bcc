"""People of whom nothing is known, on a graph of many pieces; under torchrun, the leader writes them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch

from tests.support.veil_cases import part_of
from veilgraph.datasets import csbm
from veilgraph.deploy.prediction import unknown_people
from veilgraph.distributed.process_group import join_process_group
from veilgraph.graph import PerturbedGraph
from veilgraph.privacy.mechanisms import GRR
from veilgraph.privacy.schema import FeatureSchema

NODES = 600


def perturbed() -> PerturbedGraph:
    """Return few reports on a graph with long paths, which cross the parts, and with many pieces."""
    rng = np.random.default_rng(0)
    return PerturbedGraph(
        graph=csbm(NODES, mean_degree=2.0, num_features=0, seed=0).graph,
        schema=FeatureSchema(classes=("no", "yes")),
        features=np.zeros((NODES, 0), dtype=np.int8),
        labels=np.zeros(NODES, dtype=np.int64),
        has_features=np.zeros(NODES, dtype=np.bool_),
        has_label=rng.random(NODES) < 0.005,
        feature_mechanism=None,
        label_mechanism=GRR(2, 2.0),
    )


def main(out: Path) -> None:
    """Find these people, in all processes together."""
    with join_process_group(torch.device("cpu")) as processes:
        reports = part_of(perturbed(), processes.rank, processes.world_size)
        everyone = processes.gather((reports.graph.counted_nodes, unknown_people(reports)))
        if processes.is_leader:
            found = np.zeros(NODES, dtype=np.bool_)
            for numbers, unknown in everyone:
                found[numbers] = unknown
            np.save(out, found)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
