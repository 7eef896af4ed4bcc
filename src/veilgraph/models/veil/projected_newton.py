"""Newton's method for a few numbers, some of which must not be negative."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

_ITERATIONS, _HALVINGS = 60, 20
_TOLERANCE = 1e-9


class Slope(NamedTuple):
    """An objective at a point: its value, its gradient, and matrices to take for its curvature, the best first."""

    value: float
    gradient: Tensor
    curvatures: tuple[Tensor, ...]


def minimise(objective: Callable[[Tensor], Slope], start: Tensor, positive: int) -> tuple[Tensor, float]:
    """Where the objective is least, near `start`, and how small it is there; the first `positive` numbers stay >= 0.

    Bertsekas 1982: numbers at zero that would become negative rest, the others take a Newton step, which is cut at zero
    and halved until the objective falls.

    >>> def bowl(x):
    ...     away = x - torch.tensor([-1.0, 2.0])
    ...     return Slope(float(away.square().sum()), 2 * away, (2 * torch.eye(2),))
    >>> minimise(bowl, torch.tensor([1.0, 1.0]), positive=1)
    (tensor([0., 2.]), 1.0)
    """
    point, here = start, objective(start)
    for _ in range(_ITERATIONS):
        step = _newton_step(point, here, positive)
        for halving in range(_HALVINGS):
            moved = point + step / 2**halving
            moved[:positive].clamp_(min=0)
            if (there := objective(moved)).value < here.value:
                break
        else:
            break
        gained, point, here = here.value - there.value, moved, there
        if gained <= _TOLERANCE * abs(here.value):
            break
    return point, here.value


def _newton_step(point: Tensor, slope: Slope, positive: int) -> Tensor:
    resting = (point <= 0) & (slope.gradient > 0)
    resting[positive:] = False
    gradient = slope.gradient.masked_fill(resting, 0.0)
    either, identity = resting | resting.unsqueeze(1), torch.eye(len(point)).to(point)
    for curvature in slope.curvatures:
        factor, failed = torch.linalg.cholesky_ex(torch.where(either, identity, curvature))
        if not failed:
            return -torch.cholesky_solve(gradient.unsqueeze(1), factor).squeeze(1)
    return -gradient
