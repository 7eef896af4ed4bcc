"""Newton's method with numbers that must not be negative."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from veilgraph.models.veil.projected_newton import Slope, minimise


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_at_the_minimum_numbers_are_stationary_or_rest_at_zero(count: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    factor = torch.randn(count + 2, count, generator=generator, dtype=torch.float64)
    matrix, target = factor.T @ factor + torch.eye(count), torch.randn(count, generator=generator, dtype=torch.float64)

    def bowl(point: Tensor) -> Slope:
        away = point - target
        return Slope(float(away @ matrix @ away) / 2, matrix @ away, (matrix,))

    positive = count - count // 3
    point, value = minimise(bowl, torch.ones(count, dtype=torch.float64), positive)
    gradient = bowl(point).gradient
    assert value == bowl(point).value
    assert (point[:positive] >= 0).all()
    assert torch.allclose(gradient[positive:], torch.zeros(count - positive, dtype=torch.float64), atol=1e-3)
    resting = point[:positive] == 0
    assert (gradient[:positive][resting] >= -1e-3).all()
    assert (gradient[:positive][~resting].abs() <= 1e-3).all()


def test_a_curvature_that_is_not_positive_is_passed_over() -> None:
    def valley(point: Tensor) -> Slope:
        return Slope(float((point.square() - 1).square().sum()), 4 * point * (point.square() - 1), curvatures(point))

    def curvatures(point: Tensor) -> tuple[Tensor, ...]:
        return (12 * point.square() - 4).diag(), (12 * point.square()).diag()

    point, value = minimise(valley, torch.tensor([0.1], dtype=torch.float64), positive=0)
    assert abs(float(point) - 1) < 1e-4
    assert value < 1e-8


def test_without_any_curvature_it_goes_downhill() -> None:
    point, _ = minimise(
        lambda x: Slope(float((x - 3).square().sum()), 2 * (x - 3), (-torch.eye(1),)), torch.zeros(1), positive=1
    )
    assert abs(float(point) - 3) < 1e-2
