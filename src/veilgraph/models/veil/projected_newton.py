"""Projected Newton method (Bertsekas 1982) for a few variables, some of which must not be negative."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

_MAX_ITERATIONS, _MAX_HALVINGS = 60, 20
_TOLERANCE = 1e-9


class Derivatives(NamedTuple):
    """An objective at a point.

    Attributes:
        value: Value of the objective.
        gradient: Gradient, [variables].
        hessians: Hessian and approximations to it [variables, variables], in order of preference.
    """

    value: float
    gradient: Tensor
    hessians: tuple[Tensor, ...]


def projected_newton(
    objective: Callable[[Tensor], Derivatives], start: Tensor, nonnegative: int
) -> tuple[Tensor, float]:
    """Minimise an objective from `start`, with the first `nonnegative` variables at or above 0.

    Variables at zero with a positive gradient stay there. The others take a Newton step, which is projected onto the
    constraints and halved until the objective decreases (Bertsekas 1982).

    Returns:
        The minimiser and the value of the objective there.

    >>> def bowl(x):
    ...     offset = x - torch.tensor([-1.0, 2.0])
    ...     return Derivatives(float(offset.square().sum()), 2 * offset, (2 * torch.eye(2),))
    >>> projected_newton(bowl, torch.tensor([1.0, 1.0]), nonnegative=1)
    (tensor([0., 2.]), 1.0)
    """
    point, here = start, objective(start)
    for _ in range(_MAX_ITERATIONS):
        step = _newton_step(point, here, nonnegative)
        for halvings in range(_MAX_HALVINGS):
            moved = point + step / 2**halvings
            moved[:nonnegative].clamp_(min=0)
            if (there := objective(moved)).value < here.value:
                break
        else:
            break
        decrease, point, here = here.value - there.value, moved, there
        if decrease <= _TOLERANCE * abs(here.value):
            break
    return point, here.value


def _newton_step(point: Tensor, derivatives: Derivatives, nonnegative: int) -> Tensor:
    """Return the step by the first Hessian that is positive definite, or the gradient step if none is."""
    fixed = (point <= 0) & (derivatives.gradient > 0)
    fixed[nonnegative:] = False
    gradient = derivatives.gradient.masked_fill(fixed, 0.0)
    fixed_pairs, identity = fixed | fixed.unsqueeze(1), torch.eye(len(point)).to(point)
    for hessian in derivatives.hessians:
        factor, failed = torch.linalg.cholesky_ex(torch.where(fixed_pairs, identity, hessian))
        if not failed:
            return -torch.cholesky_solve(gradient.unsqueeze(1), factor).squeeze(1)
    return -gradient
