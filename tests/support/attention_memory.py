"""Memory of an attention network: a process that trains it on two graphs, and says what it took and what was expected.

Python, torch and torch_geometric take memory at first use. So a tiny graph comes first, and does not count.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch

from tests.support.shard_memory import peak
from tests.support.small_networks import settings_of
from veilgraph.graph import Graph
from veilgraph.graph.shards import ShardGraph
from veilgraph.models.engine.attention import AttentionNetwork, attention_bytes
from veilgraph.reconstruct.operators import operators_of

CLASSES, DEGREE = 4, 10


def train_two_epochs(nodes: int, *, shards: bool) -> tuple[int, int]:
    """Train on a random graph; return the peak of this process's memory, and the estimate for the network."""
    edges = np.random.default_rng(0).integers(0, nodes, (2, nodes * DEGREE // 2))
    graph = Graph.from_edges(edges, nodes)
    graph = ShardGraph(num_nodes=nodes, edges=graph.edges, identity="a graph") if shards else graph
    operators, inputs = operators_of(graph, torch.device("cpu")), torch.randn(nodes, 8)
    network = AttentionNetwork(operators, inputs, num_classes=CLASSES, settings=settings_of(0, dropout=0.5))
    for _ in range(2):
        logits, _ = network.epoch_logits()
        logits.sum().backward()  # type: ignore[no-untyped-call]
        network.step()
    return peak(), attention_bytes(operators, CLASSES)


def main(out: Path) -> None:
    """Write pairs of the memory that was taken and that was expected: in 32 bits, then in 64 on a larger graph."""
    before, _ = train_two_epochs(30, shards=True)
    found = [train_two_epochs(nodes, shards=shards) for nodes, shards in ((5_000, False), (12_000, True))]
    out.write_text(json.dumps([(taken - before, expected) for taken, expected in found]), encoding="ascii")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
