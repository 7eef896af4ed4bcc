"""Replica networks equal the networks of torch_geometric."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
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
from veilgraph.models.engine.backbones import CONVOLUTIONS, HIDDEN, ReplicaSettings
from veilgraph.models.engine.output_layer import ALL_NODES, NodeSubset, needed_nodes
from veilgraph.models.engine.replica_networks import ReplicaNetworks, stack_propagated_inputs
from veilgraph.reconstruct.operators import GraphOperators

NAMES = sorted(CONVOLUTIONS)


def stacked(
    name: str,
    operators: GraphOperators,
    inputs: list[Tensor],
    *replicas: ReplicaSettings,
    block_nodes: int | None = None,
    nodes: NodeSubset = ALL_NODES,
) -> ReplicaNetworks:
    convolution = CONVOLUTIONS[name]
    propagated = stack_propagated_inputs(convolution, operators, [partial(torch.clone, each) for each in inputs])
    return ReplicaNetworks(
        convolution,
        operators,
        propagated,
        num_classes=CLASSES,
        settings=replicas,
        loss_nodes=nodes,
        score_nodes=nodes,
        block_nodes=block_nodes,
    )


class TwoLayers(nn.Module):
    """The same network, with the layers of torch_geometric."""

    def __init__(self, name: str) -> None:
        super().__init__()
        layer = {"sage": layers.SAGEConv, "gcn": layers.GCNConv}[name]
        self.first, self.second = layer(COLUMNS, HIDDEN), layer(HIDDEN, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        scores: Tensor = self.second(self.first(x, edge_index).relu(), edge_index)
        return scores


def weights_of(reference: TwoLayers) -> dict[str, Tensor]:
    """Return the weights of a reference with the names and shapes of replica networks."""
    found: dict[str, Tensor] = {}
    for name, layer in (("first", reference.first), ("second", reference.second)):
        if isinstance(layer, layers.GCNConv):
            weight, bias = layer.lin.weight, layer.bias
        else:
            # Concatenated along inputs in the first layer, along outputs in the second.
            weight = torch.cat([layer.lin_l.weight, layer.lin_r.weight], dim=1 if name == "first" else 0)
            bias = layer.lin_l.bias
        found |= {f"{name}.weight": weight.detach(), f"{name}.bias": bias.detach().unsqueeze(1)}
    return found


def gradients_of(reference: TwoLayers) -> Tensor:
    """Return the gradients in the order of a replica's weights."""
    parts: list[Tensor] = []
    for name, layer in (("first", reference.first), ("second", reference.second)):
        if isinstance(layer, layers.GCNConv):
            parts += [layer.lin.weight.grad.flatten(), layer.bias.grad.flatten()]
        else:
            weight = torch.cat([layer.lin_l.weight.grad, layer.lin_r.weight.grad], dim=1 if name == "first" else 0)
            parts += [weight.flatten(), layer.lin_l.bias.grad.flatten()]
    return torch.cat(parts)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(4))
def test_outputs_and_gradients_equal_those_of_torch_geometric(name: str, seed: int) -> None:
    torch.manual_seed(seed)
    reference, operators, inputs = TwoLayers(name), random_operators(seed), random_inputs(seed)
    networks = stacked(name, operators, [inputs], settings_of(0))
    networks.load_weights(weights_of(reference))
    expected = reference(inputs, operators.edge_index)
    logits, evaluated = networks.epoch_logits()
    for found in (logits, evaluated, networks.prediction_logits()):
        assert found.shape == (1, CLASSES, NODES)
        assert torch.allclose(found[0].T, expected, rtol=0, atol=TOLERANCE)
    direction = torch.randn(NODES, CLASSES, generator=torch.Generator().manual_seed(seed))
    (expected * direction).sum().backward()
    (logits[0].T * direction).sum().backward()  # type: ignore[no-untyped-call]
    assert networks.weights.grad is not None
    # Gradients are sums over all nodes, so ten times as large as outputs.
    assert torch.allclose(networks.weights.grad[0], gradients_of(reference), rtol=0, atol=10 * TOLERANCE)
    assert networks.weights.grad.abs().max() > 0.1


@pytest.mark.parametrize("name", NAMES)
def test_initial_weights_have_the_distribution_of_torch_geometric(name: str) -> None:
    networks = stacked(name, random_operators(0), [random_inputs(0)], *(settings_of(seed) for seed in range(200)))
    torch.manual_seed(0)
    references = [weights_of(TwoLayers(name)) for _ in range(200)]
    for part, expected in references[0].items():
        ours = torch.stack([weights[part] for weights in networks.weights_by_replica()])
        theirs = torch.stack([reference[part] for reference in references])
        assert ours.shape[1:] == expected.shape
        bound = theirs.abs().max()
        # Of at least 600 uniform numbers the largest is within 1/60 of the bound, except with probability e^-10.
        assert ours.abs().max() == pytest.approx(float(bound), rel=1 / 50, abs=0)
        if bound > 0:  # A uniform number's square is (bound^2) / 3 on average, with deviation 0.3 bound^2.
            share = ours.square().mean() / bound**2
            assert abs(float(share) - 1 / 3) < 5 * 0.3 / math.sqrt(ours.numel()) + 1 / 60


def test_a_seed_decides_a_replicas_initial_weights() -> None:
    seeds = [0, 1, 0]
    networks = stacked("sage", random_operators(0), [random_inputs(0)], *map(settings_of, seeds))
    first, second, third = (weights["first.weight"] for weights in networks.weights_by_replica())
    assert torch.equal(first, third)
    assert (first != second).all()


def test_dropout_is_independent_of_the_initial_weights_of_the_same_seed() -> None:
    seeds = range(200)
    networks = stacked("sage", random_operators(0), [random_inputs(0)], *(settings_of(s, dropout=0.5) for s in seeds))
    weights = networks.weights.detach()[:, :16]
    masks = networks.dropout.masks(HIDDEN, NODES).flatten(1)[:, :64]
    correlations = torch.corrcoef(torch.cat([weights, masks], dim=1).T)[:16, 16:]
    # Of 200 independent pairs a correlation has deviation 200 ** -0.5; none of 1024 is off by 5.5, but for 4e-5.
    assert correlations.abs().max() < 5.5 / math.sqrt(200)


@pytest.mark.parametrize("name", NAMES)
def test_replicas_equal_separate_networks(name: str) -> None:
    # Six replicas, the first three on one input and the others on another, all with settings of their own.
    operators, inputs = random_operators(1), [random_inputs(0), random_inputs(1)]
    replicas = [
        settings_of(seed, dropout=dropout, learning_rate=rate, weight_decay=decay)
        for seed, dropout, rate, decay in (
            (0, 0.5, 0.01, 0.0),
            (1, 0.0, 0.03, 0.1),
            (0, 0.25, 0.01, 0.0),
            (2, 0.5, 0.02, 0.0),
            (3, 0.75, 0.01, 0.01),
            (1, 0.5, 0.001, 0.0),
        )
    ]
    together = stacked(name, operators, inputs, *replicas)
    alone = [stacked(name, operators, [inputs[number // 3]], each) for number, each in enumerate(replicas)]
    for _ in range(3):
        logits, evaluated = together.epoch_logits()
        logits.square().mean(dim=(1, 2)).sum().backward()  # type: ignore[no-untyped-call]
        together.step()
        for replica, network in enumerate(alone):
            own_logits, own_evaluated = network.epoch_logits()
            assert torch.allclose(logits[replica], own_logits[0], rtol=0, atol=TOLERANCE)
            assert torch.allclose(evaluated[replica], own_evaluated[0], rtol=0, atol=TOLERANCE)
            own_logits.square().mean().backward()  # type: ignore[no-untyped-call]
            network.step()


def test_dropout_acts_on_hidden_units_in_training_and_not_in_evaluation() -> None:
    operators, inputs = random_operators(2), random_inputs(2)
    networks = stacked("gcn", operators, [inputs], settings_of(0, dropout=0.5))
    _, evaluated = networks.epoch_logits()
    assert torch.equal(evaluated, networks.prediction_logits())
    # The mean over many masks is the output without dropout, to within the standard errors that the draws show.
    draws = 2000
    with torch.no_grad():
        logits = torch.stack([networks.epoch_logits()[0][0] for _ in range(draws)])
    error = logits.std(dim=0) / math.sqrt(draws)
    assert ((logits.mean(dim=0) - evaluated[0]).abs() <= 5 * error + TOLERANCE).all()
    assert error.max() > 0


def test_best_weights_are_restored_for_each_replica() -> None:
    networks = stacked("sage", random_operators(3), [random_inputs(3)], settings_of(0), settings_of(1))
    start = networks.prediction_logits()
    for marked in ([True, False], [False, True]):
        networks.epoch_logits()[0].square().sum().backward()  # type: ignore[no-untyped-call]
        networks.step()
        networks.keep_best(torch.tensor(marked))
        if marked[0]:
            after_one = networks.prediction_logits()
    after_two = networks.prediction_logits()
    networks.restore_best()
    restored = networks.prediction_logits()
    assert torch.equal(restored, torch.stack([after_one[0], after_two[1]]))
    assert (restored != start).any(dim=2).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_logits_and_gradients_of_a_subset_equal_those_of_all_nodes(name: str, dropout: float) -> None:
    operators, inputs = random_operators(0), [random_inputs(0), random_inputs(1)]
    replicas = [settings_of(seed, dropout=dropout) for seed in range(4)]
    random = np.random.default_rng(0)
    needed = [random.random(NODES) < share for share in (0.3, 0.1, 0.2, 0.1)]
    subset = needed_nodes(needed, operators)
    everywhere = stacked(name, operators, inputs, *replicas)
    some = stacked(name, operators, inputs, *replicas, nodes=subset)
    (logits, evaluated), (some_logits, some_evaluated) = everywhere.epoch_logits(), some.epoch_logits()
    assert some_logits.shape[2] == np.logical_or.reduce(needed).sum() < NODES
    for found, expected in ((some_logits, logits), (some_evaluated, evaluated), (some.score_logits(), evaluated)):
        assert torch.allclose(found, subset.select(expected), rtol=0, atol=TOLERANCE)
    direction = torch.randn(4, CLASSES, NODES, generator=torch.Generator().manual_seed(0))
    direction = direction * torch.from_numpy(np.stack(needed)).unsqueeze(1)
    (logits * direction).sum().backward()  # type: ignore[no-untyped-call]
    (some_logits * subset.select(direction)).sum().backward()  # type: ignore[no-untyped-call]
    assert everywhere.weights.grad is not None
    assert some.weights.grad is not None
    assert everywhere.weights.grad.abs().max() > 0.1
    assert torch.allclose(some.weights.grad, everywhere.weights.grad, rtol=0, atol=10 * TOLERANCE)
    assert torch.allclose(some.prediction_logits(), everywhere.prediction_logits(), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("block", [1, 7, NODES - 1, NODES])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_blocks_of_nodes_give_the_gradients_of_the_whole_graph(name: str, block: int, dropout: float) -> None:
    operators, inputs = random_operators(0), [random_inputs(0), random_inputs(1)]
    replicas = [settings_of(seed, dropout=dropout) for seed in range(4)]
    whole = stacked(name, operators, inputs, *replicas)
    parts = stacked(name, operators, inputs, *replicas, block_nodes=block)
    direction = torch.randn(4, CLASSES, NODES, generator=torch.Generator().manual_seed(0))
    for _ in range(3):  # weights and masks change, in the same way for both
        for expected, found in zip(whole.epoch_logits(), parts.epoch_logits(), strict=True):
            assert torch.allclose(found, expected, rtol=0, atol=TOLERANCE)
            if expected.requires_grad:
                (expected * direction).sum().backward()  # type: ignore[no-untyped-call]
                (found * direction).sum().backward()  # type: ignore[no-untyped-call]
        assert whole.weights.grad is not None
        assert parts.weights.grad is not None
        assert whole.weights.grad.abs().max() > 0.1
        assert torch.allclose(parts.weights.grad, whole.weights.grad, rtol=0, atol=10 * TOLERANCE)
        parts.weights.grad.copy_(whole.weights.grad)  # Adam's first steps amplify tiny differences
        whole.step()
        parts.step()
    assert torch.allclose(parts.prediction_logits(), whole.prediction_logits(), rtol=0, atol=TOLERANCE)
