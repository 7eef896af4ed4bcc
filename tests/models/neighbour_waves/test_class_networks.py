"""Networks of all folds follow their equation, node by node, and every different vector of columns is read once."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from veilgraph.models.neighbour_waves import class_networks
from veilgraph.models.neighbour_waves.class_networks import HIDDEN, Inputs, Weights, logits, train

NODES, CLASSES, COLUMNS, SHARES, NETWORKS = 40, 3, 4, 6, 2


@pytest.fixture
def columns() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 2, size=(NODES, CLASSES, COLUMNS)).astype(np.float32)


@pytest.fixture
def shares() -> np.ndarray:
    return np.random.default_rng(1).random((NODES, SHARES), dtype=np.float32)


def _weights() -> Weights:
    generator = torch.Generator().manual_seed(0)
    shapes = ((COLUMNS, HIDDEN), (1, HIDDEN), (HIDDEN, 1), (COLUMNS, 1), (SHARES, CLASSES), (1, CLASSES))
    return Weights(*(torch.randn(NETWORKS, *shape, generator=generator) for shape in shapes))


def _by_the_equation(weights: Weights, columns: np.ndarray, shares: np.ndarray) -> torch.Tensor:
    """Return logits [K, nodes, classes], one network, node and class after another, in 64 bits."""
    wide = Weights(*(each.double() for each in weights))
    result = torch.zeros(NETWORKS, NODES, CLASSES, dtype=torch.float64)
    for network in range(NETWORKS):
        for node in range(NODES):
            around = torch.from_numpy(shares[node]).double() @ wide.affinity[network]
            for label in range(CLASSES):
                vector = torch.from_numpy(columns[node, label]).double()
                hidden = vector @ wide.hidden[network] + wide.hidden_bias[network, 0]
                activated = hidden * torch.sigmoid(hidden)
                own = activated @ wide.output[network, :, 0] + vector @ wide.linear[network, :, 0]
                result[network, node, label] = own + around[label] + wide.bias[network, 0, label]
    return result


@pytest.mark.parametrize("block", [1, 7, 10_000])
def test_logits_follow_the_equation_in_blocks_of_any_size(
    columns: np.ndarray, shares: np.ndarray, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(class_networks, "BLOCK", block)
    weights = _weights()
    found = logits(weights, Inputs.of_columns(columns, shares))
    # Sums of at most 30 terms of magnitude 10, rounded to 2**-24.
    torch.testing.assert_close(found.mT.double(), _by_the_equation(weights, columns, shares), rtol=1e-5, atol=1e-4)


def test_different_vectors_are_kept_once(columns: np.ndarray, shares: np.ndarray) -> None:
    inputs = Inputs.of_columns(columns, shares)
    assert inputs.vectors.shape == (COLUMNS, 2**COLUMNS)  # all of them occur among 120
    np.testing.assert_array_equal(inputs.vectors.T[inputs.places.T], columns)
    np.testing.assert_array_equal(inputs.shares.T, shares)


def test_inputs_of_some_nodes_are_those_of_the_nodes_alone(columns: np.ndarray, shares: np.ndarray) -> None:
    some = torch.tensor([31, 4, 5])
    found, weights = Inputs.of_columns(columns, shares).of(some), _weights()
    alone = Inputs.of_columns(columns[some.numpy()], shares[some.numpy()])
    assert found.vectors.shape == alone.vectors.shape
    torch.testing.assert_close(logits(weights, found), logits(weights, alone), rtol=0, atol=1e-5)


def test_a_report_is_scored_by_the_network_that_did_not_read_it(
    columns: np.ndarray, shares: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(class_networks, "CHECK", class_networks.EPOCHS)  # all networks stop at the last epoch
    inputs, folds = Inputs.of_columns(columns, shares), torch.arange(NODES) % NETWORKS
    likelihood = torch.rand(NODES, CLASSES, generator=torch.Generator().manual_seed(1))
    prior = torch.full((CLASSES,), 1 / CLASSES)
    networks, own = train(inputs, likelihood, folds, prior, num_folds=NETWORKS, seed=0)
    assert own.shape == (NODES, CLASSES)
    others, changed = train(
        inputs, torch.where((folds == 0)[:, None], likelihood.flip(1), likelihood), folds, prior, num_folds=2, seed=0
    )
    torch.testing.assert_close(changed[folds == 0], own[folds == 0], rtol=0, atol=0)
    assert float((changed - own)[folds == 1].abs().max()) > 0.01
    assert all(torch.equal(before[0], after[0]) for before, after in zip(networks, others, strict=True))
