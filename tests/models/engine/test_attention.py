"""The attention network equals two layers of torch_geometric, with gradients, and continues where it was stopped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tests.support.small_networks import (
    CLASSES,
    COLUMNS,
    NODES,
    TOLERANCE,
    layers,
    random_inputs,
    random_operators,
    settings_of,
)
from tests.support.torchrun import ROOT
from veilgraph.graph.shards import ShardGraph
from veilgraph.models.engine.attention import HEADS, AttentionNetwork, attention_bytes
from veilgraph.models.engine.backbones import HIDDEN
from veilgraph.reconstruct.operators import ShardOperators


class TwoLayers(nn.Module):
    """The same network, with the layers of torch_geometric as they are."""

    def __init__(self) -> None:
        super().__init__()
        self.first = layers.GATConv(COLUMNS, HIDDEN, heads=HEADS)
        self.second = layers.GATConv(HIDDEN * HEADS, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        scores: Tensor = self.second(self.first(x, edge_index).relu(), edge_index)
        return scores


def network(seed: int, dropout: float = 0.0) -> AttentionNetwork:
    settings = settings_of(seed, dropout=dropout)
    with torch.random.fork_rng():
        return AttentionNetwork(random_operators(seed), random_inputs(seed), num_classes=CLASSES, settings=settings)


@pytest.mark.parametrize("seed", range(3))
def test_outputs_and_gradients_equal_those_of_torch_geometric(seed: int) -> None:
    torch.manual_seed(seed + 100)
    reference, operators, inputs, ours = TwoLayers(), random_operators(seed), random_inputs(seed), network(seed)
    ours.load_weights({name: each.detach() for name, each in reference.named_parameters()})
    expected = reference(inputs, operators.edge_index)
    logits, evaluated = ours.epoch_logits()
    for found in (logits, evaluated, ours.score_logits(), ours.prediction_logits()):
        assert found.shape == (1, CLASSES, NODES)
        assert torch.allclose(found[0].T, expected, rtol=0, atol=TOLERANCE)
    direction = torch.randn(NODES, CLASSES, generator=torch.Generator().manual_seed(seed))
    (expected * direction).sum().backward()
    (logits[0].T * direction).sum().backward()  # type: ignore[no-untyped-call]
    assert ours.weights.grad is not None
    gradients = torch.cat([each.grad.flatten() for each in reference.parameters() if each.grad is not None])
    # Gradients are sums over all nodes, so ten times as large as outputs.
    assert torch.allclose(ours.weights.grad[0], gradients, rtol=0, atol=10 * TOLERANCE)


def test_dropout_changes_the_logits_of_the_loss_alone() -> None:
    ours = network(0, dropout=0.5)
    loss, score = ours.epoch_logits()
    assert not torch.allclose(loss, score)
    assert torch.equal(score, ours.prediction_logits())


def test_a_network_continues_from_its_state() -> None:
    def step(networks: AttentionNetwork) -> None:
        networks.epoch_logits()[0].square().sum().backward()  # type: ignore[no-untyped-call]
        networks.step()

    whole, stopped = network(1, dropout=0.5), network(1, dropout=0.5)
    for _ in range(3):
        step(whole)
        step(stopped)
    resumed = network(1, dropout=0.5)
    resumed.resume({name: each.clone() for name, each in stopped.state().items()})
    for networks in (whole, resumed):
        for _ in range(3):
            step(networks)
    assert torch.equal(whole.weights, resumed.weights)


def test_a_graph_that_processes_may_share_is_trained_on_in_64_bits() -> None:
    """In 32 bits a hundred epochs amplify the order of sums, which depends on the number of processes."""
    edges = random_operators(0).graph.edges
    shards = ShardOperators(ShardGraph(num_nodes=NODES, edges=edges, identity="a graph"))
    with torch.random.fork_rng():
        shared = AttentionNetwork(shards, random_inputs(0), num_classes=CLASSES, settings=settings_of(0))
    loss, score = shared.epoch_logits()
    assert (shared.weights.dtype, loss.dtype, score.dtype) == (torch.float64, torch.float64, torch.float32)
    assert torch.allclose(score, network(0).prediction_logits(), rtol=0, atol=TOLERANCE)
    assert {each.dtype for each in shared.weights_by_replica()[0].values()} == {torch.float32}


def test_the_estimate_of_memory_counts_arriving_edges_and_loops_and_doubles_in_64_bits() -> None:
    operators = random_operators(0)
    directed, loops = 2 * operators.graph.num_edges, NODES
    # An edge has 4 rows of 4 heads x 16 units and 12 numbers for each head, a node 6 rows.
    assert attention_bytes(operators, CLASSES) == 4 * ((directed + loops) * (4 * 64 + 12 * 4) + 6 * loops * 64)
    shards = ShardGraph(num_nodes=NODES, edges=operators.graph.edges, identity="a graph")
    assert attention_bytes(ShardOperators(shards), CLASSES) == 2 * attention_bytes(operators, CLASSES)
    # With 100 classes, the backward pass of the second layer takes more than that of the first.
    assert attention_bytes(operators, 100) > attention_bytes(operators, CLASSES)


@pytest.mark.slow
def test_the_estimate_of_memory_is_what_training_takes(tmp_path: Path) -> None:
    out = tmp_path / "memory.json"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-m", "tests.support.attention_memory", out], env=environment, cwd=ROOT, check=True)
    for taken, expected in json.loads(out.read_text(encoding="ascii")):
        assert 1 / 1.5 < taken / expected < 1.5
