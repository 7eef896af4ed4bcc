"""Projected Newton: stationary or at the bound, and safe without a positive definite Hessian."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from veilgraph.models.veil.projected_newton import Derivatives, projected_newton


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_at_the_minimum_variables_are_stationary_or_at_zero(count: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    factor = torch.randn(count + 2, count, generator=generator, dtype=torch.float64)
    matrix, target = factor.T @ factor + torch.eye(count), torch.randn(count, generator=generator, dtype=torch.float64)

    def bowl(point: Tensor) -> Derivatives:
        offset = point - target
        return Derivatives(float(offset @ matrix @ offset) / 2, matrix @ offset, (matrix,))

    nonnegative = count - count // 3
    point, value = projected_newton(bowl, torch.ones(count, dtype=torch.float64), nonnegative)
    gradient = bowl(point).gradient
    assert value == bowl(point).value
    assert (point[:nonnegative] >= 0).all()
    assert torch.allclose(gradient[nonnegative:], torch.zeros(count - nonnegative, dtype=torch.float64), atol=1e-3)
    bound = point[:nonnegative] == 0
    assert (gradient[:nonnegative][bound] >= -1e-3).all()
    assert (gradient[:nonnegative][~bound].abs() <= 1e-3).all()


def test_a_hessian_that_is_not_positive_definite_is_skipped() -> None:
    def valley(point: Tensor) -> Derivatives:
        return Derivatives(
            float((point.square() - 1).square().sum()), 4 * point * (point.square() - 1), hessians(point)
        )

    def hessians(point: Tensor) -> tuple[Tensor, ...]:
        return (12 * point.square() - 4).diag(), (12 * point.square()).diag()

    point, value = projected_newton(valley, torch.tensor([0.1], dtype=torch.float64), nonnegative=0)
    assert abs(float(point) - 1) < 1e-4
    assert value < 1e-8


def test_without_a_positive_definite_hessian_it_follows_the_gradient() -> None:
    point, _ = projected_newton(
        lambda x: Derivatives(float((x - 3).square().sum()), 2 * (x - 3), (-torch.eye(1),)),
        torch.zeros(1),
        nonnegative=1,
    )
    assert abs(float(point) - 3) < 1e-2
