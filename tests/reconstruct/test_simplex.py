"""The projection onto the simplex is the nearest distribution."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from veilgraph.reconstruct.simplex import project_to_simplex

rows = st.integers(2, 8).flatmap(
    lambda size: st.lists(st.floats(-100, 100), min_size=size, max_size=size).map(
        lambda row: torch.tensor([row], dtype=torch.float64)
    )
)


@settings(deadline=None)
@given(estimates=rows)
def test_a_projection_is_a_distribution_and_its_own_projection(estimates: Tensor) -> None:
    projected = project_to_simplex(estimates)
    assert float(projected.min()) >= 0
    assert float(projected.sum()) == pytest.approx(1.0, abs=1e-12)
    torch.testing.assert_close(project_to_simplex(projected), projected, rtol=0, atol=1e-12)


@settings(deadline=None)
@given(estimates=rows, seed=st.integers(0, 2**32 - 1))
def test_no_distribution_is_nearer_than_the_projection(estimates: Tensor, seed: int) -> None:
    projected = project_to_simplex(estimates)
    size = estimates.shape[1]
    rng = np.random.default_rng(seed)
    others = np.concatenate([np.eye(size), rng.dirichlet(np.ones(size), 20), rng.dirichlet(np.full(size, 0.1), 20)])
    # Nearest in a convex set: from it, every other point lies at a right angle to the estimate or behind.
    beyond = (torch.from_numpy(others) - projected) @ (estimates - projected).T
    assert float(beyond.max()) <= 1e-9
    assert (torch.cdist(torch.from_numpy(others), estimates) >= torch.dist(projected, estimates) - 1e-9).all()


def test_a_projection_is_a_distribution_where_single_precision_ends() -> None:
    estimates = torch.tensor([[1e8, 0.0, 1.0], [-3e7, -3e7, -3e7], [1e30, -1e30, 0.0]])
    expected = torch.tensor([[1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3], [1.0, 0.0, 0.0]])
    torch.testing.assert_close(project_to_simplex(estimates), expected)


def test_projection_leaves_its_argument_as_it_is() -> None:
    estimates = torch.tensor([[1.2, -0.2]])
    project_to_simplex(estimates)
    assert estimates.tolist() == torch.tensor([[1.2, -0.2]]).tolist()
