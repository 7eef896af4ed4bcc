"""FeatFree: inputs that nobody reports, smoothed over the graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from studies.rivals import FeatFree
from veilgraph.datasets import csbm
from veilgraph.errors import FitError
from veilgraph.experiments import simulate
from veilgraph.graph import Split
from veilgraph.models.base import FitTask
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.reconstruct.operators import GraphOperators

NODES = 60
PRIVATE = csbm(NODES, num_classes=2, num_features=0, seed=0)
SPLIT = Split.random(NODES, seed=0)
REPORTS = simulate(PRIVATE, PrivacyBudget(epsilon_y=2.0), SPLIT, rng=np.random.default_rng(0))
OPERATORS = GraphOperators(PRIVATE.graph)


def powers(count: int) -> list[torch.Tensor]:
    """Return S, ..., S^count as dense matrices."""
    matrix = OPERATORS.symmetric.matrix.to_dense().double()
    return [torch.linalg.matrix_power(matrix, power) for power in range(1, count + 1)]


def test_positions_are_the_rows_of_the_propagation_operator() -> None:
    mean = FeatFree(steps=3).network_inputs(REPORTS, OPERATORS)
    last = FeatFree(steps=3, smoother="kprop").network_inputs(REPORTS, OPERATORS)
    # Sums of at most 60 terms below 1 in single precision.
    assert torch.allclose(mean.double(), torch.stack(powers(3)).mean(0), atol=1e-6)
    assert torch.allclose(last.double(), powers(3)[-1], atol=1e-6)


def test_without_steps_positions_are_the_nodes_themselves() -> None:
    for smoother in ("hoa", "kprop"):
        inputs = FeatFree(steps=0, smoother=smoother).network_inputs(REPORTS, OPERATORS)
        assert torch.equal(inputs, torch.eye(NODES))


def test_random_inputs_have_a_seed_of_their_own_and_positions_have_none() -> None:
    drawn = [FeatFree(dimensions=8, seed=seed).network_inputs(REPORTS, OPERATORS) for seed in (0, 0, 1)]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    assert FeatFree(seed=0).input_settings() == FeatFree(seed=1).input_settings()
    assert FeatFree(dimensions=8, seed=0).input_settings() != FeatFree(dimensions=8, seed=1).input_settings()


def test_fits_that_differ_in_their_reports_share_positions_and_give_the_results_of_separate_fits() -> None:
    others = simulate(PRIVATE, PrivacyBudget(epsilon_y=2.0), SPLIT, rng=np.random.default_rng(1))
    tasks = [
        FitTask(method=FeatFree(epochs=5, device="cpu"), perturbed=each, split=SPLIT) for each in (REPORTS, others)
    ]
    (batch,) = FeatFree.fit_together(tasks)
    assert len(batch) == 2
    for task in tasks:
        alone = FeatFree(epochs=5, device="cpu").fit(task.perturbed, SPLIT)
        assert np.allclose(task.method.predict_proba(), alone.predict_proba(), atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dimensions": -1}, "dimensions is -1: it must be 0 or more"),
        ({"steps": -1}, "steps is -1: it must be 0 or more"),
        ({"smoother": "mean"}, "smoother is 'mean': choose hoa or kprop"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(FitError, match=message):
        FeatFree(**settings).fit(REPORTS, SPLIT)
